"""However vx ends, nothing that it started is left."""

import os
import signal
import subprocess
import time

import pytest

from tests.harness import running
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

_STUBBORN = 'echo start $$ >> "$LOGS/tmo"; trap "" TERM HUP INT; sleep 300 & wait'


def _three_servers(ws: Workspace) -> None:
    """A pipeline under two shells, a deaf server, and a boxed one."""
    web, api, cell = ws.port(), ws.port(), ws.port()
    pipeline = f"sh -c '{ws.serve('web', web, helper=1)}' | cat & wait"
    ws.server("web", pipeline, ready_port=web)
    ws.server("api", ws.serve("api", api, helper=1, deaf=1), ready_port=api, grace="2s")
    boxed = f"{ws.serve('cell', cell, helper=1)} & wait"
    ws.server("cell", boxed, ready_port=cell, box=Box(ports=(cell,)))
    ws.task("work", 'echo start $$ >> "$LOGS/work"; sleep 300 | sleep 301')
    ws.task("tmo", _STUBBORN)


def _all_up(ws: Workspace, *one_shots: str) -> None:
    for server in ("web", "api", "cell"):
        ws.wait_steps(server, "listen", 1)
    for task in one_shots:
        ws.wait_steps(task, "start", 1)


def _forget_logs(ws: Workspace) -> None:
    for name in os.listdir(ws.logs):
        if name[0] != ".":
            os.unlink(os.path.join(ws.logs, name))


