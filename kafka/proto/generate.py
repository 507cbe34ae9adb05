"""Turns message definitions (defs/<api>.def, form: README.md) into C.

    generate.py OUT_DIR DEF...

For each API: <api>.h with structs and functions, <api>.c with the codec and the schema. Besides
api_keys.h and schema_table.c. A file whose text did not change is not touched. Records of internal
topics are made by generate_records.py, of the same parts.
"""

import dataclasses
import pathlib
import re
import sys

INF = 32767
NEVER = (1, 0)

# DSL type -> (C type, suffix of rbuf_/wbuf_ functions, bytes on the wire, schema type).
NUMBERS = {
    "bool": ("bool", "bool", 1, "BOOL"),
    "int8": ("int8_t", "i8", 1, "INT8"),
    "int16": ("int16_t", "i16", 2, "INT16"),
    "uint16": ("uint16_t", "u16", 2, "UINT16"),
    "int32": ("int32_t", "i32", 4, "INT32"),
    "int64": ("int64_t", "i64", 8, "INT64"),
    "float64": ("double", "f64", 8, "FLOAT64"),
}
SLICES = {"string": ("string", "STRING"), "bytes": ("bytes", "BYTES"),
          "records": ("records", "RECORDS")}
LIMITS = {2**31 - 1: "INT32_MAX", -2**31: "INT32_MIN", 2**63 - 1: "INT64_MAX", -2**63: "INT64_MIN"}


class DefinitionError(Exception):
    """Something in a .def file is wrong; the text says where."""


# --- Model -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Field:
    name: str
    type: str               # A number, a slice type, uuid, or a struct's short name.
    is_array: bool
    nullable: tuple         # Versions in which null is allowed.
    versions: tuple
    tag: int                # -1: none.
    default: str            # As written, or None.
    is_ignorable: bool
    is_long: bool           # A string that may be larger than WIRE_STRING_SIZE_MAX.
    is_always: bool         # A nullable struct with a tag: null is written too.
    comment: list
    struct: object = None   # The Struct of type, if it is one.

    @property
    def is_struct(self):
        return self.struct is not None

    @property
    def is_slice(self):
        return self.type in SLICES and not self.is_array

    @property
    def is_pointer(self):
        return self.is_struct and not self.is_array and self.nullable != NEVER

    @property
    def json_name(self):
        first, *rest = self.name.split("_")
        return first + "".join(part.capitalize() for part in rest)

    @property
    def is_null_by_default(self):
        return self.default == "null"


@dataclasses.dataclass
class Struct:
    short: str
    name: str
    versions: tuple
    fields: list
    comment: list

    def plain(self):
        return [f for f in self.fields if f.tag < 0]

    def tagged(self):
        return sorted((f for f in self.fields if f.tag >= 0), key=lambda f: f.tag)


@dataclasses.dataclass
class Message:
    root: Struct
    structs: list           # Inner ones first, the root last.


@dataclasses.dataclass
class Api:
    name: str
    key: int
    versions: tuple
    flexible: tuple
    stable_max: int
    comment: list
    request: Message = None
    response: Message = None

    def messages(self):
        return (self.request, self.response)

    def structs(self):
        return [s for m in self.messages() for s in m.structs]


# --- Reading definitions ---------------------------------------------------------------------

FIELD = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)\s+(?P<array>\[\])?(?P<type>[a-z][a-z0-9_]*)"
    r"(?P<null>\?(?P<nullable>[0-9]+(?:[-+][0-9]*)?)?)?"
    r"(?:\s+(?P<versions>[0-9]+(?:\+|-[0-9]+)?))?"
    r"(?:\s+tag\s+(?P<tag>[0-9]+))?"
    r"(?:\s+=\s+(?P<default>-?[0-9]+|null|true|false))?"
    r"(?:\s+(?P<ignorable>ignorable))?"
    r"(?:\s+(?P<long>long))?"
    r"(?:\s+(?P<always>always))?"
    r"(?:\s*(?P<open>\{))?$")


def parse_range(text, within):
    """'3', '3+' or '3-5' as an inclusive pair, '+' ending where within ends."""
    if text.endswith("+"):
        result = (int(text[:-1]), within[1])
    elif "-" in text:
        low, high = text.split("-")
        result = (int(low), int(high))
    else:
        result = (int(text), int(text))
    if not within[0] <= result[0] <= result[1] <= within[1]:
        raise DefinitionError(f"versions {text} are not within {within[0]}-{within[1]}")
    return result


