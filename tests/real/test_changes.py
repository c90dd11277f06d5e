"""What differs from a commit, asked of a real git."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vxwatch.errors import UserError
from vxwatch.workspace.changes import Changes


def git(root: Path, *arguments: str) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    subprocess.run(("git", *author, *arguments), cwd=root, check=True, capture_output=True)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace in a directory of a repository, on a branch of its own."""
    root = tmp_path.resolve() / "space"
    root.mkdir()
    git(tmp_path, "init", "-qb", "main")
    write(root, a="a", b="b", c="c", gone="g")
    (tmp_path / "outside").write_text("x")
    (root / ".gitignore").write_text("*.log\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "checkout", "-qb", "work")
    return root


def edit(root: Path) -> list[str]:
    """One change of each kind, and what is to be found."""
    write(root, a="committed")
    git(root, "commit", "-qam", "two")
    write(root, b="staged", c="changed", new="new")
    git(root, "add", "b")
    (root / "gone").unlink()
    (root / "x.log").touch()
    (root.parent / "outside").write_text("y")
    return ["a", "b", "c", "gone", "new"]


def test_everything_that_differs(root: Path) -> None:
    assert Changes(str(root)).since("main") == []
    assert Changes(str(root)).since("HEAD") == []
    found = edit(root)
    assert Changes(str(root)).since("main") == found
    assert Changes(str(root)).since("HEAD") == [path for path in found if path != "a"]


def test_an_edit_that_was_taken_back_is_none(root: Path) -> None:
    write(root, a="other")
    git(root, "commit", "-qam", "two")
    write(root, a="a")
    assert Changes(str(root)).since("main") == []


def test_what_the_base_did_meanwhile_does_not_count(root: Path) -> None:
    write(root, a="mine")
    git(root, "commit", "-qam", "mine")
    git(root, "checkout", "-q", "main")
    write(root, b="theirs")
    git(root, "commit", "-qam", "theirs")
    git(root, "checkout", "-q", "work")
    changes = Changes(str(root))
    assert changes.since_base("main", {}) == ["a"]
    assert changes.since_base(None, {}) == ["a"]
    assert changes.since("main") == ["a", "b"]


@pytest.mark.parametrize(
    ("environ", "found"), [({}, ["b"]), ({"GITHUB_BASE_REF": "release"}, ["a", "b"])]
)
def test_the_usual_base(root: Path, environ: Mapping[str, str], found: list[str]) -> None:
    git(root, "update-ref", "refs/remotes/origin/release", "main")
    write(root, a="x")
    git(root, "commit", "-qam", "a")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    write(root, b="x")
    assert Changes(str(root)).since_base(None, environ) == found


def test_before_the_first_commit_everything_is_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, a="a")
    assert Changes(str(tmp_path)).since_base(None, {}) == ["a"]


@pytest.mark.parametrize("commit", ["nope", "--output=x", "", "main..work", "HEAD~99"])
def test_what_is_no_commit_is_refused(root: Path, commit: str) -> None:
    with pytest.raises(UserError, match="git knows no commit") as refusal:
        Changes(str(root)).since(commit)
    assert refusal.value.slug == "unknown-commit"
    assert not (root / "x").exists()


def test_no_base_no_history_in_common_no_git(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    git(root, "branch", "-m", "main", "trunk")
    with pytest.raises(UserError, match="finds no branch to compare with"):
        Changes(str(root)).since_base(None, {})
    git(root, "checkout", "-q", "--orphan", "lone")
    git(root, "commit", "-qm", "lone")
    with pytest.raises(UserError, match="nothing that trunk and HEAD have in common"):
        Changes(str(root)).since_base("trunk", {})
    plain = tmp_path_factory.mktemp("plain")
    asks: list[Callable[[Changes], list[str]]] = [
        lambda changes: changes.since("main"),
        lambda changes: changes.since_base(None, {}),
    ]
    for ask in asks:
        with pytest.raises(UserError, match="needs git") as refusal:
            ask(Changes(str(plain)))
        assert refusal.value.slug == "no-git"


def test_no_program_of_the_repository_runs(root: Path) -> None:
    trap = root.parent / "trap"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    for name in ("diff.external", "core.fsmonitor", "diff.x.textconv"):
        git(root, "config", name, str(trap))
    (root / ".gitattributes").write_text("* diff=x\n")
    write(root, a="other")
    assert Changes(str(root)).since("main") == [".gitattributes", "a"]
    assert not list(root.parent.rglob("sprung"))
