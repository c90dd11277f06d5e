"""What may have been changed and changed back is read once more, and no more than once."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.session.undone import Undone

PATHS = st.frozensets(st.sampled_from("abc"))


def test_it_runs_once_more_for_what_somebody_undid() -> None:
    undone = Undone()
    assert undone.once_more("t", ["a"]) == {"a"}
    assert undone.once_more("t", []) == frozenset()
    assert undone.once_more("t", ["a"]) == {"a"}
    assert undone.once_more("other", ["a"]) == {"a"}


def test_what_it_does_in_that_run_too_is_its_own_work_from_then_on() -> None:
    undone = Undone()
    assert undone.once_more("t", ["a"]) == {"a"}
    assert undone.once_more("t", ["a", "b"]) == {"b"}
    assert undone.once_more("t", ["a", "b"]) == frozenset()
    assert undone.once_more("t", ["a", "b", "c"]) == {"c"}


def test_what_git_does_is_never_taken_for_its_work() -> None:
    undone = Undone()
    assert undone.once_more("t", ["a"], git=True) == {"a"}
    assert undone.once_more("t", ["a"], git=True) == {"a"}
    assert undone.once_more("t", ["a"]) == frozenset()
    assert undone.once_more("t", ["a"], git=True) == {"a"}


def test_what_may_be_its_work_is_known_until_it_shows_that_it_is_not() -> None:
    undone = Undone()
    assert not undone.may_be_own("t", ["a"])
    undone.once_more("t", ["a"])
    assert undone.may_be_own("t", ["b", "a"])
    assert not undone.may_be_own("other", ["a"])
    undone.once_more("t", [])
    assert not undone.may_be_own("t", ["a"])
    for _ in range(2):
        undone.once_more("t", ["a"])
    undone.once_more("t", [])
    assert undone.may_be_own("t", ["a"])


@given(PATHS, st.lists(PATHS, max_size=8))
def test_a_task_that_always_makes_the_same_comes_to_rest(
    own: frozenset[str], more: list[frozenset[str]]
) -> None:
    undone = Undone()
    asked = [bool(undone.once_more("t", own | other)) for other in more]
    asked += [bool(undone.once_more("t", own)) for _ in range(3)]
    assert not asked[-1]
    assert sum(bool(undone.once_more("t", own)) for _ in range(3)) == 0
