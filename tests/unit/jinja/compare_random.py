#!/usr/bin/env python3
"""Renders random small templates with jinja2 and with minfer and reports where they differ.

Usage: compare_random.py RENDER_TOOL [--count N] [--seed S]. Exit status 1 on a difference, 77 when jinja2
is missing. A difference is printed with its template, ready for cases.json.
"""
import argparse
import copy
import json
import random
import re
import subprocess
import sys
import warnings

SKIP = 77
BATCH = 500

try:
    import reference
except ImportError as missing:
    print(f"SKIPPED: {missing}; install python3-jinja2 to compare with the reference")
    sys.exit(SKIP)

CONTEXT = {
    "s": "Hello, World", "u": "Éa ß漢🎉", "e": "", "n": None, "t": True, "f": False, "i": 3, "x": -2.5,
    "l": [3, "a", None, 1.5], "nums": [2, 7, 1], "words": ["b", "A", "c c", ""],
    "d": {"k": 1, "a": "v", "items": 2},
    "m": [{"role": "user", "content": " hi\n", "n": 1}, {"role": "assistant", "content": None}],
}
NAMES = list(CONTEXT) + ["zz", "loop", "ns", "v", "w"]
STRINGS = ["''", "'a'", "\"b'c\"", "'x\\ny'", "' p q '", "'é漢'", "'%s|%d'", "'{}-{}'", "','", "'A b-C'"]
NUMBERS = ["0", "1", "2", "-1", "3", "10", "1.5", "0.1", "1e20", "-0.5", "7"]
FILTERS = ["upper", "lower", "trim", "title", "capitalize", "length", "first", "last", "list", "string",
           "int", "float", "abs", "round", "join", "join(',')", "reverse", "sort", "unique", "sum", "min",
           "max", "tojson", "tojson(indent=1)", "default('D')", "default('D', true)", "items",
           "dictsort", "replace('a', 'Z')", "indent(1)", "indent(2, true)", "wordcount", "escape",
           "batch(2)", "slice(2)", "select", "reject('none')", "select('string')", "map('string')",
           "map(attribute='role')", "selectattr('n', 'defined')", "truncate(5)", "center(9)",
           "round(1)", "round(0, 'ceil')", "urlencode", "format(1, 2)", "attr('upper')", "count",
           "map('upper')", "groupby('role')", "sort(reverse=true)", "join('-', attribute='role')"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "odd",
         "even", "true", "false", "integer", "float", "boolean", "lower", "upper", "callable", "eq 1",
         "in l", "divisibleby 2", "ne 'a'", "gt 1", "sameas none"]
