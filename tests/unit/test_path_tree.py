"""The tree of paths holds what a set of them would, and finds what lies below a directory."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.cache.tree import PathTree

PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(st.booleans(), PATHS), max_size=30), st.one_of(PATHS, st.just("")), PATHS)
def test_a_tree_is_a_set_that_knows_prefixes(
    steps: list[tuple[bool, str]], directory: str, but: str
) -> None:
    tree = PathTree()
    expected: set[str] = set()
    for add, path in steps:
        (tree.add if add else tree.discard)(path)
        (expected.add if add else expected.discard)(path)
    inside = {path for path in expected if not directory or path.startswith(f"{directory}/")}
    assert sorted(tree.below(directory)) == sorted(inside)
    assert tree.holds(directory) == (directory == "" or bool(inside))
    without = {path for path in inside if directory == but or not path.startswith(f"{but}/")}
    if not directory.startswith(f"{but}/"):
        assert set(tree.below(directory, {but})) == without


def test_a_path_may_change_its_kind_in_either_order() -> None:
    tree = PathTree()
    tree.add("a/b")
    tree.add("a/b/c")
    tree.discard("a/b")
    assert list(tree.below("a")) == ["a/b/c"]
    tree.add("a/b")
    tree.discard("a/b/c")
    assert list(tree.below("")) == ["a/b"]
    assert not tree.holds("a/b")


def test_a_tree_as_deep_as_a_path_can_be_is_no_trouble() -> None:
    tree = PathTree()
    deep = "/".join(["d"] * 2000)
    tree.add(deep)
    assert list(tree.below("d/d")) == [deep]
    tree.discard(deep)
    assert list(tree.below("")) == []
    assert not tree.holds("d")
