"""What lies around outputs stands while nothing but outputs comes and goes."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from vxwatch import __version__
from vxwatch.cache.log import Log
from vxwatch.cache.reuse import Cache
from vxwatch.cache.store import Store
from vxwatch.events import Outcome
from vxwatch.model import Globs, Project, Task, Workspace
from vxwatch.session.outputs_only import describe, restored, surroundings

FAR = 10**10
PROJECTS = {"a": Project("a", "a", (), None, (), {}), "b": Project("b", "b", (), None, (), {})}


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "a/src").mkdir(parents=True)
    (tmp_path / "a/out").mkdir()
    (tmp_path / "a/one.txt").touch()
    (tmp_path / "b").mkdir()
    return str(tmp_path)


@pytest.fixture
def cache(root: str) -> Iterator[Cache]:
    with closing(Cache(root, PROJECTS, lambda: Store(f"{root}/cache"), print)) as cache:
        yield cache


def whole(root: str) -> Workspace:
    return Workspace(root, PROJECTS, None, ())


def tasks(*outputs: str) -> list[Task]:
    return [Task("a", "t", "x", outputs=Globs(outputs))]


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        ("true", True),
        ("rmdir out", True),
        ("touch out/x", True),
        ("touch report", True),
        ("touch two.txt", False),
        ("rm one.txt", False),
        ("mkdir report", False),
        ("rmdir out; touch out", False),
        ("rmdir out; ln -s src out", False),
        ("rmdir src; touch src", False),
        ("chmod 700 .", False),
        ("cd ..; mv a a2; ln -s a2 a", False),
        ("cd ..; cp -r a a2; rm -r a; mv a2 a", False),
    ],
)
def test_only_outputs_may_come_and_go(
    root: str, cache: Cache, change: str, *, stands: bool
) -> None:
    places = surroundings(root, tasks("out/**", "report"), cache, time.time_ns() + FAR)
    assert places is not None
    (around,) = places
    # `report` stands for a directory as well, with all that it holds
    around = around._replace(outputs=[name for name in around.outputs if name != "report/"])
    subprocess.run(("sh", "-ec", change), cwd=f"{root}/a", check=True)
    assert around.stands(root) is stands


@pytest.mark.parametrize("outputs", ["out/*.js", "**/*.js", "out/** !out/keep"])
def test_where_other_files_may_lie_between_outputs_nothing_is_known(
    root: str, cache: Cache, outputs: str
) -> None:
    assert surroundings(root, tasks(*outputs.split()), cache, time.time_ns() + FAR) is None


def test_what_moved_since_is_not_known(root: str, cache: Cache) -> None:
    assert surroundings(root, tasks("out/**"), cache, os.stat(f"{root}/a").st_mtime_ns) is None


def test_outputs_that_keys_go_by_are_not_to_be_restored_so(root: str, cache: Cache) -> None:
    some = tasks("out/**")
    places = surroundings(root, some, cache, time.time_ns() + FAR)
    assert places is not None

    def told(*paths: str) -> bool:
        return bool(describe(whole(root), places, paths, {some[0]: "k"}, cache, "vx run t"))

    assert told("", "a", "a/src", "a/one.txt", f"{root}/a/out", "a/output")
    assert not told("", "a", "a/out")
    assert not told("", "a", "a/out/deep/x.js")
    assert not told("", "a/src")


def test_outputs_that_git_tracks_are_not_to_be_restored_so(root: str, cache: Cache) -> None:
    some = tasks("out/**")
    places = surroundings(root, some, cache, time.time_ns() + FAR)
    assert places is not None
    with open(f"{root}/a/out/x", "w") as file:
        file.write("made")
    for command, told in (("init -q", True), ("add -f a/out/x", False)):
        subprocess.run(("git", *command.split()), cwd=root, check=True)
        described = describe(whole(root), places, ["a"], {some[0]: "k"}, cache, "vx run t")
        assert bool(described) is told


def test_what_another_vx_described_is_not_believed(root: str, cache: Cache) -> None:
    with open(f"{root}/a/out/x", "w") as file:
        file.write("made")
    some = tasks("out/**")[0]
    with cache.capture(some) as made:
        assert made is not None
        assert cache.keep(made, some, "k", Log(), 0.0)
    places = surroundings(root, [some], cache, time.time_ns() + FAR)
    assert places is not None
    described = describe(whole(root), places, ["a"], {some: "k"}, cache, "vx run t")
    for _ in range(2):
        os.unlink(f"{root}/a/out/x")
        assert restored(root, described.replace(__version__, "0.0.0"), print) is None
        assert not os.path.exists(f"{root}/a/out/x")
        assert restored(root, described, print) == (Outcome("a#t", "restored"),)
        assert os.path.exists(f"{root}/a/out/x")
