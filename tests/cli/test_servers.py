"""Persistent tasks: when they start, restart, stay and die, and what their input is."""

import os
import re

import pytest

from tests.harness.ports import is_open
from tests.harness.running import Background
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _answers(port: int, text: str) -> bool:
    try:
        return get(port) == text
    except OSError:
        return False


def _helpers(ws: Workspace) -> list[int]:
    return [seen.pid for seen in ws.processes() if seen.argv[:2] == ("sleep", "600")]


def test_a_server_that_nothing_touched_keeps_its_process(ws: Workspace) -> None:
    port = ws.port()
    ws.write("notes/n", "0")
    ws.server("web", ws.serve("web", port), ready_line="READY", restart_on=["web/**"])
    ws.task("lint", 'echo run $$ >> "$LOGS/lint"; ! grep -q BAD notes/*', inputs=["notes/**"])
    vx = ws.watch("web", "lint")
    ws.wait_open(port)
    vx.wait_says("^cycle 1: ")
    pid = get(port, "/pid")
    for run, text in enumerate(["1", "2", "3", "4", "5", "6", "7", "8", "BAD", "good"], start=2):
        ws.write("notes/n", text)
        vx.wait_says(rf"^cycle {run}: ")
        assert ws.runs("lint") == run
    ws.settle()
    assert get(port, "/pid") == pid
    assert ws.steps("web") == ["start", "listen"]
    assert vx.stop() == 0
    assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
    ws.nothing_left()


def test_a_restart_starts_the_new_server_only_when_the_old_tree_is_gone(ws: Workspace) -> None:
    port = ws.port()
    ws.write("src/x", "1")
    ws.server(
        "web",
        ws.serve("web", port, cleanup=1, helper=1) + "; :",  # a shell that dies at once in front
        ready_line="READY",
        restart_on=["src/**"],
        grace="6s",
    )
    vx = ws.watch("web")
    ws.wait_open(port)
    for starts in (2, 3, 4):
        ws.write("src/x", str(starts))
        ws.wait_steps("web", "listen", starts, 15)
        ws.wait(lambda: _answers(port, "ok"), "the new server answers")
    life = ["start", "helper", "listen"]
    assert ws.steps("web") == [*life, *(["sig15", "clean", *life] * 3)]
    assert len(ws.server_pids("web")) == 1
    assert len(_helpers(ws)) == 1
    assert not vx.says("(?i)in use")
    assert vx.stop() == 0
    ws.nothing_left()


_BUILD = """\
echo run $$ >> "$LOGS/build"
grep -q BAD src/a && { echo "src/a:1: bad word"; exit 2; }
mkdir -p dist
cp src/a dist/page
"""


def _page_server(ws: Workspace) -> int:
    port = ws.port()
    ws.write("build.sh", _BUILD)
    ws.write("src/a", "old")
    ws.task("build", "sh build.sh", inputs=["src/**", "build.sh"], outputs=["dist/**"])
    ws.server("web", ws.serve("web", port, page="dist/page"), ready_line="READY", after=["build"])
    return port


