"""Tasks that may make outputs in the same place do not take each other's away by a restore."""

import os
import shutil

import pytest

from tests.cli.test_cache import run
from tests.harness.workspace import Workspace

RULES = "rules = { exclusive_outputs = false }\n"


def tasks(ws: Workspace, base: str, build: str, out: str) -> None:
    """Two tasks: `build` adds to what `base` makes in `dist`."""
    ws.write("vx.workspace.toml", RULES)
    ws.write("src/a", "a")
    ws.write(
        "vx.toml",
        f"""
        [tasks.base]
        command = "mkdir -p dist; {base}"
        cache = {{ inputs = ["src/**"], outputs = ["dist/**"] }}
        [tasks.build]
        command = "{build}"
        depends_on = ["base"]
        cache = {{ inputs = ["src/**"], outputs = ["{out}"] }}
        """,
    )


def files(ws: Workspace) -> dict[str, str]:
    found = {}
    for directory, _, names in os.walk(ws.file("dist")):
        for name in names:
            path = os.path.relpath(f"{directory}/{name}", ws.path)
            found[path] = ws.read(path).strip()
    return found


@pytest.mark.parametrize("out", ["dist/out", "dist/deep/out"])
@pytest.mark.parametrize("words", [("build",), ("build", "--all")])
def test_what_was_made_is_fresh_and_restored_whole(
    ws: Workspace, out: str, words: tuple[str, ...]
) -> None:
    base = "cp src/* dist; cp src/a dist/y"
    tasks(ws, base, f"mkdir -p $(dirname {out}); cat dist/y > {out}", out)
    assert run(ws, *words) == "2 ran"
    made = files(ws)
    assert made == {"dist/a": "a", "dist/y": "a", out: "a"}
    for _ in range(3):
        assert run(ws, *words) == "2 fresh"
        assert files(ws) == made
    os.unlink(ws.file("dist/y"))
    assert run(ws, *words) == "1 restored, 1 fresh"
    assert files(ws) == made
    shutil.rmtree(ws.file("dist"))
    assert run(ws, *words) == "2 restored"
    assert files(ws) == made
    ws.write("src/a", "b")
    ws.write("src/more", "b")
    assert run(ws, *words) == "2 ran"
    assert files(ws) == {"dist/a": "b", "dist/y": "b", "dist/more": "b", out: "b"}
    ws.write("dist/stray", "")
    ws.write("src/a", "a")
    os.unlink(ws.file("src/more"))
    assert run(ws, *words) == "2 restored"
    assert files(ws) == made


def test_a_file_that_both_make_is_that_of_the_later_one(ws: Workspace) -> None:
    tasks(ws, "cp src/a dist/y", "cat src/a src/a > dist/y", "dist/y")
    for _ in range(4):
        run(ws, "build")
        assert files(ws) == {"dist/y": "aa"}


def test_what_a_task_made_that_is_there_no_more_is_a_stray(ws: Workspace) -> None:
    tasks(ws, "cp src/a dist/y", "cat dist/y > dist/out", "dist/out")
    assert run(ws, "build") == "2 ran"
    config = ws.read("vx.toml")
    ws.write("vx.toml", config[: config.index("[tasks.build]")])
    assert run(ws, "base") == "1 restored"
    assert files(ws) == {"dist/y": "a"}
