"""jinja2 as chat templates are rendered with it by Hugging Face transformers: the oracle.

Importing this needs jinja2.
"""
import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model wrote; renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class SafeDict:
    """dict() without the methods of the class."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """namespace() that refuses names with a leading underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if not isinstance(name, str) or name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def _raise(message):
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment(now=0):
    """The environment; strftime_now() shows `now`, in seconds since 1970."""
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(now).strftime(form)
    env.globals["dict"] = SafeDict()
    env.globals["namespace"] = Namespace
    return env


def compile_template(template, now=0):
    """A function from a context to ("output", text) or ("error", why)."""
    try:
        compiled = environment(now).from_string(template)
    except Exception as error:  # whatever it is, the template fails
        failure = "error", describe(error)
        return lambda context: failure

    def render(context):
        try:
            return "output", compiled.render(**context)
        except Exception as error:
            return "error", describe(error)

    return render


def describe(error):
    return f"{type(error).__name__}: {error}"
