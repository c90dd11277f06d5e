"""Lines of TOML keys: written cases, and every document a writer can make."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.config.faults import At
from vxwatch.config.lines import Lines, dotted

TEXT = '''# a comment with [brackets] = and "quotes
top = 1  # one
dotted.key = { a = 1, "b c" = [
  1,  # [ in a comment
  { deep = "]" },
] }

[tasks . "a.b"]
command = """
[not.a.table]
key = 1
"""""
next = \'\'\'
x = 2\'\'\'
when = 1979-05-27 07:32:00
last = [1, 2,
        3]

[[many]]
name = 1
[[many]]
name = 2
[many.sub]
x = "\\"]"
'''


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("top",), 2),
        (("dotted",), 3),
        (("dotted", "key"), 3),
        (("dotted", "key", "a"), 3),
        (("dotted", "key", "b c"), 3),
        (("dotted", "key", "b c", 0), 4),
        (("dotted", "key", "b c", 1), 5),
        (("dotted", "key", "b c", 1, "deep"), 5),
        (("tasks",), 8),
        (("tasks", "a.b"), 8),
        (("tasks", "a.b", "command"), 9),
        (("tasks", "a.b", "next"), 13),
        (("tasks", "a.b", "when"), 15),
        (("tasks", "a.b", "last", 1), 16),
        (("tasks", "a.b", "last", 2), 17),
        (("many", 0), 19),
        (("many", 1, "name"), 22),
        (("many", "sub", "x"), 24),
        # what is missing has the line of what is around it
        (("tasks", "a.b", "nothing"), 8),
        (("tasks", "a.b", "last", 1, "x"), 16),
        (("key",), 0),
        ((), 0),
    ],
    ids=str,
)
def test_lines(at: At, line: int) -> None:
    assert Lines(TEXT).of(at) == line
    assert Lines(TEXT.replace("\n", "\r\n")).of(at) == line


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ((), ""),
        (("a", "b-c", 0, "d"), "a.b-c[0].d"),
        (("tasks", "a.b"), 'tasks."a.b"'),
        (("a b",), '"a b"'),
        (("",), '""'),
        (('a"\\b',), '"a\\"\\\\b"'),
    ],
    ids=str,
)
def test_dotted(at: At, text: str) -> None:
    assert dotted(at) == text


def test_text_that_is_no_toml_has_no_lines_and_an_end() -> None:
    assert Lines("= 1").of(("a",)) == 0


def test_a_dotted_name_reads_back_as_toml() -> None:
    at = ("tasks", 'a."\\b', "x y")
    assert tomllib.loads(f"{dotted(at)} = 1") == {"tasks": {'a."\\b': {"x y": 1}}}


WORDS = st.text(st.sampled_from("ab.\"'#[]{}=,\\ \n"), max_size=5)
SCALARS = st.one_of(st.integers(), st.booleans(), WORDS.map(json.dumps))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(WORDS, inner, max_size=3),
    ),
    max_leaves=6,
)


class Writer:
    """Writes a document with every list item on a line of its own, and notes where."""

    def __init__(self) -> None:
        self.text = ""
        self.places: dict[At, int] = {}

    def line(self) -> int:
        return self.text.count("\n") + 1

    def write(self, document: dict[str, Any]) -> None:
        for i, (key, value) in enumerate(document.items()):
            at: At = (key,)
            if i % 2:
                self.text += f"[{json.dumps(key)}] # [x]\n"
                self.places[at] = self.line() - 1
                at = (key, "v")
            self.places[at] = self.line()
            self.text += f"{json.dumps(at[-1])} = "
            self.value(at, value)
            self.text += "\n"
            if i % 2:
                return

    def value(self, at: At, value: Any) -> None:
        if isinstance(value, list):
            self.text += "["
            for index, one in enumerate(value):
                self.text += "\n# ]\n "
                self.places[*at, index] = self.line()
                self.value((*at, index), one)
                self.text += ","
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for index, (key, one) in enumerate(value.items()):
                self.text += ", " if index else " "
                self.places[*at, key] = self.line()
                self.text += f"{json.dumps(key)} = "
                self.value((*at, key), one)
            self.text += " }"
        else:
            self.text += value if isinstance(value, str) else json.dumps(value)


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_every_place_of_a_written_document_is_found(document: dict[str, Any]) -> None:
    writer = Writer()
    writer.write(document)
    tomllib.loads(writer.text)
    lines = Lines(writer.text)
    assert {at: lines.of(at) for at in writer.places} == writer.places
