"""Goal: a wrong definition is refused with its line, before it becomes wrong C.

Rows: the fields of a request, and what the generator says. Run by meson; needs the path of
kafka/proto as its argument.
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop())

import generate  # noqa: E402  (the path comes from the command line)
import generate_records  # noqa: E402

HEAD = "api 7 sample\nversions 1-5\nflexible 3+\n"
RESPONSE = "response {\n}\n"


def parse(text, module=generate):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sample.def"
        path.write_text(text)
        return module.Parser(path).parse()


def parse_fields(*fields):
    lines = "".join(f"    {field}\n" for field in fields)
    return parse(f"{HEAD}request {{\n{lines}}}\n{RESPONSE}")


class Refused(unittest.TestCase):
    def check(self, expected, *fields):
        with self.assertRaisesRegex(generate.DefinitionError, expected):
            generate.emit_source(parse_fields(*fields))

    def test_fields(self):
        self.check("not a field: 'Name string'", "Name string")
        self.check("not a field", "name string 3+ tag")
        self.check("not a field", "name string ignorable tag 0")
        self.check("no struct 'strin'", "name strin")
        self.check("versions 0 are not within 1-5", "name string 0")
        self.check("versions 4-6 are not within 1-5", "name string 4-6")
        self.check("versions 3-2 are not within 1-5", "name string 3-2")

    def test_null(self):
        self.check("null by default but never nullable", "name string = null")
        self.check("nullable struct 'cursor': '= null' only", "cursor cursor? {", "id int32", "}")
        self.check("versions 2-4 are not within 3-5", "name string?2-4 3+")
        self.check("'always' is for nullable structs", "cursor cursor? 3+ tag 0 = null {", "id int32", "}")
        self.check("'always' is for nullable structs", "name string? 3+ tag 0 = null always")

    def test_structs(self):
        self.check("defined twice", "topics []topic {", "id int32", "}",
                   "others []topic {", "id int32", "}")
        self.check("unused struct", "struct topic {", "id int32", "}")
        self.check("may take no bytes", "topics []topic {", "id int32 3+", "}")

    def test_tags(self):
        self.check("tags of .* are not 0, 1, 2", "a int32 3+ tag 1")
        self.check("tags of .* are not 0, 1, 2", "a int32 3+ tag 0", "b int32 3+ tag 0")
        self.check("before the first flexible version", "a int32 2+ tag 0")

    def test_file(self):
        with self.assertRaisesRegex(generate.DefinitionError, "expected 'versions ...'"):
            parse("api 1 sample\nflexible 3+\n")
        with self.assertRaisesRegex(generate.DefinitionError, "needs a request and a response"):
            parse(HEAD + RESPONSE)
        with self.assertRaisesRegex(generate.DefinitionError, "unexpected 'reply {'"):
            parse(HEAD + "reply {\n}\n")
        with self.assertRaisesRegex(generate.DefinitionError, "sample.def:5: .* is not closed"):
            parse(HEAD + "request {\n    id int32\n")


class Records(unittest.TestCase):
    HEAD = "versions 0-2\nflexible 2+\n"
    KEY = "key {\nid string\n}\n"

    def check(self, expected, text):
        with self.assertRaisesRegex(generate.DefinitionError, expected):
            parse(text, generate_records)

    def test_refused(self):
        self.check("expected 'record TYPE NAME' or 'data NAME'", "api 1 sample\n")
        self.check("expected 'key ...'", "record 1 sample\n" + self.HEAD + "value {\n}\n")
        self.check("expected 'content ...'", "data sample\n" + self.HEAD + "value {\n}\n")
        self.check("before the first flexible version",
                   "record 1 sample\n" + self.HEAD + "key {\nid string tag 0\n}\nvalue {\n}\n")
        self.check("unexpected 'key {'", "data sample\n" + self.HEAD + "content {\n}\n" + self.KEY)

    def test_accepted(self):
        record = parse("record 1 sample\n" + self.HEAD + self.KEY + "value {\nid int32 1+\n}\n", generate_records)
        self.assertEqual([side.name for side in record.sides()], ["sample_key", "sample_value"])
        self.assertEqual([side.flexible for side in record.sides()], [generate.NEVER, (2, generate.INF)])
        self.assertEqual((record.header, record.reads_newer), ("sample_record", False))
        data = parse("data sample\nversions 0-2 newer\nflexible none\ncontent {\n}\n", generate_records)
        self.assertEqual((data.header, data.reads_newer, data.value.name), ("sample", True, "sample"))


class Accepted(unittest.TestCase):
    def test_versions_are_inherited(self):
        api = parse_fields("topics []topic 2-4 {", "id int32", "name string 3+", "}")
        topic = api.request.structs[0]
        self.assertEqual(topic.name, "sample_request_topic")
        self.assertEqual([f.versions for f in topic.fields], [(2, 4), (3, 4)])

    def test_everything_on_one_line(self):
        field = parse_fields("name string?4+ 3+ tag 0 = null ignorable").request.root.fields[0]
        self.assertEqual(field.nullable, (4, 5))
        self.assertEqual(field.versions, (3, 5))
        self.assertEqual((field.tag, field.default, field.is_ignorable), (0, "null", True))

    def test_comments_belong_to_what_follows(self):
        api = parse_fields("# One.", "# Two.", "id int32", "", "# Lost.", "", "name string")
        self.assertEqual([f.comment for f in api.request.root.fields], [["One.", "Two."], []])

    def test_json_names_are_those_of_kafka(self):
        field = parse_fields("k_raft_version_feature int16").request.root.fields[0]
        self.assertEqual(field.json_name, "kRaftVersionFeature")

    def test_smallest_sizes(self):
        api = parse_fields("topics []topic {", "name string", "id uuid 4+", "parts []int32", "}")
        topic = api.request.structs[0]
        self.assertEqual(generate.wire_size_min(api, topic), 3)  # v3: two lengths and no tags.

    def test_unchanged_files_are_not_touched(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x"
            generate.write_if_changed(path, "same")
            before = path.stat().st_mtime_ns
            generate.write_if_changed(path, "same")
            self.assertEqual(path.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
