#!/usr/bin/env python3
"""Recomputes the expected results in cases.json with jinja2.

Usage: refresh_cases.py [FILE_OF_NEW_CASES]. A file of new cases holds {"context", "template"} objects,
one a line, of which those not yet in the table are added. What an error says is not recorded, only that
there is one.
"""
import json
import os
import pathlib
import sys
import time

import reference

TABLE = pathlib.Path(__file__).with_name("cases.json")
NOW = 1893456000  # 2030-01-01 in UTC


def main():
    os.environ["TZ"] = "UTC"
    time.tzset()
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {"cases": []}
    cases = table["cases"]
    known = {(case["template"], json.dumps(case["context"])) for case in cases}
    for path in sys.argv[1:]:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            key = case["template"], json.dumps(case["context"])
            if key not in known:
                known.add(key)
                cases.append(case)
    rows = []
    for case in cases:
        kind, text = reference.compile_template(case["template"], NOW)(case["context"])
        row = {"template": case["template"], "context": case["context"]}
        row[kind] = text if kind == "output" else True
        rows.append(json.dumps(row, ensure_ascii=False))
    TABLE.write_text('{"now": %d, "cases": [\n%s\n]}\n' % (NOW, ",\n".join(rows)), encoding="utf-8")
    errors = sum('"error": true' in row for row in rows)
    print(f"{len(rows)} cases, {errors} of them errors")


if __name__ == "__main__":
    main()
