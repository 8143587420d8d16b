#!/usr/bin/env python3
"""Renders every template of a folder over all conversations with jinja2 and with minfer.

Usage: compare_templates.py RENDER_TOOL TEMPLATE_FOLDER [--verbose]. Exit status 1 on any difference
(text not the same byte for byte, or only one of the two fails), 77 when jinja2 or the folder is missing.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

SKIP = 77
NOW = 1893456000  # 2030-01-01

try:
    import reference
except ImportError as missing:
    print(f"SKIPPED: {missing}; install python3-jinja2 to compare with the reference")
    sys.exit(SKIP)
import conversations


def segments_agree(result):
    """Segments must add up to the output, alternate, and not be empty."""
    text = "".join(s[0] for s in result["segments"])
    kinds = [s[1] for s in result["segments"]]
    return text == result["output"] and all(s[0] for s in result["segments"]) and all(
        a != b for a, b in zip(kinds, kinds[1:]))


def agree(kind, expected, ours):
    if kind == "output":
        return ours.get("output") == expected and segments_agree(ours)
    # What a template says through raise_exception reaches the user word for word.
    raised = "TemplateError: "
    message = expected.removeprefix(raised) if expected.startswith(raised) else ""
    return message in ours.get("error", "") and "error" in ours


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    verbose = "--verbose" in sys.argv
    templates = sorted(folder.glob("*.jinja")) if folder.is_dir() else []
    if not templates:
        print(f"SKIPPED: no templates in {folder}")
        return SKIP
    os.environ["TZ"] = "UTC"
    time.tzset()
    contexts = list(conversations.matrix())
    differences = rendered = failed = 0
    for path in templates:
        source = path.read_text(encoding="utf-8")
        cases = [{"template": source, "context": context, "now": NOW} for _, context in contexts]
        answer = subprocess.run([tool], input=json.dumps({"cases": cases}), text=True,
                                encoding="utf-8", capture_output=True, check=True)
        render = reference.compile_template(source, NOW)
        for (name, context), ours in zip(contexts, json.loads(answer.stdout)["results"]):
            kind, expected = render(context)
            rendered += kind == "output"
            failed += kind == "error"
            if agree(kind, expected, ours):
                continue
            differences += 1
            if differences <= 10 or verbose:
                print(f"DIFFERENT: {path.name} {name}\n  jinja2: {kind} {expected!r}\n"
                      f"  minfer: {ours.get('output', ours)!r}")
    print(f"{len(templates)} templates x {len(contexts)} conversations: {rendered} rendered, "
          f"{failed} failing in jinja2; {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
