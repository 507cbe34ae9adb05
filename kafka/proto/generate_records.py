"""Turns definitions of records (defs/records/<name>.def, form: README.md) into C.

    generate_records.py OUT_DIR DEF...

For each record of an internal topic <name>_record.h and .c, for data that travels as bytes inside
of a message <name>.h and .c; besides record_types.h and record_table.c.
"""

import dataclasses
import pathlib
import sys

import generate
from generate import NEVER, INF, DefinitionError, declare, function, write_if_changed

KEY_VERSIONS = (0, 0)


@dataclasses.dataclass
class Side:
    """Key, value or content: what generate's emitters want to know of an API."""
    message: generate.Message
    versions: tuple
    flexible: tuple

    @property
    def name(self):
        return self.message.root.name


@dataclasses.dataclass
class Record:
    name: str
    type: int               # -1: data, which has no key.
    versions: tuple         # Of the value.
    flexible: tuple
    reads_newer: bool       # Versions above the highest are read as the highest.
    comment: list
    key: Side = None
    value: Side = None

    def sides(self):
        return [s for s in (self.key, self.value) if s is not None]

    @property
    def header(self):
        return self.name if self.type < 0 else f"{self.name}_record"

    @property
    def constant(self):
        return self.header.upper()


class Parser(generate.Parser):
    """One .def file with a record or data."""

    def parse_api(self):
        line = self.next_line() or ""
        words = line.split()
        comment = self.comment
        if words[:1] == ["record"]:
            record_type, name = int(words[1]), words[2]
        elif words[:1] == ["data"]:
            record_type, name = -1, words[1]
        else:
            raise DefinitionError(f"expected 'record TYPE NAME' or 'data NAME', found '{line}'")
        words = self.expect("versions")
        versions = generate.parse_range(words[0], (0, INF))
        flexible = self.expect("flexible")[0]
        record = Record(name=name, type=record_type, versions=versions,
                        flexible=NEVER if flexible == "none" else generate.parse_range(flexible, (0, INF)),
                        reads_newer=words[1:] == ["newer"], comment=comment)
        if record.type >= 0:
            self.expect("key")
            record.key = self.parse_side(f"{name}_key", KEY_VERSIONS, NEVER)
        self.expect("value" if record.type >= 0 else "content")
        root = f"{name}_value" if record.type >= 0 else name
        record.value = self.parse_side(root, versions, record.flexible)
        line = self.next_line()
        if line is not None:
            raise DefinitionError(f"unexpected '{line}'")
        return record

    def parse_side(self, root, versions, flexible):
        message = self.parse_message(root, versions)
        generate.check_tags(message.structs, flexible)
        return Side(message, versions, flexible)


# --- Header ----------------------------------------------------------------------------------


def head_of_decode(side):
    return (f"enum err {side.name}_decode",
            ["struct rbuf *bytes", "struct arena *a", f"struct {side.name} *ret_message"])


def head_of_encode(side, record):
    parameters = ["struct wbuf *w", "int16_t version", f"const struct {side.name} *in"]
    if side is record.key:
        del parameters[1]
    return (f"enum err {side.name}_encode", parameters)


def emit_header(record):
    out = generate.emit_header_start(record.comment, f"records/{record.name}")
    out("enum {", f"{record.value.name.upper()}_VERSION_MAX = {record.versions[1]},", "};", "")
    generate.emit_structs(out, [side.message for side in record.sides()])
    for side in record.sides():
        out("/* With the int16 of its type before it. */" if side is record.key
            else "/* With the int16 of its version before it. */")
        declare(out, *head_of_decode(side))
        declare(out, *head_of_encode(side, record))
        out("")
    out(f"extern const struct schema_record {record.constant};")
    return out.text()


# --- Source ----------------------------------------------------------------------------------


def emit_read_any(out, side, record):
    """Without the int16 before it, behind untyped pointers."""
    function(out, f"static enum err decode_any_{side.name}",
             ["struct rbuf *body", "int16_t version", "struct arena *a", "void *ret_message"])
    lowest, highest = side.versions
    limit = "" if record.reads_newer else f" || version > {highest}"
    out(f"if (version < {lowest}{limit}) {{", "return ERR_UNSUPPORTED;", "}",
        "struct wire_reader r = {",
        ".in = body,", ".arena = a,",
        f".version = version < {highest} ? version : {highest},")
    out(f".is_flexible = {is_flexible(side)},", "};",
        f"struct {side.name} message;",
        f"read_{side.name}(&r, &message);")
    if record.reads_newer:
        out("/* A newer version may go on behind what is known here. */",
            "const enum err e = body->failure;")
    else:
        out("const enum err e = rbuf_finish(body);")
    out("if (e == ERR_OK) {", f"*(struct {side.name} *)ret_message = message;", "}", "return e;", "}", "")


