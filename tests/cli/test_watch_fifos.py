"""What is no file where a config, a manifest or rules are looked for: it is told, and nothing hangs."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _built(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.write(".gitignore", "built\n")
    ws.task("build", "cat src/a > built", inputs=["src/**"], outputs=["built"])


def _make(ws: Workspace, path: str, kind: str) -> None:
    Path(ws.file(path)).unlink(missing_ok=True)
    os.makedirs(os.path.dirname(ws.file(path)), exist_ok=True)
    if kind == "fifo":
        os.mkfifo(ws.file(path))
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(ws.file(path)))
    else:
        os.symlink("/dev/zero", ws.file(path))


@pytest.mark.parametrize("kind", ["fifo", "socket", "endless"])
@pytest.mark.parametrize(
    "name", ["vx.toml", "package.json", "pyproject.toml", "vx.config.py", "vx.workspace.toml"]
)
def test_a_config_that_is_no_file_is_told_and_the_watch_goes_on_without_it(
    ws: Workspace, name: str, kind: str
) -> None:
    _built(ws)
    before = ws.read(name) if os.path.exists(ws.file(name)) else None
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    _make(ws, name, kind)
    vx.wait_says(rf"^{name}: .*cannot be read: not a regular file")
    done = ws.vx("run", "build")
    assert done.code == 2
    assert "not a regular file" in done.text
    os.unlink(ws.file(name))
    if before is not None:
        ws.write(name, before)
    ws.write("src/a", "1")
    ws.wait(lambda: ws.holds("built", "1"), "what is edited then is built")
    assert vx.stop() == 0
    ws.nothing_left()


@pytest.mark.parametrize("place", ["", "sub/"])
def test_rules_that_are_a_fifo_are_told_and_the_watch_goes_on_when_they_are_gone(
    ws: Workspace, place: str
) -> None:
    _built(ws)
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    rules = f"{place}.gitignore"
    _make(ws, rules, "fifo")
    vx.wait_says(rf"^vx: git waits for {ws.file(rules)}, which is a fifo and no file$", 20)
    done = ws.vx("run", "build")
    assert done.code == 2
    assert f"git waits for {ws.file(rules)}" in done.text
    os.unlink(ws.file(rules))
    ws.write("src/a", "1")
    ws.wait(lambda: ws.holds("built", "1"), "what is edited then is built", 20)
    assert vx.stop() == 0
    ws.nothing_left()


def test_ctrl_c_ends_a_watch_whose_git_waits(ws: Workspace) -> None:
    _built(ws)
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    _make(ws, "sub/.gitignore", "fifo")
    vx.wait_says("^vx: git waits for ", 20)
    ws.write("src/a", "1")
    assert vx.stop(signal.SIGINT) == 0
    ws.nothing_left()


def test_rules_that_are_no_file_rule_nothing_where_there_is_no_repository(ws: Workspace) -> None:
    _built(ws)
    os.rename(ws.file(".git"), f"{ws.logs}/git")
    _make(ws, ".gitignore", "fifo")
    assert ws.vx("run", "build").code == 0
    assert ws.read("built") == "0"