class Parser:
    """One .def file; line by line, nesting by braces."""

    def __init__(self, path):
        self.path = path
        self.lines = path.read_text().splitlines()
        self.at = 0
        self.comment = []

    def parse(self):
        try:
            return self.parse_api()
        except (DefinitionError, ValueError) as e:
            raise DefinitionError(f"{self.path}:{self.at}: {e}") from e

    def next_line(self):
        """The next line with content, or None; comment lines before it go to self.comment."""
        self.comment = []
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            self.at += 1
            if line.startswith("#"):
                self.comment.append(line[1:].strip())
            elif line:
                return line
            else:
                self.comment = []
        return None

    def expect(self, word):
        line = self.next_line()
        if line is None or line.split()[0] != word:
            raise DefinitionError(f"expected '{word} ...', found '{line}'")
        return line.split()[1:]

    def parse_api(self):
        key, name = self.expect("api")
        comment = self.comment
        versions = parse_range(self.expect("versions")[0], (0, INF))
        flexible = self.expect("flexible")[0]
        api = Api(name=name, key=int(key), versions=versions, stable_max=versions[1],
                  flexible=NEVER if flexible == "none" else parse_range(flexible, (0, INF)),
                  comment=comment)
        while (line := self.next_line()) is not None:
            words = line.split()
            if words[0] == "unstable":
                api.stable_max = int(words[1]) - 1
            elif words == ["request", "{"]:
                api.request = self.parse_message(f"{name}_request", versions)
            elif words == ["response", "{"]:
                api.response = self.parse_message(f"{name}_response", versions)
            else:
                raise DefinitionError(f"unexpected '{line}'")
        if api.request is None or api.response is None:
            raise DefinitionError("an API needs a request and a response")
        check_tags(api.structs(), api.flexible)
        return api

    def parse_message(self, prefix, versions):
        message = Message(Struct(prefix, prefix, versions, [], self.comment), [])
        self.parse_fields(message.root, message, prefix)
        message.structs.append(message.root)
        resolve(message)
        return message

    def parse_fields(self, struct, message, prefix):
        while (line := self.next_line()) != "}":
            if line is None:
                raise DefinitionError(f"'{struct.short}' is not closed")
            if line.startswith("struct "):
                short = line.split()[1]
                inner = Struct(short, f"{prefix}_{short}", struct.versions, [], self.comment)
                self.parse_fields(inner, message, prefix)
                message.structs.append(inner)
            else:
                self.parse_field(line, struct, message, prefix)

    def parse_field(self, line, struct, message, prefix):
        match = FIELD.match(line)
        if match is None:
            raise DefinitionError(f"not a field: '{line}'")
        versions = struct.versions
        if match["versions"]:
            versions = parse_range(match["versions"], struct.versions)
        nullable = NEVER
        if match["null"]:
            nullable = parse_range(match["nullable"], versions) if match["nullable"] else versions
        field = Field(name=match["name"], type=match["type"], is_array=bool(match["array"]),
                      nullable=nullable, versions=versions,
                      tag=int(match["tag"]) if match["tag"] else -1, default=match["default"],
                      is_ignorable=bool(match["ignorable"]), is_long=bool(match["long"]),
                      is_always=bool(match["always"]), comment=self.comment)
        struct.fields.append(field)
        if match["open"]:
            inner = Struct(field.type, f"{prefix}_{field.type}", versions, [], [])
            self.parse_fields(inner, message, prefix)
            message.structs.append(inner)


