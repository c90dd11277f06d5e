"""Presets, as a user meets them: the same tasks, run again for what concerns them alone."""

import json

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

SHARED = """\
[presets.say]
command = "echo one"
cache = {{ inputs = ["src/**"], outputs = [] }}
{more}
[presets.other]
command = "echo {other}"
cache = {{ inputs = ["src/**"], outputs = [] }}
"""
OWN = """\
[tasks.said]
extends = "say"
[tasks.also]
extends = "other"
"""


def share(ws: Workspace, *, more: str = "", other: str = "two") -> None:
    ws.write("vx.workspace.toml", SHARED.format(more=more, other=other))


@pytest.fixture
def preset(ws: Workspace) -> Workspace:
    share(ws)
    ws.write("vx.toml", OWN)
    ws.write("src/a", "0")
    return ws


def test_a_preset_moves_the_tasks_that_extend_it(preset: Workspace) -> None:
    done = preset.vx("run", "said", "also")
    assert "2 ran" in done.out
    assert preset.vx("run", "said", "also").out.startswith("2 fresh")
    share(preset, other="three")
    done = preset.vx("run", "said", "also")
    assert "1 ran" in done.out
    assert "1 fresh" in done.out
    assert "three" in done.out
    assert "one" not in done.out


def test_what_makes_nothing_else_runs_nothing(preset: Workspace) -> None:
    preset.vx("run", "said", "also")
    share(preset, more='timeout = "5m"\n[presets.unused]\ncommand = "x"')
    assert preset.vx("run", "said", "also").out.startswith("2 fresh")
    assert json.loads(preset.vx("show", "said", "--format", "json").out)["timeout"] == 300.0


def test_a_task_written_out_is_the_same_task(preset: Workspace) -> None:
    preset.vx("run", "said")
    written = '[tasks.said]\ncommand = "echo one"\ncache = { inputs = ["src/**"], outputs = [] }\n'
    preset.write("vx.toml", written)
    assert preset.vx("run", "said").out.startswith("1 fresh")


def test_a_watch_takes_up_an_edit_of_a_preset(preset: Workspace) -> None:
    vx = preset.watch("said", "also")
    vx.wait_says(r"^cycle 1: 2 ran")
    share(preset, other="three")
    vx.wait_says(r"^cycle 2: 1 ran")
    share(preset, more="comand = 'x'")
    vx.wait_says(r"^vx\.workspace\.toml:4: presets\.say\.comand: unknown field")
    preset.write("vx.toml", OWN.replace("say", "sai"))
    share(preset)
    vx.wait_says(r'^vx\.toml:2: tasks\.said\.extends: no preset "sai"')
    preset.write("vx.toml", OWN)
    vx.wait_says(r"^cycle 3: 0 ran, 0 failed, 2 kept")


def test_a_change_of_a_preset_affects_all(preset: Workspace) -> None:
    preset.write(".gitignore", ".vx\n")
    preset.git("add", ".")
    preset.git("commit", "-qm", "a")
    share(preset, other="three")
    done = preset.vx("run", "said", "also", "--affected=HEAD")
    assert "2 ran" in done.out
