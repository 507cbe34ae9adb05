"""Writes the client library's public face from the headers that the tree itself uses: one header
that includes nothing of ours, and the linker's list of the functions declared in it.

    export.py ROOT HEADER-OUT MAP-OUT HEADERS...
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'#include "([^"]+)"\n')
SYSTEM = re.compile(r"#include <([^>]+)>\n")
ERROR = re.compile(r"X\((\w+)\)\s*(/\*.*?\*/)")
FUNCTION = re.compile(r"^(?!static\b|typedef\b)\w[^;{}=()#]*?\b(\w+)\([^;{}]*\);", re.MULTILINE)


def inline(root, name, seen, system):
    """The header's text with ours in place of their #include lines, each once."""
    if name in seen:
        return ""
    seen.add(name)
    text = (root / name).read_text()
    system.update(SYSTEM.findall(text))
    text = SYSTEM.sub("", text).replace("#pragma once\n", "")
    return INCLUDE.sub(lambda match: inline(root, match[1], seen, system), text).strip() + "\n\n"


def expand_errors(text):
    """The table of errors as a plain enum: the macros are not for others."""
    begin = text.index("#define ERR_TABLE(X)")
    end = text.index("};", begin) + len("};")
    errors = ERROR.findall(text[begin:end])
    lines = [f"    ERR_{name}, {comment}" for name, comment in errors]
    return text[:begin] + "enum err {\n" + "\n".join(lines) + "\n};" + text[end:]


def main():
    root, header, symbols, names = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    seen, system = set(), set()
    text = expand_errors("".join(inline(root, name, seen, system) for name in names))
    includes = "".join(f"#include <{name}>\n" for name in sorted(system))
    pathlib.Path(header).write_text("/* Coreflume's client library. Generated: do not edit. */\n#pragma once\n\n"
                                    + includes + "\n" + text.rstrip() + "\n")
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    functions = sorted(set(FUNCTION.findall(bare)))
    pathlib.Path(symbols).write_text("{\nglobal:\n" + "".join(f"    {name};\n" for name in functions)
                                     + "local:\n    *;\n};\n")


if __name__ == "__main__":
    main()