def resolve(message):
    """Connects fields with their structs, orders structs by use, and checks what the C relies on."""
    by_name = {}
    for struct in message.structs:
        if struct.short in by_name:
            raise DefinitionError(f"struct '{struct.short}' is defined twice")
        by_name[struct.short] = struct
    for struct in message.structs:
        for field in struct.fields:
            is_scalar = field.type in NUMBERS or field.type in SLICES or field.type == "uuid"
            may_be_always = not is_scalar and not field.is_array and field.nullable != NEVER and field.tag >= 0
            if field.is_always != may_be_always:
                raise DefinitionError(f"'{field.name}': 'always' is for nullable structs with a tag")
            if is_scalar:
                continue
            if field.type not in by_name:
                raise DefinitionError(f"no struct '{field.type}' for field '{field.name}'")
            field.struct = by_name[field.type]
            if field.is_pointer and not field.is_null_by_default:
                raise DefinitionError(f"nullable struct '{field.name}': '= null' only")
        for field in struct.fields:
            if field.is_null_by_default and field.nullable == NEVER:
                raise DefinitionError(f"'{field.name}' is null by default but never nullable")
        tags = [f.tag for f in struct.tagged()]
        if tags != list(range(len(tags))):
            raise DefinitionError(f"tags of '{struct.short}' are not 0, 1, 2, ...")
    ordered = []

    def visit(struct):
        if struct not in ordered:
            for field in struct.fields:
                if field.is_struct:
                    visit(field.struct)
            ordered.append(struct)

    visit(message.root)
    if len(ordered) != len(message.structs):
        raise DefinitionError(f"unused struct in '{message.root.name}'")
    message.structs = ordered


def check_tags(structs, flexible):
    """Only flexible versions can carry tagged fields."""
    for struct in structs:
        for field in struct.tagged():
            if flexible == NEVER or field.versions[0] < flexible[0]:
                raise DefinitionError(f"'{field.name}' is tagged before the first flexible version")


# --- Sizes and conditions --------------------------------------------------------------------


def wire_size_min(api, struct):
    """Fewest bytes a struct takes in any version that has it: the cap of element counts."""
    sizes = []
    for version in range(struct.versions[0], struct.versions[1] + 1):
        flexible = is_within(version, api.flexible)
        size = 1 if flexible else 0
        for field in struct.plain():
            if is_within(version, field.versions):
                size += field_size_min(api, field, flexible)
        sizes.append(size)
    if min(sizes) == 0:
        raise DefinitionError(f"'{struct.name}' may take no bytes: its count would be unbounded")
    return min(sizes)


def field_size_min(api, field, flexible):
    if field.is_array:
        return 1 if flexible else 4
    return item_size_min(api, field, flexible) if not field.is_pointer else 1


def item_size_min(api, field, flexible):
    if field.type in NUMBERS:
        return NUMBERS[field.type][2]
    if field.type == "uuid":
        return 16
    if field.type in SLICES:
        return 1 if flexible else (2 if field.type == "string" else 4)
    return wire_size_min(api, field.struct)


def is_within(version, versions):
    return versions[0] <= version <= versions[1]


def condition(versions, within, subject):
    """C test that a version known to be within a range is in versions; None: always."""
    if versions == NEVER:
        return "false"
    tests = []
    if versions[0] > within[0]:
        tests.append(f"{subject}->version >= {versions[0]}")
    if versions[1] < within[1]:
        tests.append(f"{subject}->version <= {versions[1]}")
    if len(tests) == 2 and versions[0] == versions[1]:
        return f"{subject}->version == {versions[0]}"
    return " && ".join(tests) or None


def number(text):
    value = int(text)
    return LIMITS.get(value, str(value))


class Out:
    """Lines of C with indentation that follows the braces."""

    def __init__(self):
        self.lines = []
        self.depth = 0

    def __call__(self, *lines):
        for line in lines:
            if line.startswith("}"):
                self.depth -= 1
            is_label = line.startswith(("case ", "default:"))
            depth = self.depth - (1 if is_label else 0)
            self.lines.append("    " * depth + line if line else "")
            if line.endswith("{"):
                self.depth += 1

    def text(self):
        return "\n".join(self.lines) + "\n"


def block_comment(out, lines):
    if len(lines) == 1:
        out(f"/* {lines[0]} */")
    elif lines:
        out(f"/* {lines[0]}")
        for line in lines[1:]:
            out(f" * {line}".rstrip())
        out(" */")


def signature(head, parameters):
    """A function's first lines, broken as clang-format would; one column is kept for a ';'."""
    line = f"{head}({', '.join(parameters)})"
    if len(line) >= 100:
        pad = " " * (len(head) + 1)
        line = f"{head}({(',' + chr(10) + pad).join(parameters)})"
    return line


def function(out, head, parameters):
    out(signature(head, parameters), "{")


def declare(out, head, parameters):
    out(signature(head, parameters) + ";")


# --- Header ----------------------------------------------------------------------------------


