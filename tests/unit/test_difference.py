"""What moved between two keys is named, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.cache.difference import Moved, difference, direct_difference
from vxwatch.cache.key import task_key
from vxwatch.model import Globs, Task

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
    file = Moved("file", "lib/a", "changed", of="lib#build")
    found = moved({"upstream:lib#build": "lib1"}, {"upstream:lib#build": "lib2"})
    assert found == (Moved("upstream", "lib#build", "changed", (file,)),)
    # What follows the dot counts the runs of a task that says nothing about what it is made of.
    found = moved({"upstream:lib#build": "lib1.1"}, {"upstream:lib#build": "lib1"})
    assert found == (Moved("upstream", "lib#build", "changed"),)
    found = moved({"upstream:lib#build": "lost"}, {"upstream:lib#build": "lib2"})
    assert found == (Moved("upstream", "lib#build", "changed"),)


def test_what_moved_first_is_found_however_far_and_however_many_ways() -> None:
    known: dict[str, dict[str, str]] = {}
    far = 3000
    for version in "ab":
        known[f"0{version}"] = {"file:first": version}
        for n in range(1, far):
            below = f"{n - 1}{version}"
            known[f"{n}{version}"] = {f"upstream:{way}{n - 1}#t": below for way in "xy"}
    top = f"{far - 1}"
    found = difference({"upstream:t#t": f"{top}a"}, {"upstream:t#t": f"{top}b"}, known.get)
    (file,) = found[0].because
    assert (file.kind, file.name) == ("file", "first")
    del known["5a"]
    found = difference({"upstream:t#t": f"{top}a"}, {"upstream:t#t": f"{top}b"}, known.get)
    (lost,) = found[0].because
    assert (lost.kind, lost.name[1:], lost.of) == ("upstream", "5#t", f"{lost.name[0]}6#t")
    assert direct_difference({"upstream:t#t": "1"}, {"upstream:t#t": "2"})[0].because == ()


def test_a_variable_that_is_declared_but_unset_is_no_variable_that_was_set() -> None:
    assert moved({}, {"env:MODE": "unset"}) == (Moved("env", "MODE", "changed"),)


def test_files_are_told_apart_only_where_they_were_looked_at() -> None:
    task = Task("app", "build", "make")
    run = task_key(task, files={}, upstream={}, environ={}).components
    watch = task_key(task, files={"a": "1"}, upstream={}, environ={}).components
    later = task_key(task, files={"a": "2"}, upstream={}, environ={}).components
    assert moved(watch, run) == moved(run, watch) == ()
    assert moved(watch, later) == (Moved("file", "a", "changed"),)
    saved = Task("app", "build", "make", outputs=Globs(("dist/**",)))
    none = task_key(saved, files={}, upstream={}, environ={}).components
    some = task_key(saved, files={"a": "1"}, upstream={}, environ={}).components
    assert moved(none, some) == (Moved("file", "a", "added"),)


names = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))


@given(names, names, names, names)
def test_nothing_differs_where_keys_are_equal_and_something_where_not(
    files: dict[str, str], others: dict[str, str], set_: dict[str, str], reset: dict[str, str]
) -> None:
    task = Task("app", "build", "make", input_env=("a", "b", "c"), inputs=Globs(("*",)))
    one = task_key(task, files=files, upstream={}, environ=set_)
    two = task_key(task, files=others, upstream={}, environ=reset)
    assert (one.hex == two.hex) == (moved(one.components, two.components) == ())
