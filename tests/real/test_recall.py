"""Keys that an earlier run made are taken up exactly where new ones would be the same."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vxwatch.cache.loaded import keep
from vxwatch.cache.remembered import PLACE, Remembered
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, make_plan

BUILD = """
[tasks.build]
command = "x"
depends_on = ["^build"]
cache = { inputs = { files = ["src/**", "!src/skip/**", ".env"], env = ["MODE"] }, outputs = ["out/**", "src/made.txt"] }
[tasks.check]
command = "x"
cache = { inputs = ["src/**"], outputs = [] }
"""
WIDE = """
[tasks.all]
depends_on = ["build", "^build"]
[tasks.wide]
command = "x"
depends_on = ["all"]
cache = { inputs = { files = [], workspace_files = ["shared/*.txt"] }, outputs = [] }
[tasks.pick]
command = "x"
cache = { inputs = ["src/1.txt"], outputs = [] }
[tasks.whole]
command = "x"
cache = { outputs = ["whole.txt"] }
[tasks.loose]
command = "x"
depends_on = ["check"]
[tasks.after]
command = "x"
depends_on = ["loose"]
cache = { inputs = [], outputs = [] }
"""
OPTIONS = Options("run", ("build", "check", "wide", "whole", "pick", "after"), "", everywhere=True)
Keys = dict[str, str]
LOOSE = {"b#loose", "b#after"}
"""No key is kept of what does not say what it is made of, nor of what builds on that."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few keys are worth it, and what was written a tick ago lies there long enough."""
    monkeypatch.setattr("vxwatch.session.recall.MANY", 1)
    monkeypatch.setattr("vxwatch.cache.content._TICK", 0)


@pytest.fixture
def root(tmp_path: os.PathLike[str]) -> str:
    """A workspace of which a run has written down the keys."""
    return prepared(tmp_path)


def prepared(place: str | os.PathLike[str]) -> str:
    root = os.path.realpath(place)
    write(root, "package.json", json.dumps({"name": "top", "workspaces": ["p/*"]}))
    for name, needs, config in (("a", {}, ""), ("b", {"a": "*"}, WIDE), ("c", {}, "")):
        manifest = {"name": name, "dependencies": needs}
        write(root, f"p/{name}/package.json", json.dumps(manifest))
        write(root, f"p/{name}/vx.toml", BUILD + config)
        for file in ("src/1.txt", "src/2.txt", "src/skip/3.txt", "notes.txt"):
            write(root, f"p/{name}/{file}", "one")
    write(root, "shared/s.txt", "one")
    os.makedirs(f"{root}/.vx")
    subprocess.run(["git", "init", "-q", "--template=", root], check=True)
    pass_a_tick(root)
    keys(root)
    assert keys(root)[1] == LOOSE
    return root


def write(root: str, path: str, text: str) -> None:
    os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
    with open(f"{root}/{path}", "w") as file:
        file.write(text)


def pass_a_tick(root: str) -> None:
    """Come back when what is written from now on gets other stamps than what was before."""
    probe = os.path.join(root, ".vx/probe")
    stamps: set[int] = set()
    while len(stamps) < 3:
        with open(probe, "w"):
            stamps.add(os.stat(probe).st_ctime_ns)


def keys(
    root: str,
    options: Options = OPTIONS,
    environ: Mapping[str, str] = {},
) -> tuple[Keys, set[str]]:
    """The keys of the tasks, and those of them that had to be made; a later run can recall them."""
    options = options._replace(directory=root)
    plan = make_plan(options)
    plan = plan._replace(workspace=keep(plan.workspace, plan.since))
    with closing(Knowledge(plan, options, environ)) as known:
        known.learn()
        recalled = known.keys.recalled
        found = {task: known.keys.key(task) for task in plan.graph.order}
        known.write_down_keys()
        return found, found.keys() - recalled