METHODS = ["upper()", "lower()", "strip()", "split()", "split(',')", "split(' ', 1)", "rsplit(none, 1)",
           "title()", "replace('l', 'L')", "startswith('H')", "endswith(('a', 'd'))", "find('o')", "items()",
           "keys()", "values()", "get('k')", "get('q', 9)", "count('a')", "index('a')", "isdigit()",
           "isalpha()", "splitlines()", "format(1, 'z')", "join(words)", "zfill(5)", "center(7)",
           "partition(',')", "lstrip('H')", "rfind('l')", "role", "content", "k", "0", "append(1)", "x",
           "swapcase()", "removeprefix('He')", "expandtabs(2)", "rjust(14, '.')", "capitalize()", "copy()"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def expr(self, depth=2):
        r = self.random.random()
        if depth <= 0 or r < 0.22:
            return self.pick([self.pick(NAMES), self.pick(NAMES), self.pick(STRINGS), self.pick(NUMBERS),
                              self.pick(["true", "none", "[]", "{}", "()"])])
        sub = lambda: self.expr(depth - 1)
        kind = self.pick(["binary", "binary", "filter", "filter", "filter", "method", "method", "test",
                          "not", "cond", "list", "dict", "tuple", "index", "slice", "paren", "neg",
                          "range", "chain", "call", "percent"])
        if kind == "binary":
            operator = self.pick(BINARY)
            if operator == "**":
                # Fractional powers of negative numbers are complex in Python, and jinja2 lets the sign of
                # a constant slip out of the base: -2 ** n is -(2 ** n), but -2 ** 2 is 4.
                return f"({self.pick(NAMES)}) ** {self.pick(['2', '3', '0', 'i', 'nums[0]'])}"
            return f"{sub()} {operator} {sub()}"
        if kind == "filter":
            return f"{self.wrap(sub())}|{self.pick(FILTERS)}"
        if kind == "method":
            return f"{self.wrap(sub())}.{self.pick(METHODS)}"
        if kind == "test":
            return f"{self.wrap(sub())} is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind == "not":
            return f"not {sub()}"
        if kind == "cond":
            return f"({sub()} if {sub()}{self.pick(['', f' else {sub()}'])})"
        if kind == "list":
            return "[" + ", ".join(sub() for _ in range(self.random.randrange(4))) + "]"
        if kind == "tuple":
            return "(" + "".join(sub() + ", " for _ in range(self.random.randrange(1, 3))) + ")"
        if kind == "dict":
            # Plain keys: jinja2 rejects constant keys that cannot be hashed even in dead code.
            key = lambda: self.pick(NAMES + STRINGS + NUMBERS)
            return "{" + ", ".join(f"{key()}: {sub()}" for _ in range(self.random.randrange(3))) + "}"
        if kind == "index":
            return f"{self.wrap(sub())}[{sub()}]"
        if kind == "slice":
            part = lambda: self.pick(["", "", "1", "-1", "2", "-2", "i", "none"])
            # Not of any expression: jinja2 treats slices of constants unlike those of variables.
            return f"{self.pick(NAMES)}[{part()}:{part()}{self.pick(['', ':' + part()])}]"
        if kind == "paren":
            return f"({sub()})"
        if kind == "neg":
            return f"-{sub()}"
        if kind == "range":
            return f"range({self.pick(['3', '1, 4', '5, 0, -2', 'i', sub()])})"
        if kind == "chain":
            return f"{sub()} {self.pick(['<', '<=', '=='])} {sub()} {self.pick(['<', '!='])} {sub()}"
        if kind == "percent":
            form = self.pick(["'%s'", "'%d'", "'%5.1f|'", "'%-4s|'", "'%r'", "'%x'", "'%s %s'", "'%%%c'"])
            return f"({form} % {self.wrap(sub())})"
        return self.pick([f"dict(a={sub()})", f"namespace(a={sub()}).a", f"dict({sub()})",
                          f"'{{:>6}}|{{!r}}'.format({sub()}, {sub()})", f"'{{0:.2f}}'.format({sub()})"])

    def wrap(self, expr):
        return expr if re.fullmatch(r"\w+|'[^']*'", expr) else f"({expr})"

    def tag(self, inside):
        return "{%" + self.pick(["", "", "-", "+"]) + f" {inside} " + self.pick(["", "", "-", "+"]) + "%}"

    def text(self):
        return self.pick(["", " ", "a", "\n", " \n ", "x\n  ", "\t", "<b>", "\n\n", " y ", "é"])

    def body(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.random.randrange(1, 3)))

    def statement(self, depth=3):
        r = self.random.random()
        if depth <= 0 or r < 0.4:
            return "{{" + self.pick(["", "-"]) + f" {self.expr()} " + self.pick(["", "-"]) + "}}"
        body = lambda: self.body(depth - 1) + self.text()
        kind = self.pick(["if", "if", "for", "for", "for", "set", "set", "setblock", "macro", "filter",
                          "comment", "raw", "generation", "with", "control", "ns", "call"])
        if kind == "if":
            other = self.pick(["", self.tag("else") + body(), self.tag(f"elif {self.expr(2)}") + body()])
            return self.tag(f"if {self.expr(2)}") + body() + other + self.tag("endif")
        if kind == "for":
            target, source = self.pick([("v", self.expr(2)), ("v", "nums"), ("v", "m"), ("v, w", "d.items()"),
                                        ("v", "words"), ("v", "range(3)"), ("v, w", self.expr(1))])
            guard = self.pick(["", "", f" if {self.expr(1)}"])
            loop = "{{ loop." + self.pick(["index", "last", "first", "revindex", "length", "previtem",
                                           "nextitem", "cycle(1, 2)", "changed(v)", "depth"]) + " }}"
            other = self.pick(["", self.tag("else") + body()])
            return self.tag(f"for {target} in {source}{guard}") + body() + self.pick(["", loop]) + other + \
                self.tag("endfor")
        if kind == "set":
            return self.tag(f"set {self.pick(['v', 'w', 's', 'v, w'])} = {self.expr()}")
        if kind == "ns":
            return self.tag("set ns = namespace(a=1)") + self.tag(f"set ns.a = {self.expr()}") + "{{ ns.a }}"
        if kind == "setblock":
            return self.tag("set v" + self.pick(["", " | upper", " | trim"])) + body() + self.tag("endset") + \
                "{{ v }}"
        if kind == "macro":
            return self.tag("macro mm(v, w=2)") + body() + self.tag("endmacro") + \
                "{{ " + self.pick(["mm()", "mm(1)", "mm(s, i)", "mm(w=3)", "mm(1, 2, 3)", "mm(q=1)"]) + " }}"
        if kind == "call":
            return self.tag("macro cc()") + "[{{ caller() }}]" + self.tag("endmacro") + self.tag("call cc()") + \
                body() + self.tag("endcall")
        if kind == "filter":
            return self.tag(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'title'])}") + body() + \
                self.tag("endfilter")
        if kind == "comment":
            return "{#" + self.pick(["", "-", "+"]) + " c " + self.pick(["", "-", "+"]) + "#}"
        if kind == "raw":
            return self.tag("raw") + " {{ x }}\n " + self.tag("endraw")
        if kind == "generation":
            return self.tag("generation") + body() + self.tag("endgeneration")
        if kind == "with":
            return self.tag(f"with v = {self.expr(1)}") + body() + self.tag("endwith")
        return self.tag(f"if {self.expr(1)}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")


