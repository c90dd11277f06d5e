"""A workspace that was kept is the one that loading it gives, or it is not used."""

import json
import os
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.harness.waiting import wait_for
from vxwatch.cache import loaded
from vxwatch.cache.loaded import PLACE, keep, load, recall
from vxwatch.errors import ConfigError
from vxwatch.model import Workspace
from vxwatch.workspace.discover import load_workspace

ALL = """
tags = ["one", "two"]
[tasks.build]
command = "make"
description = "what it is"
depends_on = ["^build", "gen"]
timeout = "90s"
retries = 2
grace = "3s"
env = { pass = ["A", "B"], set = { C = "1" }, secret = ["D"] }
cache = { inputs = { files = ["src/**"], workspace_files = ["tool/*.py"], env = ["E"], tasks = ["gen"] }, outputs = ["out/**"] }
resources = { cpus = 2, memory = "1GiB" }
[tasks.gen]
command = "gen"
cache = { inputs = ["gen.txt"], outputs = { workspace_files = ["made/**"] } }
[tasks.serve]
command = "serve"
persistent = { ready_port = 4000, ready_timeout = "5s", restart_on = ["src/**"], restart = "on-crash" }
[tasks.serve.sandbox]
weaker_when_nested = true
deny = { read = ["secret"] }
[tasks.serve.sandbox.allow]
read = ["~/x"]
network = ["example.org"]
unix_sockets = ["/run/x.sock"]
local_binding = [8000, { port = 80, host = 8080 }]
[tasks.all]
depends_on = ["build", "gen"]
"""
SETTINGS = """
concurrency = "50%"
timeout = "10m"
affected_base = "trunk"
cache_dir = "shared"
cache_retention = { older_than = "3d", max_size = "2GiB" }
"""
PLAIN = '[tasks.t]\ncommand = "x"\ncache = { inputs = ["src/**"], outputs = ["out/**"] }\n'


@pytest.fixture
def root(tmp_path: os.PathLike[str]) -> str:
    """A workspace of two projects, and a member that is none."""
    root = os.path.realpath(tmp_path)
    write(root, "package.json", json.dumps({"name": "top", "workspaces": ["packages/*"]}))
    for name, needs in (("a", {}), ("b", {"a": "*"})):
        write(
            root, f"packages/{name}/package.json", json.dumps({"name": name, "dependencies": needs})
        )
        write(root, f"packages/{name}/vx.toml", PLAIN)
    os.makedirs(f"{root}/packages/bare")
    return root


def write(root: str, path: str, content: str) -> None:
    os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
    with open(f"{root}/{path}", "w") as file:
        file.write(content)


def kept(root: str, since: int | None = None) -> bool:
    """Load the workspace and keep it; by default nothing moved for long."""
    since = time.time_ns() + 10**10 if since is None else since
    return bool(keep(load_workspace(root), since).fingerprint)


def recalled(root: str) -> Workspace | None:
    """What was kept, as loading it gives it."""
    known = recall(root)
    return known and known._replace(fingerprint="")


def git(root: str, *words: str) -> None:
    subprocess.run(["git", "-C", root, *words], check=True, capture_output=True)


def test_all_that_a_config_can_say_is_there_again(root: str) -> None:
    write(root, "packages/a/vx.toml", ALL)
    write(root, "vx.workspace.toml", SETTINGS)
    write(root, f"packages/{os.fsdecode(bytes([0xE9]))}/vx.toml", PLAIN)
    assert kept(root)
    known, anew = recalled(root), load_workspace(root)
    assert known == anew
    assert known is not None
    assert repr(known) == repr(anew)


