"""Which directories a scope wants, and how much of them."""

from collections.abc import Sequence

import pytest

from vxwatch.watch.scope import Role, Scope, Terrain, ancestors

SCOPE = Scope(
    "/ws",
    trees=frozenset({"apps/web", "node_modules/linked"}),
    directories=frozenset({"", "conf/local", "apps/web/dist/named", "/etc/base"}),
    parents=frozenset({"packages"}),
    pruned=lambda paths: [p for p in paths if p.rpartition("/")[2] in {"node_modules", "dist"}],
)


@pytest.mark.parametrize(
    ("path", "parent", "role"),
    [
        ("/ws", None, Role.FLAT),
        ("/ws/apps", Role.FLAT, Role.ANCHOR),
        ("/ws/apps/web", Role.ANCHOR, Role.TREE),
        ("/ws/apps/web/src", Role.TREE, Role.TREE),
        ("/ws/apps/web/node_modules", Role.TREE, None),
        ("/ws/apps/web/dist", Role.TREE, Role.ANCHOR),
        ("/ws/apps/web/dist/named", Role.ANCHOR, Role.FLAT),
        ("/ws/apps/web/dist/other", Role.ANCHOR, None),
        ("/ws/apps/other", Role.ANCHOR, None),
        ("/ws/conf", Role.FLAT, Role.ANCHOR),
        ("/ws/conf/local", Role.ANCHOR, Role.FLAT),
        ("/ws/conf/local/below", Role.FLAT, None),
        ("/ws/packages", Role.FLAT, Role.PARENT),
        ("/ws/packages/new", Role.PARENT, Role.FLAT),
        ("/ws/packages/node_modules", Role.PARENT, None),
        ("/ws/packages/new/src", Role.FLAT, None),
        ("/ws/node_modules", Role.FLAT, Role.ANCHOR),
        ("/ws/node_modules/linked", Role.ANCHOR, Role.TREE),
        ("/ws/node_modules/linked/lib", Role.TREE, Role.TREE),
        ("/etc", None, Role.ANCHOR),
        ("/etc/base", None, Role.FLAT),
        ("/etc/base/more", Role.FLAT, None),
        ("/home", Role.ANCHOR, None),
    ],
)
def test_the_role_of_a_directory(path: str, parent: Role | None, role: Role | None) -> None:
    assert Terrain(SCOPE).role(path, parent) is role


def test_a_tree_inside_a_tree_is_one_tree() -> None:
    terrain = Terrain(Scope("/ws", trees=frozenset({"", "lib"}), directories=frozenset({"lib/a"})))
    assert terrain.role("/ws/lib", Role.TREE) is Role.TREE
    assert terrain.role("/ws/lib/a", Role.TREE) is Role.TREE


def test_pruned_is_not_asked_about_trees_of_the_scope_nor_outside() -> None:
    asked: list[str] = []

    def pruned(paths: Sequence[str]) -> Sequence[str]:
        asked.extend(paths)
        return paths

    terrain = Terrain(Scope("/ws", trees=frozenset({"a", "/out"}), pruned=pruned))
    assert terrain.role("/ws/a", Role.ANCHOR) is Role.TREE
    assert terrain.role("/out/x", Role.TREE) is Role.TREE
    assert asked == []
    assert terrain.role("/ws/a/x", Role.TREE) is None
    assert asked == ["a/x"]


def test_the_directories_of_a_level_are_asked_about_at_once() -> None:
    asked: list[Sequence[str]] = []

    def pruned(paths: Sequence[str]) -> set[str]:
        asked.append(paths)
        return {"a/x"}

    terrain = Terrain(Scope("/ws", trees=frozenset({"a"}), pruned=pruned))
    level = dict.fromkeys(("/ws/a/x", "/ws/a/y", "/ws/a/z"), Role.TREE)
    assert terrain.roles(level) == {"/ws/a/y": Role.TREE, "/ws/a/z": Role.TREE}
    assert asked == [["a/x", "a/y", "a/z"]]


@pytest.mark.parametrize("root", ["/ws", "/"])
def test_paths_go_back_and_forth(root: str) -> None:
    terrain = Terrain(Scope(root))
    for path in ("", "a", "a/b.txt"):
        assert terrain.relative(terrain.absolute(path)) == path


def test_what_lies_outside_keeps_its_absolute_path() -> None:
    terrain = Terrain(Scope("/ws/in"))
    for path in ("/ws/inside", "/ws", "/etc/x"):
        assert terrain.relative(terrain.absolute(path)) == path
    assert terrain.absolute("../else/x") == "/ws/else/x"


def test_the_directories_above_a_path() -> None:
    assert list(ancestors("/a/b/c")) == ["/a/b", "/a", "/"]
    assert list(ancestors("/")) == []