def c_type(field):
    if field.type in NUMBERS:
        return NUMBERS[field.type][0] + " "
    if field.type == "uuid":
        return "struct uuid "
    if field.type in SLICES:
        return "struct slice "
    return f"struct {field.struct.name} "


def emit_struct(out, struct):
    block_comment(out, struct.comment)
    out(f"struct {struct.name} {{")
    for field in struct.fields:
        block_comment(out, field.comment)
        notes = describe(field, struct)
        star = "*" if field.is_array or field.is_pointer else ""
        text = f"{c_type(field)}{star}{field.name};"
        out(text + (f" /* {notes} */" if notes else ""))
        if field.is_array:
            out(f"size_t {field.name}_count;")
    if not struct.fields:
        out("char nothing; /* C wants a member. */")
    out("};", "")


def show_versions(versions, within):
    if versions[1] == within[1]:
        return f"v{versions[0]}+"
    return f"v{versions[0]}" if versions[0] == versions[1] else f"v{versions[0]}-{versions[1]}"


def describe(field, struct):
    notes = []
    if field.versions != struct.versions:
        notes.append(show_versions(field.versions, struct.versions))
    if field.nullable == field.versions:
        notes.append("or null")
    elif field.nullable != NEVER:
        notes.append(f"or null in {show_versions(field.nullable, struct.versions)}")
    if field.default is not None:
        notes.append(f"default {field.default}")
    return ", ".join(notes)


def emit_header_start(comment, definition):
    out = Out()
    block_comment(out, comment + [
        "",
        f"Generated from kafka/proto/defs/{definition}.def; kafka/proto/README.md says how to use it.",
        "",
        "Shard: any; owns nothing."])
    out("#pragma once", "",
        "#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", "",
        '#include "core/arena.h"', '#include "core/err.h"', '#include "core/ids.h"',
        '#include "core/rbuf.h"', '#include "core/slice.h"', '#include "core/wbuf.h"',
        '#include "kafka/proto/schema.h"', '#include "kafka/proto/wire.h"', "")
    return out


def emit_structs(out, messages):
    """The structs of messages, and their _init functions."""
    for message in messages:
        for struct in message.structs:
            emit_struct(out, struct)
    for message in messages:
        for struct in message.structs:
            out(f"void {struct.name}_init(struct {struct.name} *m);")
        out("")


def emit_header(api):
    out = emit_header_start(api.comment, api.name)
    upper = api.name.upper()
    out("enum {",
        f"{upper}_VERSION_MIN = {api.versions[0]},",
        f"{upper}_VERSION_MAX = {api.stable_max},",
        "};", "")
    emit_structs(out, api.messages())
    for message in api.messages():
        for head, parameters in api_functions(message):
            declare(out, head, parameters)
        out("")
    out(f"extern const struct schema_api {upper}_API;")
    return out.text()


def api_functions(message):
    """Heads and parameters of what a message offers."""
    name = message.root.name
    write = ["int16_t version", f"const struct {name} *in"]
    result = [
        (f"enum err {name}_decode", ["struct rbuf *body", "int16_t version", "struct arena *a",
                                     f"struct {name} *ret_message"]),
        (f"enum err {name}_encode", ["struct wbuf *w"] + write),
        (f"void {name}_dump", ["struct wbuf *w"] + write),
    ]
    if has_records(message.root):
        result.append((f"enum err {name}_encode_refs",
                       ["struct wbuf *w", "struct wire_refs *refs"] + write))
    return result


def has_records(struct):
    return any(f.type == "records" or (f.is_struct and has_records(f.struct))
               for f in struct.fields)


# --- Defaults --------------------------------------------------------------------------------


def emit_init(out, struct):
    function(out, f"void {struct.name}_init", [f"struct {struct.name} *m"])
    values = default_values(struct)
    if values:
        out(f"*m = (struct {struct.name}){{", *values, "};")
    else:
        out(f"*m = (struct {struct.name}){{0}};")
    for field in struct.fields:
        if field.is_struct and not field.is_array and not field.is_pointer:
            out(f"{field.struct.name}_init(&m->{field.name});")
    out("}", "")