def test_no_config_is_read_again(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    anew = keep(load(root), time.time_ns() + 10**10)
    monkeypatch.setattr(loaded, "load_workspace", lambda *_, **__: pytest.fail("it was read"))
    assert load(root) == anew


def test_equal_fingerprints_are_of_equal_workspaces(root: str) -> None:
    since = time.time_ns() + 10**10
    first = keep(load(root), since).fingerprint
    assert load(root).fingerprint == keep(load_workspace(root), since).fingerprint == first != ""
    write(root, "packages/a/vx.toml", PLAIN.replace('"x"', '"y"'))
    assert load(root).fingerprint == ""
    assert keep(load(root), since).fingerprint not in (first, "")


def test_who_only_reads_keeps_nothing(root: str) -> None:
    load(root)
    assert not os.path.lexists(f"{root}/{PLACE}")


def rewrite(root: str) -> None:
    """Another config of the same size, with the time of the one before."""
    path = f"{root}/packages/a/vx.toml"
    before = os.stat(path)
    write(root, "packages/a/vx.toml", PLAIN.replace('"x"', '"y"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove(root: str) -> None:
    os.unlink(f"{root}/packages/b/vx.toml")


def behind_a_link(root: str) -> None:
    os.rename(f"{root}/packages", f"{root}/other")
    os.symlink("other", f"{root}/packages")


WRITTEN = {
    "packages/b/pyproject.toml": '[project]\nname = "q"\n',
    "packages/bare/vx.toml": PLAIN,
    "packages/c/vx.toml": PLAIN,
    "vx.toml": PLAIN,
    "vx.workspace.toml": "members = ['packages/a']\n",
    "vx.workspace.py": "vx = 1\n",
    "packages/a/vx.config.py": "vx = 1\n",
    "pnpm-workspace.yaml": "packages: ['x/*']\n",
}


@pytest.mark.parametrize("path", WRITTEN)
def test_not_after_a_config_came(root: str, path: str) -> None:
    assert kept(root)
    write(root, path, WRITTEN[path])
    assert recall(root) is None


@pytest.mark.parametrize("to", ["packages/z", "b"])
def test_not_after_a_member_went(root: str, to: str) -> None:
    assert kept(root)
    os.rename(f"{root}/packages/b", f"{root}/{to}")
    assert recall(root) is None


@pytest.mark.parametrize("change", [rewrite, behind_a_link, remove])
def test_not_after_a_change(root: str, change: Callable[[str], None]) -> None:
    assert kept(root)
    change(root)
    assert recall(root) is None


def test_it_holds_while_files_come_and_go_that_say_nothing(root: str) -> None:
    assert kept(root)
    write(root, "packages/a/out/made.js", "1")
    write(root, "packages/a/notes.txt", "1")
    write(root, "README.md", "1")
    write(root, ".vx/something", "1")
    assert recalled(root) == load_workspace(root)


def test_nothing_is_kept_that_moved_while_it_was_read(root: str) -> None:
    long_ago = time.time_ns() - 10**10
    assert not kept(root, long_ago)
    assert recall(root) is None


@pytest.mark.parametrize("path", ["packages/a/vx.toml", "packages/new/vx.toml"])
def test_nothing_is_kept_where_one_thing_moved_after_it_was_read(root: str, path: str) -> None:
    workspace = load_workspace(root)
    wait_for(lambda: keep(workspace, time.time_ns()).fingerprint, "a tick of the clock")
    since = time.time_ns()
    write(root, path, PLAIN.replace('"x"', '"y"'))
    assert not keep(workspace, since).fingerprint
    assert recall(root) is None


def test_what_was_made_in_a_project_meanwhile_hides_no_config(root: str) -> None:
    for path in ("packages", "", *(f"packages/{name}" for name in ("a", "b", "bare"))):
        age(f"{root}/{path}")
    since = time.time_ns() + 10**9
    workspace = load_workspace(root)
    write(root, "packages/a/pyproject.toml", '[project]\nname = "q"\n')
    os.utime(f"{root}/packages/a", ns=(since + 10**9, since + 10**9))
    assert keep(workspace, since).fingerprint
    assert recall(root) is None
    os.unlink(f"{root}/packages/a/pyproject.toml")
    assert recalled(root) == workspace


def age(path: str) -> None:
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("packages/a/vx.config.py", 'config = {"tasks": {"t": {"command": "x"}}}\n'),
        ("vx.workspace.toml", "[rules]\nupfront_keys = true\n"),
    ],
)
def test_not_where_more_counts_than_stamps_tell(root: str, path: str, content: str) -> None:
    if path.endswith(".py"):
        os.unlink(f"{root}/packages/a/vx.toml")
    write(root, path, content)
    assert not kept(root)


def test_not_where_a_config_lies_behind_a_link(root: str) -> None:
    os.rename(f"{root}/packages/a/vx.toml", f"{root}/elsewhere")
    os.symlink("../../elsewhere", f"{root}/packages/a/vx.toml")
    assert not kept(root)


def test_what_git_tracks_counts_where_it_was_asked(root: str) -> None:
    git(root, "init", "-q")
    write(root, "packages/a/out/made.js", "1")
    git(root, "add", "packages/b")
    assert kept(root)
    git(root, "add", ".")
    assert recalled(root) == load_workspace(root)
    write(
        root, "packages/a/vx.toml", '[tasks.t]\ncommand = "x"\ncache = { outputs = ["gen/**"] }\n'
    )
    assert kept(root)
    write(root, "packages/a/gen/made.js", "1")
    assert recall(root) is not None
    git(root, "add", ".")
    assert recall(root) is None


def test_not_of_a_repository_that_begins_above(root: str) -> None:
    inner = f"{root}/packages/a"
    write(
        root, "packages/a/vx.toml", '[tasks.t]\ncommand = "x"\ncache = { outputs = ["gen/**"] }\n'
    )
    assert kept(inner)
    git(root, "init", "-q")
    assert recall(inner) is None
    assert not kept(inner)


def test_a_record_that_is_damaged_or_of_another_place_is_none(root: str) -> None:
    assert kept(root)
    with open(f"{root}/{PLACE}", "rb") as file:
        content = file.read()
    for wrong in (
        b"",
        content[:-1],
        content.replace(b'"x"', b'"y"'),
        b"workspace 0" + content[11:],
    ):
        with open(f"{root}/{PLACE}", "wb") as file:
            file.write(wrong)
        assert recall(root) is None
    with open(f"{root}/{PLACE}", "wb") as file:
        file.write(content)
    assert recall(root) is not None
    os.rename(root, f"{root}-2")
    assert recall(f"{root}-2") is None
    os.rename(f"{root}-2", root)


def test_not_on_another_number_of_cores(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(root)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(1000)})
    assert recall(root) is None


def test_not_where_values_of_programs_are_taken_from_the_lock(root: str) -> None:
    assert kept(root)
    write(root, "vx.lock", "{}")
    with pytest.raises(ConfigError):
        load(root, frozen=True)
