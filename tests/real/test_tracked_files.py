"""What git tracks is known, in the repository and in those inside it, and stays known."""

import os
import subprocess
from pathlib import Path

from vxwatch.cache.place import cache_place
from vxwatch.cache.tracked import Sources, TrackedFiles


def git(directory: Path, *words: str) -> None:
    safe = ("-c", "protocol.file.allow=always", "-c", "user.email=a@b", "-c", "user.name=a")
    subprocess.run(["git", *safe, *words], cwd=directory, check=True, capture_output=True)


def repository(directory: Path, *files: str) -> None:
    for file in files:
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text("x")
    git(directory, "init", "-q")
    git(directory, "add", "-f", ".")
    git(directory, "commit", "-qm", "all")


def test_what_an_index_says_at_and_below_a_place(tmp_path: Path) -> None:
    repository(tmp_path, "dist/a", "dist-x/b", "dist/in/c", "src/d", "dist.txt")
    files = TrackedFiles(str(tmp_path))
    assert files.below(["dist"]) == ["dist/a", "dist/in/c"]
    assert files.below(["dist/a", "src"]) == ["dist/a", "src/d"]
    assert len(files.below([""])) == 5
    (tmp_path / "dist" / "new").write_text("x")
    assert files.below(["dist"]) == ["dist/a", "dist/in/c"]
    git(tmp_path, "add", "dist/new")
    assert files.below(["dist"]) == ["dist/a", "dist/in/c", "dist/new"]


def test_a_moment_lasts_until_it_is_renewed(tmp_path: Path) -> None:
    repository(tmp_path, "dist/a")
    (tmp_path / "dist" / "new").write_text("x")
    files = TrackedFiles(str(tmp_path))
    sources = Sources(files)
    assert not sources.renew()
    assert [sources.holds(place) for place in ("dist", "dist/a", "dist/new")] == [True, True, False]
    assert not sources.renew()
    git(tmp_path, "add", "dist/new")
    assert not sources.holds("dist/new")
    assert files.below(["dist"]) == ["dist/a", "dist/new"]  # somebody else saw it first
    assert sources.renew()
    assert sources.holds("dist/new")
    assert not sources.renew()


def test_repositories_inside_have_indexes_of_their_own(tmp_path: Path) -> None:
    repository(tmp_path / "other", "dist/s")
    repository(tmp_path / "w", "dist/a")
    git(tmp_path / "w", "submodule", "add", "-q", str(tmp_path / "other"), "sub")
    repository(tmp_path / "w" / "clone", "dist/c")
    files = TrackedFiles(str(tmp_path / "w"))
    assert files.below(["sub/dist", "clone/dist", "dist"]) == [
        *("clone/dist/c", "dist/a", "sub/dist/s")
    ]


def test_without_a_repository_nothing_is_tracked(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    assert TrackedFiles(str(tmp_path)).below(["dist"]) == []


def test_worktrees_of_one_repository_share_a_place(tmp_path: Path) -> None:
    repository(tmp_path / "w", "a")
    git(tmp_path / "w", "worktree", "add", "-q", str(tmp_path / "other"))
    places = {cache_place(str(tmp_path / name), "shared") for name in ("w", "other")}
    assert places == {f"{tmp_path}/w/.git/vx/cache"}
    assert TrackedFiles(str(tmp_path / "other")).below([""]) == ["a"]
    assert cache_place("/w") == "/w/.vx/cache"
    assert cache_place("/w", "../c") == "/c"
    assert cache_place("/w", "~/c") == os.path.expanduser("~/c")
    (tmp_path / "none").mkdir()
    assert cache_place(f"{tmp_path}/none", "shared") == f"{tmp_path}/none/.vx/cache"