# What no other engine can print the same: addresses, names of classes, integers past 127 bits.
INCOMPARABLE = re.compile(r"(?i)0x[0-9a-f]{6}|<gener|<class |object \w+\.|\d{36}")
OUT_OF_BOUNDS = ("RecursionError", "Exceeds the limit", "MemoryError")


def comparable(template, kind, text):
    if kind == "error":
        return not any(name in text for name in OUT_OF_BOUNDS)
    # The number of words in a generator's text depends on its address, too.
    return "wordcount" not in template and not INCOMPARABLE.search(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # the compiled templates are odd on purpose
    compared = failing = differences = 0
    for start in range(0, options.count, BATCH):
        templates = [Generator(options.seed * 1000003 + start + k).body(2) for k in range(BATCH)]
        cases = [{"template": template, "context": CONTEXT} for template in templates]
        answer = subprocess.run([options.tool], input=json.dumps({"cases": cases}), text=True,
                                encoding="utf-8", capture_output=True, check=True)
        for template, ours in zip(templates, json.loads(answer.stdout)["results"]):
            # A copy, since some filters of jinja2 change their input when it is of the wrong type.
            kind, expected = reference.compile_template(template)(copy.deepcopy(CONTEXT))
            if not comparable(template, kind, expected):
                continue
            compared += 1
            failing += kind == "error"
            same = ours.get("output") == expected if kind == "output" else "error" in ours
            if not same:
                differences += 1
                print(f"DIFFERENT: {json.dumps({'template': template}, ensure_ascii=False)}\n"
                      f"  jinja2: {kind} {expected!r}\n  minfer: {ours.get('output', ours)!r}")
    print(f"{compared} random templates compared, {failing} of them failing; {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
