#!/usr/bin/env python3
"""Lists the marks of the sources, one a line: what a campaign has to reach.

    tests/sim/list_marks.py > marks.txt
    build/release/tests/sim/sim --runs 5000 --quiet --marks marks.txt

With --groups those of mode groups, which runs nothing but groups/, and has its own campaign. Fails if a mark has no literal name (the simulator could not be asked for it) or stands twice.
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


def sources(is_groups):
    """Of mode groups, or of the other two."""
    for folder in [*FOLDERS, "groups"]:
        for path in sorted((ROOT / folder).rglob("*.c")):
            if is_groups == (folder == "groups" or path.name.startswith("groups_")):
                yield path


def main():
    names, wanted, errors = collections.Counter(), [], []
    for is_groups in (False, True):
        for path in sources(is_groups):
            for call in CALL.finditer(path.read_text()):
                found = NAME.findall(call.group(2))
                if not found:
                    errors.append(f"{path.relative_to(ROOT)}: a mark without a literal name: {call.group(0)}")
                names.update(found)
                wanted += found if is_groups == ("--groups" in sys.argv[1:]) else []
    errors += [f"a mark stands twice: {name}" for name, count in names.items() if count > 1]
    for error in errors:
        print(error, file=sys.stderr)
    print("\n".join(sorted(wanted)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