def is_flexible(side):
    return "false" if side.flexible == NEVER else f"version >= {side.flexible[0]}"


def emit_write_any(out, side):
    function(out, f"static enum err encode_any_{side.name}",
             ["struct wbuf *w", "int16_t version", "const void *message"])
    lowest, highest = side.versions
    out(f"if (version < {lowest} || version > {highest}) {{", "return ERR_UNSUPPORTED;", "}",
        "struct wire_writer writer = {",
        ".out = w,", ".version = version,", f".is_flexible = {is_flexible(side)},", "};",
        f"write_{side.name}(&writer, message);",
        "return wbuf_failure(w);", "}", "")


def emit_functions(out, side, record):
    emit_read_any(out, side, record)
    emit_write_any(out, side)
    function(out, *head_of_decode(side))
    out("const int16_t before = rbuf_i16(bytes);",
        "if (bytes->failure != ERR_OK) {", "return bytes->failure;", "}")
    if side is record.key:
        out(f"if (before != {record.type}) {{", "return ERR_UNSUPPORTED;", "}",
            f"return decode_any_{side.name}(bytes, 0, a, ret_message);", "}", "")
    else:
        out(f"return decode_any_{side.name}(bytes, before, a, ret_message);", "}", "")
    function(out, *head_of_encode(side, record))
    if side is record.key:
        out(f"wbuf_i16(w, {record.type});", f"return encode_any_{side.name}(w, 0, in);", "}", "")
    else:
        out("wbuf_i16(w, version);", f"return encode_any_{side.name}(w, version, in);", "}", "")


def emit_source(record):
    out = generate.emit_source_start(record.header, f"records/{record.name}")
    generate.emit_codec(out, [(side, side.message.structs) for side in record.sides()])
    for side in record.sides():
        emit_functions(out, side, record)
    out(f"const struct schema_record {record.constant} = {{",
        f".type = {record.type},", f'.name = "{record.name}",',
        f".versions = {{{record.versions[0]}, {record.versions[1]}}},",
        f".flexible_min = {'INT16_MAX' if record.flexible == NEVER else record.flexible[0]},")
    if record.reads_newer:
        out(".reads_newer = true,")
    for direction, side in (("key", record.key), ("value", record.value)):
        if side is not None:
            out(f".{direction} = {{", f".root = &{side.name}_schema,",
                f".decode = decode_any_{side.name},", f".encode = encode_any_{side.name},", "},")
    out("};")
    return out.text()


# --- Files for all records -------------------------------------------------------------------


def emit_types(records):
    out = generate.Out()
    out("/* Generated from kafka/proto/defs/records: the number at the start of a record's key. */",
        "#pragma once", "", "enum record_type {")
    out(*(f"RECORD_{record.name.upper()} = {record.type}," for record in records if record.type >= 0))
    out("};")
    return out.text()


def emit_table(records):
    out = generate.Out()
    out("/* Generated from kafka/proto/defs/records. */", '#include "kafka/proto/schema.h"', "")
    out(*(f'#include "kafka/proto/{record.header}.h"'
          for record in sorted(records, key=lambda r: r.header)))
    out("", "const struct schema_record *const SCHEMA_INTERNAL_RECORDS[] = {")
    out(*(f"&{record.constant}," for record in records))
    out("};", "",
        "const size_t SCHEMA_INTERNAL_RECORDS_COUNT = sizeof(SCHEMA_INTERNAL_RECORDS) / sizeof(SCHEMA_INTERNAL_RECORDS[0]);")
    return out.text()


def main(arguments):
    out_dir = pathlib.Path(arguments[0])
    try:
        records = sorted((Parser(pathlib.Path(p)).parse() for p in arguments[1:]),
                         key=lambda r: (r.type, r.name))
        for record in records:
            write_if_changed(out_dir / f"{record.header}.h", emit_header(record))
            write_if_changed(out_dir / f"{record.header}.c", emit_source(record))
    except DefinitionError as e:
        print(e, file=sys.stderr)
        return 1
    write_if_changed(out_dir / "record_types.h", emit_types(records))
    write_if_changed(out_dir / "record_table.c", emit_table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