def default_values(struct):
    """Initialisers of the members whose default is not all zero bits."""
    values = []
    for field in struct.fields:
        if field.is_array and not field.is_null_by_default:
            values.append(f".{field.name} = wire_empty_array(),")
        elif field.is_slice and not field.is_null_by_default:
            values.append(f".{field.name} = wire_empty(),")
        elif field.type in NUMBERS and not field.is_array and field.default not in (None, "0"):
            default = field.default if field.type == "bool" else number(field.default)
            values.append(f".{field.name} = {default},")
    return values


def not_default(field, value):
    """C test that a field differs from its default."""
    if field.is_array:
        if field.nullable == NEVER:
            return f"{value}_count != 0"
        return f"{value} != NULL" if field.is_null_by_default else f"!is_empty({value}, {value}_count)"
    if field.is_pointer:
        return f"{value} != NULL"
    if field.is_struct:
        return f"!is_default_{field.struct.name}(&{value})"
    if field.type in SLICES:
        if field.nullable == NEVER:
            return f"{value}.size != 0"
        if field.is_null_by_default:
            return f"{value}.data != NULL"
        return f"!is_empty({value}.data, {value}.size)"
    if field.type == "uuid":
        return f"!uuid_is_zero(&{value})"
    if field.type == "bool":
        return f"!{value}" if field.default == "true" else value
    return f"{value} != {number(field.default or '0')}"


def must_be_default(field, struct):
    """Whether a value is refused in the versions that lack the field."""
    return field.versions != struct.versions and not field.is_ignorable


def structs_compared(structs):
    """Structs that need an is_default function, inner ones first."""
    needed = []

    def need(struct):
        for field in struct.fields:
            if field.is_struct and not field.is_array and not field.is_pointer:
                need(field.struct)
        if struct not in needed:
            needed.append(struct)

    for struct in structs:
        for field in struct.fields:
            if field.is_struct and not field.is_array and not field.is_pointer:
                if field.tag >= 0 or must_be_default(field, struct):
                    need(field.struct)
    return needed


def emit_is_default(out, struct):
    function(out, f"static bool is_default_{struct.name}", [f"const struct {struct.name} *in"])
    tests = [f"({not_default(f, 'in->' + f.name)})" for f in struct.fields]
    out("return !(" + (" || ".join(tests) or "false") + ");", "}", "")


# --- Decoding --------------------------------------------------------------------------------


def nullable_here(field, within, subject):
    test = condition(field.nullable, within, subject)
    return "true" if test is None else test


def read_item(field, target):
    if field.type in NUMBERS:
        return f"{target} = rbuf_{NUMBERS[field.type][1]}(r->in);"
    if field.type == "uuid":
        return f"{target} = rbuf_uuid(r->in);"
    return f"read_{field.struct.name}(r, &{target});"


def emit_read_array(out, api, field):
    name = field.name
    size = min(item_size_min(api, field, flexible) for flexible in flexibilities(api, field))
    out(f"static_assert(sizeof(*ret->{name}) <= (size_t){size} * WIRE_EXPANSION_MAX, "
        '"memory bound");')
    out(f"const struct wire_array {name} =",
        f"    wire_read_array(r, {nullable_here(field, field.versions, 'r')}, "
        f"sizeof(*ret->{name}), {size});",
        f"ret->{name} = {name}.items;",
        f"ret->{name}_count = {name}.count;",
        f"for (size_t i = 0; i < {name}.count && wire_is_ok(r); i++) {{")
    if field.type in SLICES:
        out(f"ret->{name}[i] = wire_read_{field.type}(r, false);")
    else:
        out(read_item(field, f"ret->{name}[i]"))
    out("}")


def flexibilities(api, field):
    return {is_within(v, api.flexible) for v in range(field.versions[0], field.versions[1] + 1)}


def emit_read_field(out, api, field):
    target = f"ret->{field.name}"
    if field.is_array:
        emit_read_array(out, api, field)
    elif field.type in SLICES:
        kind = ("long_string" if field.is_long else "string") if field.type == "string" else "bytes"
        out(f"{target} = wire_read_{kind}(r, {nullable_here(field, field.versions, 'r')});")
    elif field.is_pointer:
        if field.nullable != field.versions:
            raise DefinitionError(f"nullable struct '{field.name}' must be so in all its versions")
        kind = "tagged_nullable" if field.tag >= 0 else "nullable"
        out(f"{target} = wire_read_{kind}(r, sizeof(*{target}));",
            f"if ({target} != NULL) {{", read_item(field, f"(*{target})"), "}")
    else:
        out(read_item(field, target))


