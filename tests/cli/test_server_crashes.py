"""Servers that end by themselves, and what `restart` makes of that."""

import contextlib
import os
import threading
import time

import pytest

from tests.harness.ports import is_open
from tests.harness.running import Background
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _kill_server(port: int) -> None:
    with contextlib.suppress(OSError):
        get(port, "/die")


def _count(vx: Background, text: str) -> int:
    return vx.output.count(text)


def test_a_server_that_crashed_is_up_again_by_itself(ws: Workspace) -> None:
    port, other = ws.port(), ws.port()
    ws.server("a", ws.serve("a", port), ready_line="READY", restart="on-crash")
    ws.server("b", ws.serve("b", other), ready_line="READY")
    vx = ws.watch("a", "b")
    ws.wait_open(other)
    vx.wait_says("^cycle 1: ")
    _kill_server(port)
    ws.wait_steps("a", "listen", 2)
    assert get(port) == "ok"
    vx.wait_says("a ready again")
    assert vx.says(r"w#a ended by itself: exit code 3; starts again in 100 ms$")
    assert ws.steps("a") == ["start", "listen", "crash", "start", "listen"]
    assert ws.steps("b") == ["start", "listen"]
    assert not vx.says("^cycle 2")
    assert vx.stop() == 0
    ws.nothing_left()


@pytest.mark.sandbox
def test_requests_made_while_a_crashed_server_comes_back_wait_for_it(ws: Workspace) -> None:
    port = ws.port()
    serve = ws.serve("a", port, slow_start=0.5)
    ws.server("a", serve, ready_line="READY", restart="on-crash", box=Box(ports=(port,)))
    vx = ws.watch("a")
    vx.wait_says("^cycle 1: ")
    for life in (2, 3, 4):
        _kill_server(port)
        vx.wait_says(f"(?s)(starts again.*){{{life - 1}}}")
        while ws.steps("a").count("listen") < life:
            assert get(port, seconds=20) == "ok"
    assert get(port) == "ok"
    assert vx.stop() == 0
    ws.nothing_left()


def _fragile(ws: Workspace, **fields: object) -> int:
    """A boxed server that comes up as long as the file `fit` is there, which git ignores."""
    port = ws.port()
    ws.write(".gitignore", "fit\n")
    ws.write("fit", "")
    ws.server(
        "a",
        f"test -e fit || exit 4; exec {ws.serve('a', port)}",
        ready_line="READY",
        restart="on-crash",
        box=Box(read=(".",), ports=(port,)),
        **fields,  # type: ignore[arg-type]
    )
    return port


@pytest.mark.sandbox
def test_a_client_waits_through_starts_that_fail(ws: Workspace) -> None:
    port = _fragile(ws)
    vx = ws.watch("a")
    vx.wait_says("^cycle 1: ")
    os.unlink(ws.file("fit"))
    _kill_server(port)
    vx.wait_says(r"w#a ended before it was ready: exit code 4; starts again in 200 ms$")
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(get(port, seconds=30)))
    client.start()
    vx.wait_says(r"starts again in 400 ms$")
    ws.write("fit", "")
    client.join()
    assert answers == ["ok"]
    vx.wait_says("a ready again")
    assert vx.stop() == 0
    ws.nothing_left()


