"""A result is kept under the keys it was built on, so only if what they stand for was there."""

import os

import pytest

from tests.cli.test_cache import run
from tests.harness.running import Background
from tests.harness.workspace import Workspace

READS = "mkdir -p {0}; cat {1} > {0}/out"


def chain(ws: Workspace, *, wait: str = "true", between: bool = False) -> None:
    """`one` makes one/out of src/a, and `two` makes two/out of that, once `wait` is over.

    With `between`, `two` depends on it by way of others only.
    """
    ws.write("src/a", "good\n")
    ws.task("one", READS.format("one", "src/a"), inputs=["src/**"], outputs=["one/**"])
    ws.task("mid", "true", inputs=["mid.cfg"], outputs=[], after=["one"])
    ws.task("hold", wait, inputs=["hold.cfg"], outputs=[], after=["mid"])
    ws.task(
        "two",
        READS.format("two", "one/out"),
        inputs=["two.cfg"],
        outputs=["two/**"],
        after=["hold"] if between else ["one", "hold"],
    )


UNTIL = 'touch "$LOGS/held"; while [ ! -e "$LOGS/go" ]; do sleep 0.02; done'


def held(ws: Workspace, *, between: bool = False) -> Background:
    """A run of all that has made everything but `two`, which waits for `go`."""
    chain(ws, wait=UNTIL, between=between)
    vx = ws.start("run", "two")
    ws.wait(lambda: os.path.exists(os.path.join(ws.logs, "held")), "hold runs")
    return vx


def go(ws: Workspace) -> None:
    with open(os.path.join(ws.logs, "go"), "w"):
        pass


@pytest.mark.parametrize("between", [False, True], ids=["next", "further"])
def test_what_another_vx_makes_of_it_meanwhile(ws: Workspace, between: bool) -> None:
    vx = held(ws, between=between)
    ws.replace("src/a", "other\n")
    assert run(ws, "one") == "1 ran"
    go(ws)
    assert vx.ended() == 0
    assert ws.read("two/out") == "other\n"
    ws.replace("src/a", "good\n")
    assert run(ws, "two") == "3 ran, 1 restored"
    assert ws.read("two/out") == "good\n"


@pytest.mark.parametrize("between", [False, True], ids=["next", "further"])
def test_what_a_hand_changes_and_changes_back(ws: Workspace, between: bool) -> None:
    vx = held(ws, between=between)
    ws.write("one/out", "by hand\n")
    ws.write("one/out", "good\n")
    go(ws)
    assert vx.ended() == 0
    assert "two is not saved: what " in vx.output
    assert run(ws, "two") == "3 ran, 1 fresh"


def test_what_lies_beside_it_is_no_matter(ws: Workspace) -> None:
    vx = held(ws)
    ws.write("one.txt", "")
    os.utime(ws.file("one"))
    go(ws)
    assert vx.ended() == 0
    assert run(ws, "two") == "4 fresh"


def test_a_hand_in_the_outputs_while_a_watch_goes_on(ws: Workspace) -> None:
    chain(ws)
    vx = ws.watch("two")
    vx.wait_says("^cycle 1: ")
    ws.write("one/out", "by hand\n")
    ws.write("two.cfg", "")
    vx.wait_says("^cycle 2: 1 ran")
    assert ws.read("two/out") == "by hand\n"
    assert vx.stop() == 0
    assert run(ws, "two") == "1 ran, 1 restored, 2 fresh"
    assert ws.read("two/out") == "good\n"


def test_what_was_built_although_what_it_needs_failed(ws: Workspace) -> None:
    ws.write("src/a", "good\n")
    ws.task(
        "one",
        '[ -e "$LOGS/go" ] && mkdir -p one && cat src/a > one/out',
        inputs=["src/**"],
        outputs=["one/**"],
    )
    ws.task(
        "two",
        "mkdir -p two; cat one/out > two/out || echo none > two/out",
        inputs=["two.cfg"],
        outputs=["two/**"],
        after=["one"],
    )
    ws.task(
        "three",
        READS.format("three", "two/out"),
        inputs=["three.cfg"],
        outputs=["three/**"],
        after=["two"],
    )
    assert ws.vx("run", "three", "--continue=always").code == 1
    assert ws.read("three/out") == "none\n"
    go(ws)
    assert run(ws, "three") == "3 ran"
    assert ws.read("three/out") == "good\n"


def test_what_a_task_that_does_not_count_writes_into_what_another_takes(ws: Workspace) -> None:
    ws.write("src/a", "one\n")
    ws.write("gen/b", "")
    ws.task("one", "cat src/a > gen/b", inputs=["src/**"], outputs=[])
    ws.write(
        "vx.toml",
        ws.read("vx.toml")
        + """
[tasks.two]
command = "mkdir -p two; cat gen/b > two/out"
depends_on = ["one"]
cache = { inputs = { files = ["gen/**"], tasks = [] }, outputs = ["two/**"] }
[tasks.three]
command = "mkdir -p three; cat two/out > three/out"
depends_on = ["two"]
cache = { inputs = ["three.cfg"], outputs = ["three/**"] }
""",
    )
    for text in ("one\n", "two\n", "three\n"):
        ws.replace("src/a", text)
        assert ws.vx("run", "three").code == 0
        assert ws.read("three/out") == text