def emit_read(out, api, struct):
    if struct.tagged():
        emit_read_tags(out, api, struct)
    function(out, f"static void read_{struct.name}",
             ["struct wire_reader *r", f"struct {struct.name} *ret"])
    out(f"{struct.name}_init(ret);")
    for field in struct.plain():
        test = condition(field.versions, struct.versions, "r")
        if test is not None:
            out(f"if ({test}) {{")
        elif field.is_array:
            out("{")
        emit_read_field(out, api, field)
        if test is not None or field.is_array:
            out("}")
    action = f"read_{struct.name}_tags(r, ret);" if struct.tagged() else "wire_skip_tags(r);"
    emit_if_flexible(out, api, struct, "r", action)
    out("}", "")


def emit_if_flexible(out, api, struct, subject, action):
    if struct.versions[0] >= api.flexible[0] and api.flexible != NEVER:
        out(action)
    elif api.flexible != NEVER and struct.versions[1] >= api.flexible[0]:
        out(f"if ({subject}->is_flexible) {{", action, "}")


def emit_read_tags(out, api, struct):
    function(out, f"static void read_{struct.name}_tags",
             ["struct wire_reader *r", f"struct {struct.name} *ret"])
    out("struct wire_tags tags = wire_read_tags(r);",
        "while (wire_next_tag(r, &tags)) {")
    for index, field in enumerate(struct.tagged()):
        known = [f"tags.tag == {field.tag}"]
        test = condition(field.versions, (max(struct.versions[0], api.flexible[0]),
                                          struct.versions[1]), "r")
        if test is not None:
            known.append(test)
        out(("if (" if index == 0 else "} else if (") + " && ".join(known) + ") {")
        emit_read_field(out, api, field)
    out("} else {", "wire_skip_tag(r);", "}", "}", "}", "")


# --- Encoding --------------------------------------------------------------------------------


def write_item(field, value, is_pointer=False):
    if field.type in NUMBERS:
        return f"wbuf_{NUMBERS[field.type][1]}(w->out, {value});"
    if field.type == "uuid":
        return f"wbuf_uuid(w->out, &{value});"
    return f"write_{field.struct.name}(w, {value if is_pointer else '&' + value});"


def emit_write_field(out, field):
    value = f"in->{field.name}"
    nullable = nullable_here(field, field.versions, "w")
    if field.is_array:
        out(f"if (wire_write_count(w, {value}, {value}_count, {nullable})) {{",
            f"for (size_t i = 0; i < {value}_count; i++) {{")
        if field.type in SLICES:
            out(f"wire_write_{field.type}(w, {value}[i], false);")
        else:
            out(write_item(field, f"{value}[i]"))
        out("}", "}")
    elif field.type in SLICES:
        out(f"wire_write_{'long_' if field.is_long else ''}{field.type}(w, {value}, {nullable});")
    elif field.is_pointer:
        kind = "tagged_nullable" if field.tag >= 0 else "nullable"
        out(f"if (wire_write_{kind}(w, {value})) {{", write_item(field, value, True), "}")
    else:
        out(write_item(field, value))


def emit_write(out, api, struct):
    if struct.tagged():
        emit_write_tags(out, api, struct)
    function(out, f"static void write_{struct.name}",
             ["struct wire_writer *w", f"const struct {struct.name} *in"])
    uses_in = bool(struct.fields)
    if not uses_in:
        out("(void)in;")
    for field in struct.plain():
        test = condition(field.versions, struct.versions, "w")
        if test is None:
            emit_write_field(out, field)
            continue
        out(f"if ({test}) {{")
        emit_write_field(out, field)
        if must_be_default(field, struct):
            out(f"}} else if ({not_default(field, 'in->' + field.name)}) {{", "wire_refuse(w);")
        out("}")
    for field in struct.tagged():
        test = condition(field.versions, struct.versions, "w")
        if test is not None and must_be_default(field, struct):
            out(f"if (!({test}) && ({not_default(field, 'in->' + field.name)})) {{",
                "wire_refuse(w);", "}")
    action = f"write_{struct.name}_tags(w, in);" if struct.tagged() else "wbuf_uvarint(w->out, 0);"
    emit_if_flexible(out, api, struct, "w", action)
    out("}", "")


