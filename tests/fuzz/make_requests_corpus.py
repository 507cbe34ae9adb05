"""Writes corpus/requests from the golden vectors: the "full" message of each API's newest version.

    make_requests_corpus.py

Re-run it when definitions or vectors change. Files that a fuzzer found and that are worth keeping
go to the same folder under a name of their own; they are left alone.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
DEFS = HERE.parent.parent / "kafka" / "proto" / "defs"


def headers():
    """(key, version) -> request header, from the vectors."""
    result = {}
    for line in (GOLDEN / "headers.txt").read_text().splitlines():
        if not line.startswith("#"):
            key, version, request, _ = line.split()
            result[int(key), int(version)] = bytes.fromhex(request)
    return result


def main():
    out = HERE / "corpus" / "requests"
    out.mkdir(parents=True, exist_ok=True)
    request_headers = headers()
    for definition in sorted(DEFS.glob("*.def")):
        api = definition.stem
        key = int(re.search(r"^api (\d+)", definition.read_text(), re.MULTILINE)[1])
        version = max(int(path.stem[1:]) for path in (GOLDEN / api).glob("v*.hex"))
        for line in (GOLDEN / api / f"v{version}.hex").read_text().splitlines():
            direction, kind, *digits = line.split()
            if kind != "full":
                continue
            body = bytes.fromhex("".join(digits))
            if direction == "request":
                data = b"\0" + request_headers[key, version] + body
            else:
                data = b"\1" + key.to_bytes(2, "big") + version.to_bytes(2, "big") + body
            (out / f"{api}_{direction}").write_bytes(data)


if __name__ == "__main__":
    main()
