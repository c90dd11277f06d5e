"""What a running server sees in its sandbox of the files that change on the host."""

import re
import shutil
from collections.abc import Callable

import pytest

from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(120)]


def _shows(port: int, text: str) -> bool:
    try:
        return get(port) == text
    except OSError:  # the file is not there just now
        return False


def _by_rename(ws: Workspace) -> None:
    ws.replace("site/page", "new")


def _made_anew(ws: Workspace) -> None:
    shutil.rmtree(ws.file("site"))
    ws.write("site/page", "new")


def _in_place(ws: Workspace) -> None:
    ws.write("site/page", "new")


@pytest.mark.parametrize(
    ("grant", "edit", "starts"),
    [
        ("site/page", _in_place, 1),
        ("site/page", _by_rename, 2),
        ("site/p*", _by_rename, 2),
        ("site/", _by_rename, 1),
        ("site/", _made_anew, 2),
        (".", _made_anew, 1),
    ],
)
def test_a_server_sees_what_its_grant_names_now(
    ws: Workspace, grant: str, edit: Callable[[Workspace], None], starts: int
) -> None:
    port = ws.port()
    ws.write("site/page", "old")
    serve = ws.serve("web", port, page="site/page")
    ws.server("web", serve, ready_line="READY", box=Box(read=(grant,), ports=(port,)))
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: 1 ran")
    assert get(port) == "old"
    edit(ws)
    ws.wait(lambda: _shows(port, "new"), "the server shows the edit")
    ws.settle()
    assert ws.steps("web").count("start") == starts
    assert vx.says("^note: w#web restarts: site.* was replaced") == (starts > 1)
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_sees_what_a_task_made_anew(ws: Workspace) -> None:
    port = ws.port()
    ws.write("src/a", "old")
    build = "rm -rf dist; mkdir dist; cp src/a dist/page"
    ws.task("build", build, inputs=["src/**"], outputs=["dist/**"])
    serve = ws.serve("web", port, page="dist/page")
    box = Box(read=("dist/",), ports=(port,))
    ws.server("web", serve, ready_line="READY", box=box, after=["build"], follows=False)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: 2 ran")
    ws.write("src/a", "new")
    ws.wait(lambda: _shows(port, "new"), "the server shows the edit")
    ws.settle()
    assert ws.steps("web").count("start") == 2
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_that_never_restarts_keeps_a_file_that_was_replaced_and_says_so(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.write("site/page", "old")
    serve = ws.serve("web", port, page="site/page")
    box = Box(read=("site/page",), ports=(port,))
    ws.server("web", serve, ready_line="READY", box=box, restart="never")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: 1 ran")
    for text in ("new", "newer"):
        ws.replace("site/page", text)
        ws.settle(0.5)
    assert get(port) == "old"
    said = r'w#web keeps running \(restart = "never"\): site/page was replaced'
    assert len(re.findall(said, vx.output)) == 1
    assert ws.steps("web") == ["start", "listen"]
    assert vx.stop() == 0
    ws.nothing_left()
