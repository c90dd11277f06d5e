"""A file that git tracks where outputs lie is nobody's output: who asks for it takes it."""

import pytest

from tests.cli.test_cache import run
from tests.harness.workspace import Workspace

KINDS = {
    "spelled": '"dist/static"',
    "matched": '"dist/**"',
}


@pytest.fixture(params=KINDS)
def ws(request: pytest.FixtureRequest, ws: Workspace) -> Workspace:
    """`pack` builds on `build` and takes the file that was put into its output directory."""
    ws.write(".gitignore", "dist\nout\n")
    ws.write("src/a", "a")
    ws.write("dist/static", "1")
    ws.git("init", "-q")
    ws.git("add", "-f", "dist/static", ".gitignore")
    ws.write(
        "vx.toml",
        f"""
        [tasks.build]
        command = "mkdir -p dist; cp src/a dist/made"
        cache = {{ inputs = ["src/**"], outputs = ["dist/**"] }}
        [tasks.pack]
        command = "echo >> {ws.logs}/pack; cat dist/made dist/static > out"
        depends_on = ["build"]
        cache = {{ inputs = [{KINDS[request.param]}], outputs = ["out"] }}
        """,
    )
    return ws


def test_an_edit_of_it_is_seen(ws: Workspace) -> None:
    assert run(ws, "pack") == "2 ran"
    assert run(ws, "pack") == "2 fresh"
    ws.write("dist/static", "2")
    assert "dist/static changed" in ws.vx("why", "pack").out
    assert run(ws, "pack") == "1 ran, 1 fresh"
    assert ws.read("out") == "a2"
    ws.write("src/a", "b")
    assert run(ws, "pack") == "2 ran"
    assert ws.read("out") == "b2"
    ws.write("src/a", "a")
    ws.write("dist/static", "1")
    assert run(ws, "pack") == "2 restored"
    assert ws.read("out") == "a1"


def test_an_edit_of_it_is_seen_by_a_watch(ws: Workspace) -> None:
    vx = ws.watch("pack")
    ws.wait(lambda: ws.holds("out", "a1"), "the first output")
    ws.settle()
    ws.write("dist/static", "2")
    ws.wait(lambda: ws.holds("out", "a2"), "the edit is taken up")
    ws.settle()
    ws.write("dist/more", "no input")
    ws.settle()
    assert ws.runs("pack") == 2
    assert vx.stop() == 0


@pytest.mark.parametrize("ws", ["spelled"], indirect=True)
def test_what_comes_under_git_in_a_watch_is_an_input_from_then_on(ws: Workspace) -> None:
    ws.git("rm", "-q", "--cached", "dist/static")
    vx = ws.watch("pack")
    ws.wait(lambda: ws.holds("out", "a1"), "the first output")
    ws.settle()
    ws.git("add", "-f", "dist/static")
    ws.write("src/a", "b")
    ws.wait(lambda: ws.holds("out", "b1"), "the edit is taken up")
    ws.settle()
    ws.write("dist/static", "2")
    ws.wait(lambda: ws.holds("out", "b2"), "the edit is taken up")
    assert vx.stop() == 0
