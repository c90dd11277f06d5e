"""Whatever changes the list of a workspace's files moves a directory or one of these sources."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vxwatch.cache.stamps import Stamp
from vxwatch.cache.standing import look
from vxwatch.workspace.git import Git
from vxwatch.workspace.sources import sources


def git(root: Path, *arguments: str) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    subprocess.run(("git", *author, *arguments), cwd=root, check=True, capture_output=True)


def directories(root: Path) -> Iterator[str]:
    """Every directory of the workspace that is not git's, relative to its root."""
    for place, names, _ in os.walk(root):
        names[:] = [name for name in names if name not in (".git", "ignored")]
        yield os.path.relpath(place, root) if place != str(root) else ""


def state(root: Path) -> dict[str, Stamp | None]:
    """The stamps of all sources and directories."""
    known = list(directories(root))
    paths = [*sources(Git(str(root)), known), *(f"{root}/{place}" for place in known)]
    return {path: look(path) for path in paths}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace below the top of its repository, with settings of a user of its own."""
    home = tmp_path / "home"
    (home / "shared/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "shared"))
    (home / ".gitconfig").write_text(f"[core]\n\texcludesFile = {home}/rules\n")
    (home / "rules").write_text("*.tmp\n")
    root = tmp_path / "top/space"
    for name in ("src/a", "src/b.log", "src/c.tmp", "ignored/d"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root.parent / ".gitignore").write_text("ignored\n")
    (root / ".gitignore").write_text("nothing\n")
    git(root.parent, "init", "-qb", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root.resolve()


EDITS: dict[str, Callable[[Path], object]] = {
    "rules": lambda root: (root / ".gitignore").write_text("*.log"),
    "rules above": lambda root: (root.parent / ".gitignore").write_text("x\n"),
    "new rules above": lambda root: (root.parent.parent / ".gitignore").write_text("x\n"),
    "rules of the clone": lambda root: (root.parent / ".git/info/exclude").write_text("*.log\n"),
    "rules of the user": lambda _: (Path.home() / "rules").write_text("*.log\n"),
    "other rules of the user": lambda _: (Path.home() / "shared/git/ignore").write_text("b*"),
    "settings of the user": lambda _: (Path.home() / ".gitconfig").write_text(""),
    "settings of the clone": lambda root: git(root, "config", "core.excludesFile", "/x"),
    "index": lambda root: git(root, "add", "-f", "ignored/d"),
    "new file": lambda root: (root / "src/new").touch(),
    "repository inside": lambda root: git(root / "src", "init", "-q"),
    "no repository": lambda root: (root.parent / ".git").rename(root.parent.parent / "gone"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_shows(root: Path, edit: Callable[[Path], object]) -> None:
    before = state(root)
    edit(root)
    assert any(look(path) != stamp for path, stamp in before.items())


def test_without_an_edit_nothing_shows(root: Path) -> None:
    before = state(root)
    assert state(root) == before
    assert Git(str(root)).tracked_and_untracked([""]) == [".gitignore", "src/a", "src/b.log"]
    assert {path: look(path) for path in before} == before


def test_a_worktree_has_the_rules_of_its_repository(root: Path) -> None:
    git(root, "worktree", "add", "-q", "../../tree")
    tree = root.parent.parent / "tree/space"
    before = state(tree)
    git(tree, "rm", "-q", "--cached", "src/a")
    assert any(look(path) != stamp for path, stamp in before.items())
    before = state(tree)
    (root.parent / ".git/info/exclude").write_text("*.log\n")
    assert any(look(path) != stamp for path, stamp in before.items())


def test_outside_git_the_rules_alone_count(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    before = state(tmp_path)
    (tmp_path / "src/.gitignore").write_text("x")
    assert any(look(path) != stamp for path, stamp in before.items())
