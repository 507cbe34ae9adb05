"""Writes corpus/requests from the golden vectors: the "full" message of each API's newest version,
and of each record's.

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


def write_records(out):
    """Keys as 2 and what is on disk, values as 3, type and what is on disk; data has types -1, -2, ..."""
    data_type = 0
    for definition in sorted((DEFS / "records").glob("*.def")):
        name = definition.stem
        match = re.search(r"^record (\d+)", definition.read_text(), re.MULTILINE)
        data_type -= match is None
        record_type = (int(match[1]) if match else data_type).to_bytes(2, "big", signed=True)
        folder = GOLDEN / "records" / name
        version = max(int(path.stem[1:]) for path in folder.glob("v*.hex"))
        lines = (folder / "v0.hex").read_text().splitlines() + (folder / f"v{version}.hex").read_text().splitlines()
        for line in lines:
            side, kind, digits = line.split()
            if kind == "full" and side == "key":
                (out / f"{name}_key").write_bytes(b"\2" + record_type + bytes.fromhex(digits))
            elif kind == "full":
                body = version.to_bytes(2, "big") + bytes.fromhex(digits)
                (out / f"{name}_value").write_bytes(b"\3" + record_type + body)


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
    write_records(out)


if __name__ == "__main__":
    main()
