"""vx as a job of a shell: it stops and goes on with all it started, and leaves its terminal whole."""

import os
import signal
import time

import pytest

from tests.harness.processes import alive
from tests.harness.ptys import BASH, CTRL_C, CTRL_Z, DASH
from tests.harness.running import VX
from tests.harness.waiting import patience, wait_for
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SHELLS = pytest.mark.parametrize("shell", [BASH, DASH], ids=["bash", "dash"])
TICKS = 'while :; do echo tick >> "$LOGS/ticks"; sleep 0.05; done'


def _vx(ws: Workspace) -> int:
    return next(seen.pid for seen in ws.processes() if VX in seen.argv)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0]


def _stands_still(ws: Workspace, log: str) -> bool:
    before = ws.runs(log)
    end = time.monotonic() + 0.4
    while time.monotonic() < end and ws.runs(log) == before:
        time.sleep(0.02)
    return ws.runs(log) == before


def _goes_on(ws: Workspace, log: str) -> None:
    now = ws.runs(log)
    ws.wait(lambda: ws.runs(log) > now + 2, f"{log} goes on")


@SHELLS
@pytest.mark.parametrize(
    "box", [None, pytest.param(Box(), marks=pytest.mark.sandbox)], ids=["plain", "boxed"]
)
def test_ctrl_z_stops_all_and_fg_lets_all_go_on(
    ws: Workspace, shell: tuple[str, ...], box: Box | None
) -> None:
    ws.server("ticks", TICKS, box=box)
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch ticks")
    person.sees("watching")
    _goes_on(ws, "ticks")
    person.press(CTRL_Z)
    person.sees("Stopped")
    person.sees(r"PROMPT\$ ")
    assert _stands_still(ws, "ticks")
    person.asks("echo h''i", "^hi")
    person.types("fg")
    _goes_on(ws, "ticks")
    ws.write("new", "")
    person.sees("keeps running")
    person.press(CTRL_Z)
    person.sees("Stopped")
    person.types("bg")
    _goes_on(ws, "ticks")
    person.types("fg")
    person.gives_way_to(_vx(ws))
    person.press(CTRL_C)
    person.sees("stopped")
    person.sees(r"PROMPT\$ ")
    person.types("exit")
    assert person.ended() == 0
    assert person.restored
    ws.nothing_left(1)


def test_a_stop_takes_nothing_off_a_timeout(ws: Workspace) -> None:
    ws.task("work", 'echo start >> "$LOGS/work"; sleep 1; echo end >> "$LOGS/work"', timeout="3s")
    person = ws.person(*BASH)
    person.sees(r"PROMPT\$ ")
    person.types("$VX run work")
    ws.wait_runs("work", 1)
    person.press(CTRL_Z)
    person.sees("Stopped")
    time.sleep(3.2)  # longer than the timeout
    person.types("fg")
    person.sees("1 ran in")
    person.asks("echo code=$?", "code=0")


def test_kill_9_of_a_stopped_vx_leaves_nothing(ws: Workspace) -> None:
    ws.server("ticks", TICKS)
    person = ws.person(*BASH)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch ticks")
    _goes_on(ws, "ticks")
    person.press(CTRL_Z)
    person.sees("Stopped")
    os.kill(_vx(ws), signal.SIGKILL)
    wait_for(
        lambda: len(ws.processes()) == 1,
        "only the shell is left",
        context=lambda: str(ws.processes()),
    )
    person.types("exit")
    person.ended()


def test_sigterm_to_a_stopped_vx_ends_it_when_it_goes_on(ws: Workspace) -> None:
    ws.server("ticks", TICKS)
    person = ws.person(*BASH)
    person.sees(r"PROMPT\$ ")
    person.types("$VX run ticks")
    _goes_on(ws, "ticks")
    person.press(CTRL_Z)
    person.sees("Stopped")
    person.asks("kill %1; fg", "stopped by SIGTERM")
    person.asks("echo code=$?", "code=143")


