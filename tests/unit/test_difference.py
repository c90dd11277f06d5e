"""What moved between two keys is named, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.cache.difference import Moved, difference
from vxwatch.cache.key import task_key
from vxwatch.model import Task

KNOWN: dict[str, dict[str, str]] = {
    "lib1": {"file:lib/a": "1", "task": "lib#build"},
    "lib2": {"file:lib/a": "2", "task": "lib#build"},
}


def moved(before: dict[str, str], now: dict[str, str]) -> tuple[Moved, ...]:
    return difference(before, now, KNOWN.get)


def test_each_kind_is_named_the_most_telling_first() -> None:
    before = {"file:a": "1", "file:b": "1", "config:command": "make", "env:MODE": "unset"}
    now = {"file:a": "2", "file:c": "1", "config:command": "make x", "env:MODE": "d"}
    assert moved(before, now) == (
        Moved("config", "command", "changed"),
        Moved("env", "MODE", "added"),
        Moved("file", "a", "changed"),
        Moved("file", "b", "removed"),
        Moved("file", "c", "added"),
    )


def test_a_task_that_moved_says_why_as_far_as_that_is_known() -> None:
    file = Moved("file", "lib/a", "changed")
    found = moved({"upstream:lib#build": "lib1"}, {"upstream:lib#build": "lib2"})
    assert found == (Moved("upstream", "lib#build", "changed", (file,)),)
    # What follows the dot counts the runs of a task that says nothing about what it is made of.
    found = moved({"upstream:lib#build": "lib1.1"}, {"upstream:lib#build": "lib1"})
    assert found == (Moved("upstream", "lib#build", "changed"),)
    found = moved({"upstream:lib#build": "lost"}, {"upstream:lib#build": "lib2"})
    assert found == (Moved("upstream", "lib#build", "changed"),)


def test_it_is_followed_only_so_far() -> None:
    known = {f"{n}{v}": {"upstream:t#t": f"{n + 1}{v}"} for n in range(9) for v in "ab"}
    found = difference({"upstream:t#t": "0a"}, {"upstream:t#t": "0b"}, known.get, levels=2)
    assert found[0].because[0].because[0].because == ()


def test_a_variable_that_is_declared_but_unset_is_no_variable_that_was_set() -> None:
    assert moved({}, {"env:MODE": "unset"}) == (Moved("env", "MODE", "changed"),)


names = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))


@given(names, names, names, names)
def test_nothing_differs_where_keys_are_equal_and_something_where_not(
    files: dict[str, str], others: dict[str, str], set_: dict[str, str], reset: dict[str, str]
) -> None:
    task = Task("app", "build", "make", input_env=("a", "b", "c"))
    one = task_key(task, files=files, upstream={}, environ=set_)
    two = task_key(task, files=others, upstream={}, environ=reset)
    assert (one.hex == two.hex) == (moved(one.components, two.components) == ())