@pytest.mark.sandbox
def test_clients_of_a_server_that_stays_down_are_refused_in_time(ws: Workspace) -> None:
    port = _fragile(ws, ready_timeout="1s")
    vx = ws.watch("a")
    vx.wait_says("^cycle 1: ")
    os.unlink(ws.file("fit"))
    _kill_server(port)
    begun = time.monotonic()
    with pytest.raises(OSError, match=r".*"):
        get(port, seconds=30)
    assert time.monotonic() - begun < patience(5)
    ws.wait(lambda: not is_open(port), "clients are refused at once")
    ws.write("fit", "")
    ws.wait(lambda: is_open(port), "the server is back")
    assert get(port) == "ok"
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_crash_loop_is_told_once_and_slows_down_and_an_edit_ends_the_wait(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.write("a.txt", "0")
    command = 'echo start >> "$LOGS/a"; grep -q good a.txt || exit 5; exec '
    ws.server(
        "a",
        command + ws.serve("up", port),
        ready_line="READY",
        restart_on=["a.txt"],
        restart="on-crash",
    )
    vx = ws.watch("a")
    vx.wait_says("^note|^warning: w#a ends again and again", 20)
    vx.wait_says("starts again in 3.20 s", 20)
    assert _count(vx, "again and again") == 1
    assert ws.runs("a") == 6
    assert vx.says(r"w#a failed - ended before it was ready - exit code 5\b.*\n  it starts again")
    begun = time.monotonic()
    ws.write("a.txt", "good")
    ws.wait_open(port)
    assert time.monotonic() - begun < patience(2)
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_waited_for_a_server_runs_when_it_has_come_up_by_itself(ws: Workspace) -> None:
    port = ws.port()
    ws.write(".gitignore", "fit\n")
    command = f"test -e fit || exit 4; exec {ws.serve('api', port)}"
    ws.server("api", command, ready_line="READY", restart="on-crash")
    ws.task("use", 'echo run >> "$LOGS/use"', after=["api"])
    vx = ws.watch("use")
    vx.wait_says("^cycle 1: 0 ran, 1 failed, 1 skipped")
    assert ws.runs("use") == 0
    ws.write("fit", "")
    ws.wait_runs("use", 1)
    vx.wait_says("^cycle 2: 1 ran, 0 failed")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_run_goes_on_when_its_server_crashed_and_comes_back(ws: Workspace) -> None:
    port = ws.port()
    ws.server("a", ws.serve("a", port), ready_line="READY", restart="on-crash")
    vx = ws.start("run", "a")
    for life in (1, 2):
        ws.wait_steps("a", "listen", life)
        _kill_server(port)
    ws.wait_steps("a", "listen", 3)
    assert vx.running
    assert vx.stop() == 130
    assert ws.steps("a")[-1] == "clean"
    ws.nothing_left()


def test_a_run_fails_with_a_server_that_never_came_up(ws: Workspace) -> None:
    ws.server("a", "exit 4", ready_line="READY", restart="on-crash")
    ws.task("use", 'echo run >> "$LOGS/use"', after=["a"])
    done = ws.vx("run", "use")
    assert (done.code, ws.runs("use")) == (4, 0), done.text
    ws.nothing_left()


def test_a_pause_ends_with_the_watch(ws: Workspace) -> None:
    ws.server("a", "exit 4", ready_line="READY", restart="on-crash")
    vx = ws.watch("a")
    vx.wait_says("starts again in 1.60 s", 20)
    begun = time.monotonic()
    assert vx.stop() == 0
    assert time.monotonic() - begun < patience(1.5)
    ws.nothing_left()


def test_a_server_that_never_restarts_stays_as_it_is_and_says_so_once(ws: Workspace) -> None:
    port = ws.port()
    ws.write("src/a", "0")
    ws.server("web", ws.serve("web", port, name="old"), ready_line="READY", restart="never")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    pid = get(port, "/pid")
    ws.write("src/a", "1")
    vx.wait_says(r'^note: w#web keeps running \(restart = "never" in vx.toml\)')
    for number, name in enumerate(("new", "newer"), start=2):
        command = ws.serve("web", port, name=name)
        ws.server("web", command, ready_line="READY", restart="never")
        vx.wait_says(rf"^cycle {number}: ")
    ws.settle()
    assert get(port, "/pid") == pid
    assert _count(vx, "keeps running as it was") == 1
    assert ws.steps("web") == ["start", "listen"]
    _kill_server(port)
    vx.wait_says("web ended by itself: exit code 3$")
    ws.write("src/a", "2")
    ws.settle()
    assert ws.steps("web") == ["start", "listen", "crash"]
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_that_never_restarts_can_be_told_otherwise(ws: Workspace) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port, name="old"), ready_line="READY", restart="never")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    ws.server("web", ws.serve("web", port, name="new"), ready_line="READY", restart="on-change")
    vx.wait_says("READY new")
    assert ws.steps("web").count("start") == 2
    assert vx.stop() == 0
    ws.nothing_left()


def test_the_end_of_a_run_repeats_the_last_words_of_the_server_that_crashed(ws: Workspace) -> None:
    ws.server("a", "echo READY; sleep 1; echo why; exit 3", ready_line="READY")
    noise = "i=0; while [ $i -lt 50 ]; do echo ending $i; i=$((i+1)); done"
    ws.server("b", f"trap '{noise}; exit 0' TERM; echo READY; sleep 60 & wait", ready_line="READY")
    done = ws.vx("run", "a", "b")
    assert done.code == 3
    said = done.text[done.text.index("✗ w#a failed") :].splitlines()
    assert said == ["✗ w#a failed - ended by itself - exit code 3", "a | READY", "a | why"]
    last = ws.vx("last").text
    assert any(line.split()[:2] == ["w#a", "failed"] for line in last.splitlines()), last
    ws.nothing_left()
