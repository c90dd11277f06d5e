"""Interactive tasks own the terminal, and give it back whole."""

import os
import signal
import subprocess

import pytest

from tests.harness.ptys import BASH, CTRL_C, CTRL_D, CTRL_Z, DASH, Person
from tests.harness.running import VX
from tests.harness.waiting import patience, wait_for
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WAYS = pytest.mark.parametrize(
    "box", [None, pytest.param(Box(), marks=pytest.mark.sandbox)], ids=["plain", "boxed"]
)


def _prompt(ws: Workspace, box: Box | None = None, **fields: object) -> None:
    ws.interactive("ask", ws.puppet("prompt.py"), box=box, **fields)


def _vx(ws: Workspace) -> int:
    """The pid of the vx that a shell runs."""
    return next(seen.pid for seen in ws.processes() if VX in seen.argv)


def _nursery(ws: Workspace) -> int:
    return next(seen.pid for seen in ws.processes() if "nursery_main" in " ".join(seen.argv))


@WAYS
def test_it_reads_and_writes_the_terminal_itself(ws: Workspace, box: Box | None) -> None:
    _prompt(ws, box)
    person = ws.person("run", "ask")
    person.sees("terminal (not )?mine")
    person.sees("ask> ")
    person.asks("say hello", "said hello")
    person.sees("ask> ")
    person.press(CTRL_D)
    assert person.ended() == 0
    assert person.restored
    ws.nothing_left(1)


@WAYS
def test_ctrl_c_is_for_the_task_alone(ws: Workspace, box: Box | None) -> None:
    _prompt(ws, box)
    person = ws.person("run", "ask")
    for _ in range(3):
        person.sees("ask> ")
        person.press(CTRL_C)
        person.sees("interrupted")
    person.sees("ask> ")
    person.types("exit 7")
    assert person.ended() == 7
    assert person.restored
    ws.nothing_left(1)


@WAYS
def test_a_task_that_dies_of_ctrl_c_ends_the_run_as_interrupted(
    ws: Workspace, box: Box | None
) -> None:
    _prompt(ws, box)
    ws.task("next", 'echo ran >> "$LOGS/next"', after=["ask"])
    person = ws.person("run", "next")
    person.sees("ask> ")
    person.asks("mortal", "mortal\r\nask> ")
    person.press(CTRL_C)
    assert person.ended() == 130
    assert "stopped by SIGINT" in person.unread
    assert person.restored
    assert ws.runs("next") == 0
    ws.nothing_left(1)


@WAYS
@pytest.mark.parametrize("shell", [BASH, DASH], ids=["bash", "dash"])
def test_ctrl_z_gives_the_shell_its_prompt_and_fg_goes_on(
    ws: Workspace, shell: tuple[str, ...], box: Box | None
) -> None:
    _prompt(ws, box)
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.asks("$VX run ask", "ask> ")
    for key in (CTRL_Z, b"stop\n"):
        person.press(key)
        person.sees("Stopped")
        person.sees(r"PROMPT\$ ")
        person.asks("echo h''i", "^hi")
        person.sees(r"PROMPT\$ ")
        person.types("fg")
        if key != CTRL_Z:
            person.sees("continued")
        person.asks("say back", "said back")
        person.sees("ask> ")
    person.press(CTRL_D)
    person.sees(r"PROMPT\$ ")
    person.asks("echo code=$?", "^code=0")
    person.types("exit")
    person.ended()
    assert person.restored
    ws.nothing_left(1)


def test_in_the_background_it_waits_for_the_foreground(ws: Workspace) -> None:
    _prompt(ws)
    person = ws.person(*BASH)
    person.sees(r"PROMPT\$ ")
    person.asks("$VX run ask &", r"PROMPT\$ ")
    person.sees("not mine")
    wait_for(lambda: _stopped(_vx(ws)), "vx stopped")
    # The shell tells of it at a prompt, once it has heard of it itself.
    wait_for(lambda: _told_at_a_prompt(person, "Stopped"), "the shell tells of the stop")
    person.asks("bg", r"PROMPT\$ ")
    person.asks("echo still''mine", "^stillmine")
    wait_for(lambda: _stopped(_vx(ws)), "vx stopped again")
    person.types("fg")
    person.asks("say front", "said front")
    person.press(CTRL_C)
    person.sees("interrupted")
    person.press(CTRL_D)
    person.sees(r"PROMPT\$ ")
    person.types("exit 3")
    assert person.ended() == 3
    assert person.restored
    ws.nothing_left(1)


def _told_at_a_prompt(person: Person, word: str) -> bool:
    person.asks("", r"PROMPT\$ ")
    return word in person.output


def _stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0] == "T"


