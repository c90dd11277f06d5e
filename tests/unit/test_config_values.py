"""What a config program may have for a value, and where in it the parts stand."""

import ast
import enum
import math
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.workspace.program_main import Lines, UnfitError, plain

PLAIN = st.recursive(
    st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Mode(enum.StrEnum):
    FAST = "fast"


@given(PLAIN)
def test_what_a_config_can_hold_stays_as_it_is(value: object) -> None:
    assert plain(value, ()) == value


def test_relatives_of_it_become_it() -> None:
    value = plain({"a": (1, [Mode.FAST]), Mode.FAST: True}, ())
    assert value == {"a": [1, ["fast"]], "fast": True}
    assert isinstance(value, dict)
    assert [type(name) for name in value] == [str, str]
    assert type(value["a"][1][0]) is str


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "at", "said"),
    [
        ({"tasks": {"a": {"timeout": None}}}, ("tasks", "a", "timeout"), "found None"),
        ({"a": [1, {2}]}, ("a", 1), "found a set"),
        ({"a": {1: 2}}, ("a",), "as the name of a field, found 1"),
        ({"a": math.nan}, ("a",), "found a float"),
        ({"a": math.inf}, ("a",), "found a float"),
        (b"x", (), "found a bytes"),
        (LOOP, (0, 0, 0), "is nested too deeply"),
    ],
    ids=str,
)
def test_what_no_config_can_hold(value: object, at: tuple[object, ...], said: str) -> None:
    with pytest.raises(UnfitError, match=said) as error:
        plain(value, ())
    assert error.value.at == at


PROGRAM = """\
import os
common = {
    "env": {"pass": ["CI"]},
    "a": 1,
}
tasks = dict(
    one={**common, "command": "x"},
    two={
        "command": "y",
    },
    three=make(),
)
tasks: dict = tasks
config = {
    "tasks": tasks,
    "tags": (
        "t",
    ),
    os.sep: 1,
}
"""


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ((), 14),
        (("tasks",), 15),
        (("tags",), 16),
        (("tags", 0), 17),
        (("zzz",), 14),
    ],
)
def test_lines(at: tuple[str | int, ...], line: int) -> None:
    text = PROGRAM.replace("tasks: dict = tasks\n", "\n")
    assert Lines(ast.parse(text)).of(at) == line


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("tasks", "one"), 7),
        (("tasks", "one", "command"), 7),
        (("tasks", "one", "env"), 3),
        (("tasks", "one", "env", "pass", 0), 3),
        (("tasks", "two", "command"), 9),
        (("tasks", "two", "zzz", 3), 8),
        (("tasks", "three", "command"), 11),
    ],
)
def test_lines_of_what_has_a_name(at: tuple[str | int, ...], line: int) -> None:
    text = PROGRAM.replace("tasks: dict = tasks\n", "\n")
    assert Lines(ast.parse(text)).of(at) == line


@pytest.mark.parametrize(
    "text",
    [
        "config = config",
        "a = b\nb = a\nconfig = a",
        "a = {'x': a}\nconfig = {'x': a}",
        "config = f'{1}'",
        "config = [*x, 1]",
        "x = 1",
        "config: dict",
        "config = " + "[" * 90 + "]" * 90,
    ],
)
def test_lines_of_odd_programs(text: str) -> None:
    assert Lines(ast.parse(textwrap.dedent(text))).of(("x", "x", "x")) >= 0