def _cpu_seconds(pid: int) -> float:
    """What the process itself has used; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(") ")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _was_stopped_once(ws: Workspace, server: str) -> bool:
    life = ["start", "helper", "listen"]
    return ws.steps(server) in [[*life, stop, "clean"] for stop in ("sig2", "sig15", "sig1")]


@pytest.mark.sandbox
@pytest.mark.parametrize(("verb", "code"), [("run", 130), ("watch", 0)])
def test_ctrl_c_ends_every_tree_and_restores_the_terminal(
    ws: Workspace, verb: str, code: int
) -> None:
    _three_servers(ws)
    vx = ws.terminal(verb, "web", "api", "cell", "work", "--concurrency", "8")
    _all_up(ws, "work")
    vx.press(b"\x03")
    assert vx.ended(5) == code
    ws.nothing_left(1)
    assert vx.restored
    assert _was_stopped_once(ws, "web")
    assert _was_stopped_once(ws, "cell")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_run_that_is_signalled_ends_with_that_signal(
    ws: Workspace, number: int, code: int
) -> None:
    ws.task("work", 'echo start $$ >> "$LOGS/work"; sleep 300 | sleep 301')
    vx = ws.start("run", "work")
    ws.wait_steps("work", "start", 1)
    assert vx.stop(number, 5) == code
    ws.nothing_left(1)


@pytest.mark.sandbox
def test_kill_9_of_vx_takes_every_task_with_it_each_time(ws: Workspace) -> None:
    _three_servers(ws)
    for _ in range(3):
        vx = ws.start("watch", "web", "api", "cell", "tmo", "--concurrency", "8")
        _all_up(ws, "tmo")
        vx.send(signal.SIGKILL)
        assert vx.ended() == 137
        ws.nothing_left(3)
        _forget_logs(ws)
    vx = ws.start("run", "work")
    ws.wait_steps("work", "start", 1)
    assert vx.stop() == 130


@pytest.mark.sandbox
def test_kill_9_of_the_group_of_vx_leaves_nothing_and_no_forwarder(ws: Workspace) -> None:
    _three_servers(ws)
    vx = ws.start("run", "web", "api", "cell", "work", "--concurrency", "8")
    _all_up(ws, "work")
    os.killpg(vx.pid, signal.SIGKILL)
    assert vx.ended() == 137
    ws.nothing_left(3)


@pytest.mark.sandbox
@pytest.mark.parametrize("task", ["web", "cell"])
def test_kill_9_in_the_middle_of_starting_leaves_nothing(ws: Workspace, task: str) -> None:
    _three_servers(ws)
    for milliseconds in (0, 20, 50, 80, 110, 150, 190, 240, 300, 400):
        vx = ws.start("watch", task)
        time.sleep(milliseconds / 1000)
        vx.send(signal.SIGKILL)
        assert vx.ended() == 137
        ws.nothing_left(3)


def _slow_and_stubborn(ws: Workspace) -> None:
    port = ws.port()
    ws.server("clean", ws.serve("clean", port, cleanup=2) + "; :", ready_line="READY", grace="6s")
    deaf = 'echo start $$ >> "$LOGS/stub"; trap "" INT TERM HUP; while :; do sleep 0.2; done'
    ws.server("stub", deaf, grace="2s")
    trap = 'trap "sleep 1; echo clean $$ >> \\"$LOGS/hook\\"; exit 0" INT TERM HUP;'
    ws.server(
        "hook",
        f'{trap} echo start $$ >> "$LOGS/hook"; while :; do sleep 0.1; done',
        grace="5s",
    )


def _slow_and_stubborn_up(ws: Workspace) -> running.Background:
    vx = ws.watch("clean", "stub", "hook")
    ws.wait_steps("clean", "listen", 1)
    ws.wait_steps("stub", "start", 1)
    ws.wait_steps("hook", "start", 1)
    return vx


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_handlers_get_their_grace_the_stubborn_are_killed_and_the_total_is_bounded(
    ws: Workspace, number: int
) -> None:
    _slow_and_stubborn(ws)
    vx = _slow_and_stubborn_up(ws)
    began = time.monotonic()
    assert vx.stop(number) == 0
    assert 2 <= time.monotonic() - began < patience(8)
    assert ws.steps("clean") == ["start", "listen", f"sig{number}", "clean"]
    assert ws.steps("hook") == ["start", "clean"]
    ws.nothing_left(1)


def test_kill_9_during_the_grace_leaves_nothing(ws: Workspace) -> None:
    _slow_and_stubborn(ws)
    vx = _slow_and_stubborn_up(ws)
    vx.send(signal.SIGTERM)
    ws.wait_steps("clean", "sig15", 1)
    vx.send(signal.SIGKILL)
    assert vx.ended() == 137
    ws.nothing_left(3)


def test_a_second_signal_cuts_the_grace_short(ws: Workspace) -> None:
    ws.task("work", 'trap "" INT TERM; echo start $$ >> "$LOGS/work"; sleep 300', grace="60s")
    vx = ws.start("run", "work")
    ws.wait_steps("work", "start", 1)
    vx.send(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        vx.process.wait(0.5)
    vx.send(signal.SIGINT)
    assert vx.ended(5) == 130
    ws.nothing_left(1)


@pytest.mark.sandbox
def test_closing_the_terminal_ends_everything(ws: Workspace) -> None:
    _three_servers(ws)
    vx = ws.terminal("watch", "web", "api", "cell")
    _all_up(ws)
    vx.hang_up()
    assert vx.ended(12) in {0, 129}
    ws.nothing_left(1)
    assert _was_stopped_once(ws, "web")
    assert _was_stopped_once(ws, "cell")
    _forget_logs(ws)
    again = ws.watch("web")  # no lock or socket of before is in the way
    ws.wait_steps("web", "listen", 1)
    assert again.stop() == 0


def test_hanging_up_twice_hurries_nobody(ws: Workspace) -> None:
    ws.server("web", ws.serve("web", ws.port(), cleanup=1), ready_line="READY", grace="6s")
    vx = ws.watch("web")
    ws.wait_steps("web", "listen", 1)
    vx.send(signal.SIGHUP)
    ws.wait_steps("web", "sig1", 1)
    vx.send(signal.SIGHUP)
    ws.wait_steps("web", "clean", 1)
    assert vx.ended(12) == 0
    ws.nothing_left(1)


def test_a_run_whose_terminal_is_closed_ends_as_one_that_is_hung_up(ws: Workspace) -> None:
    ws.task("work", 'echo start $$ >> "$LOGS/work"; sleep 300 | sleep 301')
    vx = ws.terminal("run", "work")
    ws.wait_steps("work", "start", 1)
    vx.hang_up()
    assert vx.ended(12) == 129
    ws.nothing_left(1)


def test_a_vx_whose_terminal_is_gone_waits_for_the_last_server_without_spinning(
    ws: Workspace,
) -> None:
    chatter = "trap '' HUP; while :; do echo still here; sleep 0.02; done"
    ws.server("web", ws.serve("web", ws.port(), cleanup=1), ready_line="READY", grace="6s")
    ws.server("chatter", chatter, grace="1s")
    vx = ws.terminal("watch", "web", "chatter")
    ws.wait_steps("web", "listen", 1)
    vx.hang_up()
    ws.wait_steps("web", "sig1", 1)
    before, began = _cpu_seconds(vx.process.pid), time.monotonic()
    ws.wait_steps("web", "clean", 1)
    assert _cpu_seconds(vx.process.pid) - before < (time.monotonic() - began) / 2
    assert vx.ended(12) == 0
    ws.nothing_left(1)


def test_an_output_that_nobody_reads_any_more_is_no_escape(ws: Workspace) -> None:
    _three_servers(ws)
    vx = ws.piped("watch", "web")
    assert vx.stdout is not None
    assert vx.stdout.read(1)
    ws.wait_steps("web", "listen", 1)
    vx.stdout.close()
    vx.terminate()
    vx.wait(patience(6))
    ws.nothing_left(1)


def test_an_output_that_nobody_reads_does_not_hold_up_the_end(ws: Workspace) -> None:
    ws.task("flood", "exec yes")
    vx = ws.piped("run", "flood")
    ws.wait(lambda: any(seen.argv == ("yes",) for seen in ws.processes()), "the flood runs")
    vx.terminate()
    assert vx.wait(patience(10)) == 143
    ws.nothing_left(1)


def test_who_is_impatient_sees_no_stack_and_the_same_exit_code(ws: Workspace) -> None:
    ws.task("work", "true")
    for delay in range(15):
        vx = ws.watch("work")
        vx.wait_says("^cycle 1: ")
        vx.send(signal.SIGINT)
        time.sleep(delay * 0.004)
        while vx.running:
            vx.send(signal.SIGINT)
            time.sleep(0.003)
        assert vx.ended(5) == 0
        assert vx.output.endswith("stopped\n")
    ws.nothing_left()