def test_one_at_a_time_and_what_others_print_waits(ws: Workspace) -> None:
    _prompt(ws)
    ws.interactive("again", ws.puppet("prompt.py"))
    ws.task("noise", 'until [ -e "$LOGS/quiet" ]; do echo noise; sleep 0.02; done; echo over')
    person = ws.person("run", "ask", "again", "noise", "--concurrency", "8")
    for _ in range(2):
        person.sees("ask> ")
        for number in range(3):
            person.types(f"say {number}")
            match = person.sees(rf"^(.*)said {number}")
            assert "noise" not in match.group(1)
        person.sees("ask> ")
        assert "noise" not in person.unread
        person.types("exit")
    with open(os.path.join(ws.logs, "quiet"), "w"):
        pass
    assert person.ended() == 0
    text = person.output
    assert text.count("terminal mine") + text.count("terminal not mine") == 2
    assert "noise" in text
    assert "over" in text
    assert person.restored


@WAYS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_vx_ends_it_and_the_terminal_is_whole(
    ws: Workspace, number: int, box: Box | None
) -> None:
    _prompt(ws, box)
    person = ws.person("run", "ask")
    person.sees("ask> ")
    person.asks("children", r"children \d+ \d+")
    person.asks("deaf", "deaf")
    person.sees("ask> ")
    person.asks("raw", "raw")
    os.kill(person.process.pid, number)
    assert person.ended(6) == 128 + number
    assert person.restored
    assert person.output.rindex("\x1b[0m") > person.output.rindex("\x1b[31m")
    ws.nothing_left(1)


def test_a_timeout_ends_it_and_the_terminal_is_whole(ws: Workspace) -> None:
    _prompt(ws, timeout="700ms", grace="100ms")
    person = ws.person("run", "ask")
    person.sees("ask> ")
    person.asks("raw", "raw")
    assert person.ended(6) == 124
    assert person.restored
    ws.nothing_left(1)


@WAYS
@pytest.mark.parametrize("victim", ["vx", "nursery"])
def test_kill_9_leaves_nothing(ws: Workspace, victim: str, box: Box | None) -> None:
    _prompt(ws, box)
    # Whoever reads before the terminal is given back is told that it has none.
    script = '"$VX" run ask; echo "code=$?"; until read line; do :; done; echo "got $line"'
    person = ws.person("sh", "-c", script)
    person.sees("ask> ")
    person.asks("children", r"children \d+ \d+")
    person.sees("ask> ")
    person.asks("raw", "raw")
    os.kill(_vx(ws) if victim == "vx" else _nursery(ws), signal.SIGKILL)
    person.sees("code=137" if victim == "vx" else "code=70")
    wait_for(lambda: not [seen for seen in ws.processes() if "sleep" in seen.argv[:1]], "all gone")
    wait_for(lambda: person.settings_restored, "the modes are back")
    assert victim == "vx" or person.restored
    person.asks("line", "got line")
    person.ended()
    ws.nothing_left(1)


@WAYS
def test_closing_the_terminal_ends_it(ws: Workspace, box: Box | None) -> None:
    _prompt(ws, box)
    person = ws.person("run", "ask")
    person.sees("ask> ")
    person.asks("children", r"children \d+ \d+")
    person.asks("deaf", "deaf")
    person.hang_up()
    assert person.ended(8) == 129
    ws.nothing_left(1)


def test_without_a_terminal_it_has_the_streams_of_vx(ws: Workspace) -> None:
    _prompt(ws)
    done = subprocess.run(
        [VX, "run", "ask"],
        cwd=ws.path,
        env=ws.environment,
        input="say one\nsay two\nexit 5\n",
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=patience(20),
    )
    assert done.returncode == 5
    assert done.stdout.startswith("no terminal not mine\nask> said one\nask> said two\nask> ")
    ws.nothing_left(1)


def test_an_answer_from_a_pipe_on_a_terminal(ws: Workspace) -> None:
    _prompt(ws)
    person = ws.person(*BASH)
    person.sees(r"PROMPT\$ ")
    person.asks("echo say piped | $VX run ask", "said piped")
    person.sees(r"PROMPT\$ ")
    person.types("exit")
    assert person.ended() == 0
    assert person.restored


def test_a_watch_refuses_it(ws: Workspace) -> None:
    _prompt(ws)
    done = ws.vx("watch", "ask")
    assert done.code == 2
    assert "ask is interactive, and a watch gives its terminal to no task" in done.text


def test_the_timeout_of_the_workspace_is_not_for_it(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", 'timeout = "300ms"\n')
    _prompt(ws)
    ws.task("slow", "sleep 60")
    person = ws.person("run", "ask", "slow", "--continue", "always", "--concurrency", "8")
    person.sees("ask> ")
    wait_for(lambda: not [s for s in ws.processes() if "sleep" in s.argv], "slow timed out")
    person.asks("say alive", "said alive")
    person.sees("ask> ")
    person.press(CTRL_D)
    assert person.ended() == 124


def test_it_runs_each_time_it_is_asked_for(ws: Workspace) -> None:
    ws.interactive("ask", 'echo ran >> "$LOGS/ask"', inputs=["none"])
    for _ in range(2):
        assert ws.vx("run", "ask").code == 0
    assert ws.runs("ask") == 2