def anew(
    root: str,
    options: Options = OPTIONS,
    environ: Mapping[str, str] = {},
) -> Keys:
    """The keys without any record."""
    options = options._replace(directory=root)
    plan = make_plan(options)
    with pytest.MonkeyPatch.context() as patch, closing(Knowledge(plan, options, environ)) as known:
        patch.setattr("vxwatch.session.knowledge.recalled", lambda *_: {})
        patch.setattr("vxwatch.cache.files.Remembered.save", lambda *_: None)
        patch.setattr("vxwatch.session.knowledge.Remembered.load", lambda _: Remembered())
        known.learn()
        return {task: known.keys.key(task) for task in plan.graph.order}


def remove(root: str, path: str) -> None:
    os.unlink(f"{root}/{path}")


def rename(root: str, path: str) -> None:
    os.rename(f"{root}/{path}", f"{root}/{path}.new")


def disguise(root: str, path: str) -> None:
    """Other bytes, of the size and with the time of those before."""
    before = os.stat(f"{root}/{path}")
    write(root, path, "two")
    os.utime(f"{root}/{path}", ns=(before.st_atime_ns, before.st_mtime_ns))


def touch(root: str, path: str) -> None:
    os.utime(f"{root}/{path}")


def make_executable(root: str, path: str) -> None:
    os.chmod(f"{root}/{path}", 0o755)


def put(text: str) -> Callable[[str, str], None]:
    return lambda root, path: write(root, path, text)


A = {"a#build", "a#check", "b#build", "b#all", "b#wide"}
B = {"b#build", "b#check", "b#all", "b#wide", "b#whole"}
EVERYTHING = {f"{name}#{task}" for name in "abc" for task in ("build", "check")} | B | {"b#pick"}


@pytest.mark.parametrize(
    ("change", "path", "reached"),
    [
        (put("two"), "p/a/src/1.txt", A),
        (disguise, "p/a/src/1.txt", A),
        (remove, "p/a/src/1.txt", A),
        (rename, "p/a/src/1.txt", A),
        (make_executable, "p/a/src/1.txt", A),
        (touch, "p/a/src/1.txt", A),
        (put("new"), "p/c/src/new.txt", {"c#build", "c#check"}),
        (put("new"), "p/c/.env", {"c#build"}),
        (put("two"), "p/c/src/skip/3.txt", {"c#check"}),
        (put("made"), "p/c/src/made.txt", {"c#check"}),
        (put("two"), "p/c/notes.txt", set()),
        (put("two"), "p/b/notes.txt", {"b#whole"}),
        (put("two"), "shared/s.txt", {"b#wide"}),
        (put("two"), "shared/new.txt", {"b#wide"}),
        (put("two"), "shared/other", set()),
        (put("1.txt"), "p/a/.gitignore", A),
        (put("1.txt"), "p/b/.gitignore", EVERYTHING),
        (put("two"), "p/b/src/1.txt", {*B, "b#pick"}),
        (put("{}"), "package-lock.json", EVERYTHING),
        (put(BUILD.replace('"x"', '"y"')), "p/c/vx.toml", EVERYTHING),
    ],
)
def test_only_what_a_change_reaches_is_made_anew(
    root: str, change: Callable[[str, str], None], path: str, reached: set[str]
) -> None:
    pass_a_tick(root)
    change(root, path)
    assert keys(root) == (anew(root), reached | LOOSE)
    pass_a_tick(root)
    assert keys(root) == (anew(root), LOOSE)


def test_a_variable_that_counts_reaches_everything(root: str) -> None:
    assert keys(root, environ={"OTHER": "1"})[1] == LOOSE
    assert keys(root, environ={"MODE": "1"}) == (
        anew(root, environ={"MODE": "1"}),
        EVERYTHING | LOOSE,
    )


