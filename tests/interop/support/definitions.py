"""Any message of any version, from the same definitions the codec is generated from: dicts in, dicts
out. What a dict leaves out has its default."""
import pathlib
import re
import struct
import sys
import uuid

from . import wire
from .node import ROOT

sys.path.insert(0, str(ROOT / "kafka" / "proto"))
import generate  # noqa: E402  (kafka/proto/generate.py)

NUMBERS = {"bool": (wire.i8, wire.Reader.i8), "int8": (wire.i8, wire.Reader.i8), "int16": (wire.i16, wire.Reader.i16),
           "int32": (wire.i32, wire.Reader.i32), "int64": (wire.i64, wire.Reader.i64),
           "float64": (lambda v: struct.pack(">d", v), lambda r: struct.unpack(">d", r.take(8))[0]),
           "uint16": (lambda v: wire.i16(v - (v >> 15 << 16)), lambda r: r.i16() & 0xFFFF)}


def load(name):
    return generate.Parser(pathlib.Path(ROOT / "kafka/proto/defs" / f"{name}.def")).parse()


def has(versions, version):
    return versions[0] <= version <= versions[1]


class Codec:
    """One version of one API."""

    def __init__(self, api, version):
        self.api, self.version = api, version
        self.flexible = has(api.flexible, version)

    def length(self, count):
        if self.flexible:
            return wire.uvarint(count + 1)
        return wire.i32(count)

    def default(self, f):
        if f.is_array:
            return None if f.is_null_by_default else []
        if f.is_struct:
            return None if f.is_null_by_default else {}
        if f.type == "uuid":
            return uuid.UUID(int=0)
        if f.type == "string":
            return None if f.is_null_by_default else ""
        if f.type in ("bytes", "records"):
            return None if has(f.nullable, self.version) else b""
        return {"true": 1, "false": 0}.get(f.default, int(f.default) if (f.default or "").lstrip("-").isdigit() else 0)

    # ---- writing ----

    def write(self, message, value):
        out = b"".join(self.write_field(f, value.get(f.name, self.default(f)))
                       for f in message.plain() if has(f.versions, self.version))
        return out + (wire.NO_TAGS if self.flexible else b"")

    def write_field(self, f, value):
        if f.is_array:
            if value is None:
                return wire.uvarint(0) if self.flexible else wire.i32(-1)
            return self.length(len(value)) + b"".join(self.write_one(f, item) for item in value)
        if f.is_pointer:
            return wire.i8(-1) if value is None else wire.i8(1) + self.write_one(f, value)
        return self.write_one(f, value)

    def write_one(self, f, value):
        if f.is_struct:
            return self.write(f.struct, value)
        if f.type == "uuid":
            return value.bytes
        if f.type == "string":
            return wire.compact(value) if self.flexible else wire.string(value)
        if f.type in ("bytes", "records"):
            if value is None:
                return wire.uvarint(0) if self.flexible else wire.i32(-1)
            return self.length(len(value)) + value
        return NUMBERS[f.type][0](value)

    # ---- reading ----

    def read(self, message, r):
        value = {f.name: self.read_field(f, r) for f in message.plain() if has(f.versions, self.version)}
        if self.flexible:
            tagged = {f.tag: f for f in message.tagged() if has(f.versions, self.version)}
            for _ in range(r.uvarint()):
                tag, inner = r.uvarint(), None
                inner = wire.Reader(r.take(r.uvarint()))
                if tag in tagged:
                    value[tagged[tag].name] = self.read_field(tagged[tag], inner)
                    inner.end()
        return value

    def read_field(self, f, r):
        if f.is_array:
            count = r.uvarint() - 1 if self.flexible else r.i32()
            return None if count < 0 else [self.read_one(f, r) for _ in range(count)]
        if f.is_pointer and r.i8() < 0:
            return None
        return self.read_one(f, r)

    def read_one(self, f, r):
        if f.is_struct:
            return self.read(f.struct, r)
        if f.type == "uuid":
            return uuid.UUID(bytes=r.take(16))
        if f.type == "string":
            return r.compact() if self.flexible else r.string()
        if f.type in ("bytes", "records"):
            return r.compact_bytes() if self.flexible else r.bytes()
        return NUMBERS[f.type][1](r)


APIS = {}


def codec(name, version):
    if name not in APIS:
        APIS[name] = load(name)
    return Codec(APIS[name], version)


KEYS = {}


def name_of(key):
    """The name of an API as the definitions have it."""
    if not KEYS:
        for path in (ROOT / "kafka/proto/defs").glob("*.def"):
            KEYS[int(re.search(r"^api (\d+)", path.read_text(), re.M).group(1))] = path.stem
    return KEYS[key]


def send(connection, name, version, request):
    c = codec(name, version)
    return connection.send(c.api.key, version, c.write(c.api.request.root, request), c.flexible)


def receive(connection, name, version, correlation_id):
    """The answer as a dict; every byte of it must be accounted for."""
    c = codec(name, version)
    r = connection.receive()
    got = r.i32()
    if got != correlation_id:
        raise ValueError(f"correlation id {got}, wanted {correlation_id}")
    if c.flexible and name != "api_versions":
        r.tags()
    answer = c.read(c.api.response.root, r)
    r.end()
    return answer


def ask(connection, name, version, request):
    return receive(connection, name, version, send(connection, name, version, request))