def test_where_no_shell_can_continue_it_ctrl_z_stops_nothing(ws: Workspace) -> None:
    ws.server("ticks", TICKS)
    person = ws.person("watch", "ticks")
    person.sees("watching")
    _goes_on(ws, "ticks")
    person.press(CTRL_Z)
    _goes_on(ws, "ticks")
    assert _state(person.process.pid) != "T"
    person.press(CTRL_C)
    assert person.ended() == 0
    ws.nothing_left(1)


@SHELLS
def test_in_the_background_it_writes_and_never_takes_the_terminal(
    ws: Workspace, shell: tuple[str, ...]
) -> None:
    ws.task("work", "echo worked; cat; echo read")
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.asks("stty tostop", r"PROMPT\$ ")
    person.types("$VX watch work &")
    person.sees("worked")
    person.sees("cycle 1")
    assert _state(_vx(ws)) != "T"
    person.asks("echo min''e", "^mine")
    ws.write("new", "")
    person.sees("cycle 2")
    assert _state(_vx(ws)) != "T"
    person.asks("stty -tostop", "")
    person.asks("kill %1; wait; echo over", "^over")
    person.types("exit")
    assert person.ended() == 0
    assert person.restored
    ws.nothing_left(1)


def test_a_colour_that_is_cut_ends_before_what_vx_says(ws: Workspace) -> None:
    ws.task("red", r"printf '\033[31mred\033[?25l'; echo up >> " + '"$LOGS/red"; sleep 300')
    person = ws.person("run", "red")
    person.sees("red")
    person.press(CTRL_C)
    assert person.ended() == 130
    assert "\x1b[0m" in person.unread.partition("stopped")[0]
    assert person.restored


def test_a_task_cannot_touch_the_settings_of_the_terminal(ws: Workspace) -> None:
    ws.task("mess", "stty raw < /dev/tty; stty -echo <&1; stty -echo <&2; echo tried")
    person = ws.person("run", "mess")
    person.sees("tried")
    assert person.ended() == 0
    assert person.restored


@pytest.mark.parametrize("verb", ["run", "watch"])
@pytest.mark.parametrize("shell", [None, BASH, DASH], ids=["alone", "bash", "dash"])
def test_a_closed_terminal_ends_all_and_nothing_spins(
    ws: Workspace, verb: str, shell: tuple[str, ...] | None
) -> None:
    ws.server("flood", "yes")
    ws.server("ticks", TICKS)
    if shell is None:
        person = ws.person(verb, "flood", "ticks")
    else:
        person = ws.person(*shell)
        person.sees(r"PROMPT\$ ")
        person.types(f"$VX {verb} flood ticks; echo $? > $HOME/code")
    person.sees("y\r\n")
    _goes_on(ws, "ticks")
    vx = _vx(ws)
    person.hang_up()
    if shell is None:
        assert person.ended(8) == (129 if verb == "run" else 0)
    began = time.monotonic()
    wait_for(lambda: not alive(vx), "vx is gone")
    assert time.monotonic() - began < patience(4)
    ws.nothing_left(1)


def test_a_job_in_the_background_ends_with_its_terminal(ws: Workspace) -> None:
    """A shell without job control passes no hang-up on."""
    ws.server("ticks", TICKS)
    person = ws.person("sh", "-c", '"$VX" watch ticks & wait')
    person.sees("watching")
    _goes_on(ws, "ticks")
    person.hang_up()
    ws.nothing_left(5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_leaves_the_terminal_whole(ws: Workspace, number: int) -> None:
    ws.task(
        "deaf", r"""trap '' INT TERM; printf '\033[31m\033[?25l'; echo up; sleep 300""", grace="60s"
    )
    person = ws.person("run", "deaf")
    person.sees("up")
    for _ in range(2):
        os.kill(person.process.pid, number)
        time.sleep(0.2)
    assert person.ended(5) == 128 + number
    assert person.restored
    assert "\x1b[0m" in person.unread
    ws.nothing_left(1)