def test_nothing_that_another_vx_made_is_recalled(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(root)[1] == LOOSE
    monkeypatch.setattr("vxwatch.session.recall.__version__", "99.0")
    assert keys(root)[1] == EVERYTHING | LOOSE


def test_a_command_for_fewer_tasks_recalls_them_too(root: str) -> None:
    few = OPTIONS._replace(names=("build",))
    assert keys(root, few) == (anew(root, few), set())


@pytest.mark.parametrize("other", [{"arguments": ("-x",)}, {"verb": "watch"}])
def test_nothing_is_recalled_for_another_kind_of_run(root: str, other: Mapping[str, Any]) -> None:
    options = OPTIONS._replace(**other)
    found, made = keys(root, options)
    assert found == anew(root, options)
    assert made == found.keys()


@pytest.mark.parametrize(
    "more", ["env = { secret = ['S'] }", "cache = { inputs = { runtime = ['echo'] } }"]
)
def test_nothing_is_recalled_where_a_secret_or_a_command_counts(root: str, more: str) -> None:
    write(root, "p/c/vx.toml", f"{BUILD}[tasks.after]\ncommand = 'x'\n{more}\n")
    for _ in range(2):
        pass_a_tick(root)
        found, made = keys(root)
        assert made == found.keys()


def test_nothing_is_recalled_where_a_lockfile_is_not_all_that_was_read(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vxwatch.cache.lockparts.LockParts._read", lambda *_: (None, True))
    write(root, "package-lock.json", "{}")
    keys(root)
    pass_a_tick(root)
    found, made = keys(root)
    assert made == found.keys()


def test_the_keys_outlive_what_a_smaller_run_reads(root: str) -> None:
    pass_a_tick(root)
    write(root, "p/c/src/1.txt", "two")
    alone = OPTIONS._replace(names=("c#check",), everywhere=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vxwatch.session.recall.MANY", 100)
        patch.setattr("vxwatch.cache.record._RATIO", 1000)
        keys(root, alone)
    assert Remembered.load(root).keys.by_task
    pass_a_tick(root)
    assert keys(root) == (anew(root), {"c#build", "c#check"} | LOOSE)


def test_few_keys_are_made_rather_than_written_down(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vxwatch.session.recall.MANY", len(LOOSE) + 1)
    before = os.stat(f"{root}/{PLACE}")
    assert keys(root)[1] == LOOSE
    assert os.stat(f"{root}/{PLACE}").st_ino == before.st_ino


STEP = st.lists(
    st.tuples(
        st.sampled_from([put("two"), put("three"), disguise, remove, rename, touch]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["src/1.txt", "src/2.txt", "src/new", ".env", "notes.txt", "src/made.txt"]),
    )
    | st.tuples(
        st.sampled_from([put("1.txt"), put(".env"), put(""), remove]),
        st.sampled_from(["a", "b"]),
        st.just(".gitignore"),
    ),
    max_size=4,
)


@given(st.lists(STEP, min_size=1, max_size=5), st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_done_the_keys_are_those_of_now(
    steps: list[list[tuple[Callable[[str, str], None], str, str]]], few: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = prepared(place)
        for number, step in enumerate(steps):
            pass_a_tick(root)
            for change, project, path in step:
                with contextlib.suppress(FileNotFoundError):
                    change(root, f"p/{project}/{path}")
            names = ("build",) if few and number % 2 else OPTIONS.names
            options = OPTIONS._replace(names=names)
            assert keys(root, options)[0] == anew(root, options)


@pytest.mark.parametrize("edit", ["removed", "rewritten", "made", "left alone"])
def test_a_file_too_young_to_be_vouched_for_is_no_less_a_file(
    root: str, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vxwatch.cache.content._TICK", 10**18)  # nothing is old enough
    write(root, "p/a/src/1.txt", "two")
    keys(root)
    if edit == "removed":
        os.unlink(f"{root}/p/a/src/1.txt")
    elif edit != "left alone":
        write(root, f"p/a/src/{'1' if edit == 'rewritten' else 'new'}.txt", "six")
    assert keys(root)[0] == anew(root)
