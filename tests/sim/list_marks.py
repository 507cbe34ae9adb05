#!/usr/bin/env python3
"""Lists the marks of the sources, one a line: what a campaign has to reach.

    tests/sim/list_marks.py > marks.txt
    build/release/tests/sim/sim --runs 5000 --quiet --marks marks.txt

Fails if a mark has no literal name (the simulator could not be asked for it) or stands twice.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["core", "storage", "net", "cluster", "kafka", "admin", "broker", "tests/sim"]
# A call, not the macro's or the function's own definition, whose first argument is a declaration.
CALL = re.compile(r"\b(reached|sim_mark)\(((?:[^()]|\([^()]*\))*)\)\s*;")
NAME = re.compile(r'"([a-z0-9_]+)"')


def main():
    names, errors = collections.Counter(), []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.c")):
            for call in CALL.finditer(path.read_text()):
                found = NAME.findall(call.group(2))
                if not found:
                    errors.append(f"{path.relative_to(ROOT)}: a mark without a literal name: {call.group(0)}")
                names.update(found)
    errors += [f"a mark stands twice: {name}" for name, count in names.items() if count > 1]
    for error in errors:
        print(error, file=sys.stderr)
    print("\n".join(sorted(names)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
