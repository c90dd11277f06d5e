"""A watch whose configs are symbolic links: what they lead to counts, and so does each link."""

import os
from pathlib import Path

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(params=["events", "polling"], autouse=True)
def way(request: pytest.FixtureRequest, ws: Workspace) -> None:
    """How the watch hears of changes."""
    if request.param == "polling":
        ws.environment = {**ws.environment, "VX_WATCH_POLL": "1"}


def _config(word: str) -> str:
    return f"[tasks.build]\ncommand = 'echo {word} > word'\ncache = {{ outputs = ['word'] }}\n"


def _link(ws: Workspace, path: str, target: str) -> None:
    full = Path(ws.file(path))
    os.makedirs(full.parent, exist_ok=True)
    beside = full.with_name("link-to-be")
    beside.symlink_to(target)
    beside.rename(full)


def _save(ws: Workspace, path: str, text: str) -> None:
    """Write a file that may lie outside of the workspace."""
    full = Path(ws.file(path))
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text(text)


def _says(ws: Workspace, path: str, word: str) -> None:
    ws.wait(lambda: ws.holds(path, f"{word}\n"), f"{path} says {word}")


@pytest.mark.parametrize("target", ["tasks.toml", "../../shared/tasks.toml", "{logs}/tasks.toml"])
def test_an_edit_of_what_a_config_leads_to_is_taken_up(ws: Workspace, target: str) -> None:
    target = target.format(logs=ws.logs)
    ws.write("vx.workspace.toml", "members = ['p/*']\n")
    ws.write(".gitignore", "word\n")
    _save(ws, os.path.join("p/x", target), _config("one"))
    _link(ws, "p/x/vx.toml", target)
    vx = ws.watch("x#build")
    vx.wait_says("^cycle 1: 1 ran")
    _save(ws, os.path.join("p/x", target), _config("two"))
    _says(ws, "p/x/word", "two")
    _save(ws, os.path.join("p/x", target), "[tasks.build\n")
    vx.wait_says("is not TOML")
    _save(ws, os.path.join("p/x", target), _config("three"))
    _says(ws, "p/x/word", "three")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_link_on_the_way_that_leads_elsewhere_is_taken_up(ws: Workspace) -> None:
    ws.write("one/tasks.toml", _config("one"))
    ws.write("two/tasks.toml", _config("two"))
    _link(ws, "now", "one")
    _link(ws, "vx.toml", "now/tasks.toml")
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    _link(ws, "now", "two")
    _says(ws, "word", "two")
    ws.write("two/tasks.toml", _config("three"))
    _says(ws, "word", "three")
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_a_config_leads_to_may_appear_later(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", "members = ['p/*']\n")
    ws.write("p/y/vx.toml", _config("other"))
    ws.write("p/x/package.json", '{"name": "x"}')
    _link(ws, "p/x/vx.toml", "../../shared/deep/tasks.toml")
    vx = ws.start("watch", "build", "--all")
    vx.wait_says("^cycle 1: 1 ran")
    ws.write("shared/deep/tasks.toml", _config("one"))
    _says(ws, "p/x/word", "one")
    os.unlink(ws.file("shared/deep/tasks.toml"))
    vx.wait_says("^cycle 3: ")
    ws.write("shared/deep/tasks.toml", _config("two"))
    _says(ws, "p/x/word", "two")
    assert vx.stop() == 0
    ws.nothing_left()


def test_members_of_linked_settings_come_and_go(ws: Workspace) -> None:
    ws.write("shared/ws.toml", "members = ['p/y']\n")
    _link(ws, "vx.workspace.toml", "shared/ws.toml")
    for name in "xy":
        ws.write(f"p/{name}/vx.toml", _config(name))
    vx = ws.start("watch", "build", "--all")
    vx.wait_says("^cycle 1: 1 ran")
    ws.write("shared/ws.toml", "members = ['p/*']\n")
    _says(ws, "p/x/word", "x")
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_a_config_program_opens_through_a_link_is_taken_up(ws: Workspace) -> None:
    ws.write("shared/word", "one")
    _link(ws, "said", "shared/word")
    ws.write(
        "vx.config.py",
        "word = open('said').read()\n"
        "config = {'tasks': {'build': {'command': f'echo {word} > word',"
        " 'cache': {'outputs': ['word']}}}}\n",
    )
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    ws.write("shared/word", "two")
    _says(ws, "word", "two")
    ws.write("shared/other", "three")
    _link(ws, "said", "shared/other")
    _says(ws, "word", "three")
    assert vx.stop() == 0
    ws.nothing_left()