def test_while_the_build_is_broken_the_old_server_goes_on_and_the_fix_restarts_it_once(
    ws: Workspace,
) -> None:
    port = _page_server(ws)
    vx = ws.watch("web")
    ws.wait_open(port)
    assert get(port) == "old"
    pid = get(port, "/pid")
    ws.write("src/a", "BAD")
    ws.wait_runs("build", 2)
    vx.wait_says(r"src/a:1: bad word")
    ws.settle()
    assert (get(port), get(port, "/pid")) == ("old", pid)
    assert vx.says(r"build\b.*\b2\b")
    ws.write("src/a", "fine")
    ws.wait(lambda: _answers(port, "fine"), "the server shows the fix")
    ws.settle()
    assert ws.steps("web") == ["start", "listen", "sig15", "clean", "start", "listen"]
    ws.write("src/a", "BAD")
    ws.wait_runs("build", 4)
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_is_after_a_server_waits_until_it_is_ready_and_the_run_then_stops_it(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.server("api", ws.serve("api", port, slow_start=1.5), ready_port=port)
    fetch = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/').read())"
    ws.write("fetch.py", fetch)
    ws.task("e2e", 'echo run $$ >> "$LOGS/e2e"; python3 fetch.py', after=["api"])
    done = ws.vx("run", "e2e")
    assert (done.code, ws.runs("e2e")) == (0, 1), done.text
    assert done.seconds > 1.5
    assert ws.steps("api")[:2] == ["start", "listen"]
    assert ws.steps("api")[-1] == "clean"
    ws.nothing_left()


def test_a_server_that_never_gets_ready_is_killed_and_named(ws: Workspace) -> None:
    deaf = 'echo start $$ >> "$LOGS/never"; trap "" TERM; while :; do sleep 0.2; done'
    ws.server("never", deaf, ready_line="READY", ready_timeout="1s", grace="1s")
    ws.task("use", 'echo run $$ >> "$LOGS/use"', after=["never"])
    done = ws.vx("run", "use", seconds=6)
    assert done.code != 0
    assert ws.runs("use") == 0
    assert ws.runs("never") == 1
    (line,) = [line for line in done.text.splitlines() if "not ready" in line and "never" in line]
    assert "1s" in line.replace("1.0s", "1s")
    assert "137" in done.text
    ws.nothing_left()


def _kept_input(ws: Workspace, vx: Background, port: int) -> None:
    ws.wait_open(port)
    ws.settle()
    assert is_open(port)
    assert ws.steps("css") == ["start", "listen"]
    assert vx.running


def test_a_server_that_quits_at_the_end_of_its_input_stays_up_while_vx_lives(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.server("css", ws.serve("css", port, needs_stdin=1), ready_line="READY")
    for verb in ("watch", "run"):
        vx = ws.start(verb, "css")
        _kept_input(ws, vx, port)
        vx.stop()
        ws.nothing_left()
        os.unlink(os.path.join(ws.logs, "css"))


def test_a_one_shot_task_gets_the_end_of_input(ws: Workspace) -> None:
    ws.task("ask", 'if read x; then :; fi; echo "got [$x]" >> "$LOGS/ask"')
    assert ws.vx("run", "ask", seconds=10).code == 0
    assert ws.lines("ask") == ["got []"]


def _dying_pair(ws: Workspace) -> tuple[int, int]:
    first, second = ws.port(), ws.port()
    ws.write("a/x", "0")
    ws.server("a", ws.serve("a", first, die_after=1.5), ready_line="READY", restart_on=["a/**"])
    ws.server("b", ws.serve("b", second), ready_line="READY", restart_on=["b/**"])
    return first, second


def test_a_run_ends_with_the_code_of_its_server_that_died(ws: Workspace) -> None:
    _dying_pair(ws)
    done = ws.vx("run", "a", "b", seconds=10)
    assert done.code == 3, done.text
    assert any(_names(line, "a", 3) for line in done.text.splitlines()), done.text
    assert ws.steps("b")[-1] == "clean"
    ws.nothing_left()


def test_a_watch_outlives_a_server_that_died_and_an_edit_starts_it_again(ws: Workspace) -> None:
    first, second = _dying_pair(ws)
    vx = ws.watch("a", "b")
    ws.wait_open(second)
    ws.wait_steps("a", "crash", 1)
    vx.wait_says(r"\ba\b.*\b3\b")
    ws.settle(2.0)
    assert is_open(second)
    assert ws.steps("a") == ["start", "listen", "crash"]
    assert ws.steps("b") == ["start", "listen"]
    ws.write("a/x", "1")
    ws.wait_open(first)
    assert vx.stop() == 0
    assert re.search(
        r"^w#a +failed .*ended by itself, exit code 3$", ws.vx("last").out, re.MULTILINE
    )
    ws.nothing_left()


def _names(line: str, task: str, code: int) -> bool:
    words = line.replace("#", " ").replace(":", " ").replace(",", " ").split()
    return task in words and str(code) in words


@pytest.mark.parametrize("box", [None, pytest.param(Box(), marks=pytest.mark.sandbox)])
def test_a_server_restarts_while_a_long_task_of_the_cycle_runs(
    ws: Workspace, box: Box | None
) -> None:
    port = ws.port()
    ws.write("src/x", "1")
    ws.write("notes/n", "1")
    box = box and Box(read=(".",), ports=(port,))
    serve = ws.serve("web", port, page="src/x")
    ws.server("web", serve, ready_line="READY", restart_on=["src/**"], box=box)
    ws.task(
        "slow", 'echo run >> "$LOGS/slow"; sleep 3; echo end >> "$LOGS/slow"', inputs=["notes/*"]
    )
    vx = ws.watch("web", "slow", "--concurrency", "1")
    vx.wait_says("^cycle 1: ")
    ws.write("notes/n", "2")
    ws.wait_runs("slow", 3)
    ws.write("src/x", "2")
    ws.wait(lambda: _answers(port, "2"), "the new server answers")
    ws.wait_steps("web", "listen", 2)
    assert ws.runs("slow") == 3
    vx.wait_says("^cycle 2: 2 ran, 0 failed")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_that_is_slow_to_start_holds_back_what_needs_it_alone(ws: Workspace) -> None:
    ws.server("slow", "sleep 3; echo READY; sleep 100", ready_line="READY")
    ws.task("use", 'echo use >> "$LOGS/order"', after=["slow"])
    ws.task("free", 'echo free >> "$LOGS/order"')
    ws.task("next", 'echo next >> "$LOGS/order"', after=["free"])
    vx = ws.start("watch", "use", "next", "--concurrency", "1")
    ws.wait(lambda: ws.lines("order") == ["free", "next"], "the others have run")
    assert not vx.says("slow ready")
    ws.wait_runs("order", 3)
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_start_from_an_earlier_state_is_given_up(ws: Workspace) -> None:
    port = ws.port()
    ws.write("src/x", "1")
    serve = ws.serve("web", port, slow_start=2, page="src/x")
    ws.server("web", serve, ready_line="READY", restart_on=["src/**"])
    vx = ws.watch("web")
    for starts in (1, 2, 3):
        ws.wait_steps("web", "start", starts)
        if starts < 3:
            ws.write("src/x", str(starts + 1))
    ws.wait_steps("web", "listen", 1)
    vx.wait_says("^cycle 1: 1 ran, 0 failed")
    assert vx.output.count("restarting w#web: src/x changed") == 2
    assert ws.steps("web") == [
        "start",
        "sig15",
        "clean",
        "start",
        "sig15",
        "clean",
        "start",
        "listen",
    ]
    assert get(port) == "3"
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_whose_config_is_mended_while_it_starts_does_not_wait_for_its_time_to_be_over(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_line="Reddy", ready_timeout="5m")
    ws.task("use", 'echo run >> "$LOGS/use"', after=["web"])
    vx = ws.watch("use")
    ws.wait_steps("web", "listen", 1)
    ws.server("web", ws.serve("web", port), ready_line="READY", ready_timeout="5m")
    ws.wait_runs("use", 1, 20)
    assert ws.steps("web") == ["start", "listen", "sig15", "clean", "start", "listen"]
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_that_starts_while_its_config_is_half_typed_comes_up_as_it_was(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port, slow_start=3), ready_line="READY")
    ws.task("use", 'echo run >> "$LOGS/use"', after=["web"])
    config = ws.read("vx.toml")
    vx = ws.watch("use")
    ws.wait_steps("web", "start", 1)
    ws.replace("vx.toml", config + "\n[tasks.")
    vx.wait_says("vx.toml:")
    ws.wait_runs("use", 1, 20)
    assert ws.steps("web") == ["start", "sig15", "clean", "start", "listen"]
    ws.replace("vx.toml", config + "\n")
    vx.wait_says("^cycle 3: ")
    ws.settle()
    assert ws.steps("web")[-1] == "listen"
    assert vx.stop() == 0
    ws.nothing_left()