def emit_write_tags(out, api, struct):
    function(out, f"static void write_{struct.name}_tags",
             ["struct wire_writer *w", f"const struct {struct.name} *in"])
    within = (max(struct.versions[0], api.flexible[0]), struct.versions[1])
    for field in struct.tagged():
        test = "true" if field.is_always else not_default(field, f"in->{field.name}")
        versions = condition(field.versions, within, "w")
        if versions is not None:
            test = f"{versions} && ({test})"
        out(f"const bool has_{field.name} = {test};")
    names = [f"has_{f.name}" for f in struct.tagged()]
    out("wbuf_uvarint(w->out, (uint32_t)(" + " + ".join(names) + "));")
    for field in struct.tagged():
        out(f"if (has_{field.name}) {{",
            f"const size_t pos = wire_begin_tag(w, {field.tag});")
        emit_write_field(out, field)
        out("wire_end_tag(w, pos);", "}")
    out("}", "")


# --- Schema ----------------------------------------------------------------------------------


def schema_type(field):
    if field.type in NUMBERS:
        return NUMBERS[field.type][3]
    if field.type == "uuid":
        return "UUID"
    return SLICES[field.type][1] if field.type in SLICES else "STRUCT"


def emit_schema(out, struct):
    name = struct.name
    out(f"static void init_any_{name}(void *message)", "{", f"{name}_init(message);", "}", "")
    if struct.fields:
        out(f"static const struct schema_field {name}_fields[] = {{")
        for field in struct.fields:
            emit_schema_field(out, struct, field)
        out("};", "")
    fields = f"{name}_fields" if struct.fields else "NULL"
    out(f"static const struct schema_struct {name}_schema = {{",
        f'.name = "{name}",', f".size = sizeof(struct {name}),", f".fields = {fields},",
        f".fields_count = {len(struct.fields)},", f".init = init_any_{name},", "};", "")


def emit_schema_field(out, struct, field):
    out("{",
        f'.name = "{field.json_name}",', f".type = SCHEMA_{schema_type(field)},",
        f".tag = {field.tag},",
        f".versions = {{{field.versions[0]}, {field.versions[1]}}},",
        f".nullable = {{{field.nullable[0]}, {field.nullable[1]}}},",
        f".pos = offsetof(struct {struct.name}, {field.name}),")
    if field.is_array:
        out(".is_array = true,",
            f".count_pos = offsetof(struct {struct.name}, {field.name}_count),")
    if field.is_pointer:
        out(".is_pointer = true,")
    if field.is_always:
        out(".is_always = true,")
    if field.is_null_by_default:
        out(".is_null_by_default = true,")
    elif field.default is not None:
        out(".default_number = "
            + (field.default if field.type == "bool" else number(field.default)) + ",")
    if field.is_struct:
        out(f".of = &{field.struct.name}_schema,")
    out("},")


# --- Functions of a message and the API ------------------------------------------------------


def emit_api_functions(out, api, message):
    name = message.root.name
    heads = api_functions(message)
    emit_decode(out, api, message.root, heads[0])
    function(out, f"static enum err encode_{name}",
             ["struct wbuf *w", "struct wire_refs *refs", "int16_t version",
              f"const struct {name} *in"])
    emit_version_check(out, api)
    out("struct wire_writer writer = {",
        ".out = w,", ".refs = refs,", ".version = version,",
        f".is_flexible = version >= {api.name.upper()}_API.flexible_min,", "};",
        f"write_{name}(&writer, in);",
        "return wbuf_failure(w);", "}", "")
    function(out, *heads[1])
    out(f"return encode_{name}(w, NULL, version, in);", "}", "")
    function(out, *heads[2])
    out(f"schema_dump(w, &{name}_schema, version, in);", "}", "")
    if len(heads) > 3:
        function(out, *heads[3])
        out(f"return encode_{name}(w, refs, version, in);", "}", "")
    function(out, f"static enum err decode_any_{name}",
             ["struct rbuf *body", "int16_t version", "struct arena *a", "void *ret_message"])
    out(f"return {name}_decode(body, version, a, ret_message);", "}", "")
    function(out, f"static enum err encode_any_{name}",
             ["struct wbuf *w", "int16_t version", "const void *message"])
    out(f"return {name}_encode(w, version, message);", "}", "")


def emit_version_check(out, api):
    out(f"if (!schema_api_has(&{api.name.upper()}_API, version)) {{",
        "return ERR_UNSUPPORTED;", "}")


def emit_decode(out, api, root, head):
    function(out, *head)
    emit_version_check(out, api)
    out("struct wire_reader r = {",
        ".in = body,", ".arena = a,", ".version = version,",
        f".is_flexible = version >= {api.name.upper()}_API.flexible_min,", "};",
        f"struct {root.name} message;",
        f"read_{root.name}(&r, &message);")
    if root is api.request.root:
        out("/* As in Kafka, what a client sends behind a request does no harm. */",
            "const enum err e = body->failure;")
    else:
        out("const enum err e = rbuf_finish(body);")
    out(
        "if (e == ERR_OK) {", "*ret_message = message;", "}", "return e;", "}", "")


def emit_source_start(header, definition):
    out = Out()
    out(f"/* Generated from kafka/proto/defs/{definition}.def. */",
        f'#include "kafka/proto/{header}.h"', "",
        "#include <assert.h>", "",
        '#include "kafka/proto/wire.h"', "")
    return out


def emit_codec(out, sides):
    """What reads and writes the structs. Sides: (what says .flexible, its structs)."""
    structs = [s for _, side_structs in sides for s in side_structs]
    for struct in structs:
        emit_init(out, struct)
    body = Out()
    for struct in structs_compared(structs):
        emit_is_default(body, struct)
    for side, side_structs in sides:
        for struct in side_structs:
            emit_read(body, side, struct)
    for side, side_structs in sides:
        for struct in side_structs:
            emit_write(body, side, struct)
    if "is_empty(" in body.text():
        out("/* Neither null nor with content: the default of nullable strings and arrays. */",
            "static bool is_empty(const void *data, size_t size)", "{",
            "return data != NULL && size == 0;", "}", "")
    out.lines += body.lines
    for struct in structs:
        emit_schema(out, struct)


def emit_source(api):
    out = emit_source_start(api.name, api.name)
    emit_codec(out, [(api, api.structs())])
    for message in api.messages():
        emit_api_functions(out, api, message)
    emit_api(out, api)
    return out.text()


def emit_api(out, api):
    out(f"const struct schema_api {api.name.upper()}_API = {{",
        f".key = {api.key},", f'.name = "{api.name}",',
        f".version_min = {api.versions[0]},", f".version_max = {api.versions[1]},",
        f".version_stable_max = {api.stable_max},",
        f".flexible_min = {'INT16_MAX' if api.flexible == NEVER else api.flexible[0]},")
    for direction, message in (("request", api.request), ("response", api.response)):
        name = message.root.name
        out(f".{direction} = {{", f".root = &{name}_schema,", f".decode = decode_any_{name},",
            f".encode = encode_any_{name},", "},")
    out("};")


# --- Files for all APIs ----------------------------------------------------------------------


def emit_keys(apis):
    out = Out()
    out("/* Generated from kafka/proto/defs: the number of each API on the wire. */",
        "#pragma once", "", "enum api_key {")
    out(*(f"API_{api.name.upper()} = {api.key}," for api in apis))
    out("};")
    return out.text()


def emit_table(apis):
    out = Out()
    out("/* Generated from kafka/proto/defs. */", '#include "kafka/proto/schema.h"', "")
    out(*(f'#include "kafka/proto/{api.name}.h"' for api in sorted(apis, key=lambda a: a.name)))
    out("", "const struct schema_api *const SCHEMA_APIS[] = {")
    out(*(f"&{api.name.upper()}_API," for api in apis))
    out("};", "", "const size_t SCHEMA_APIS_COUNT = sizeof(SCHEMA_APIS) / sizeof(SCHEMA_APIS[0]);")
    return out.text()


def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(arguments):
    out_dir = pathlib.Path(arguments[0])
    try:
        apis = sorted((Parser(pathlib.Path(p)).parse() for p in arguments[1:]), key=lambda a: a.key)
        for api in apis:
            write_if_changed(out_dir / f"{api.name}.h", emit_header(api))
            write_if_changed(out_dir / f"{api.name}.c", emit_source(api))
    except DefinitionError as e:
        print(e, file=sys.stderr)
        return 1
    write_if_changed(out_dir / "api_keys.h", emit_keys(apis))
    write_if_changed(out_dir / "schema_table.c", emit_table(apis))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
