"""The keys of a watch on a terminal: what they do, and that the terminal is left as it was."""

import os
import signal
import termios

import pytest

from tests.harness.processes import alive
from tests.harness.ptys import BASH, CTRL_C, CTRL_Z, DASH, Person
from tests.harness.running import VX
from tests.harness.waiting import wait_for
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SHELLS = pytest.mark.parametrize("shell", [BASH, DASH], ids=["bash", "dash"])
HINT = r"^.*keys: r run again.*q quit.*$"


def _vx(ws: Workspace) -> int:
    return next(seen.pid for seen in ws.processes() if VX in seen.argv)


def _once(ws: Workspace, name: str = "test") -> None:
    """A task that logs its runs."""
    ws.task(name, f'echo ran >> "$LOGS/{name}"', inputs=["src/**"], outputs=[])
    ws.write("src/a", "1")


def _server(ws: Workspace, name: str = "dev", text: str = "up") -> None:
    ws.server(name, f'echo run >> "$LOGS/{name}"; echo {text}; exec sleep 600', ready_line=text)


def _echoes(person: Person) -> bool:
    flags = termios.tcgetattr(person._line)[3]
    assert isinstance(flags, int)
    return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)


def _quit(person: Person, ws: Workspace) -> None:
    person.press(b"q")
    person.sees("stopped")
    assert person.ended() == 0
    assert person.restored
    ws.nothing_left(1)


def test_r_runs_again_what_the_cache_does_not_have_and_f_runs_all(ws: Workspace) -> None:
    _once(ws)
    ws.task("plain", 'echo ran >> "$LOGS/plain"')
    person = ws.person("watch", "test", "plain")
    person.sees("cycle 1:")
    person.sees(HINT)
    assert not _echoes(person)
    person.press(b"r")
    person.sees("cycle 2: 1 ran")
    assert (ws.runs("test"), ws.runs("plain")) == (1, 2)
    person.press(b"f")
    person.sees("cycle 3: 2 ran")
    assert (ws.runs("test"), ws.runs("plain")) == (2, 3)
    person.press(b"r")
    person.sees("cycle 4: 1 ran")
    assert "keys:" not in person.unread
    _quit(person, ws)


def test_a_run_that_is_asked_for_meanwhile_follows_once(ws: Workspace) -> None:
    ws.task("slow", 'echo ran >> "$LOGS/slow"; while [ ! -e "$LOGS/go" ]; do sleep 0.02; done')
    person = ws.person("watch", "slow")
    ws.wait_runs("slow", 1)
    person.press(b"rr")
    person.sees("runs again after this cycle")
    person.press(b"r")
    ws.write(f"{ws.logs}/go", "")
    person.sees("cycle 2:")
    ws.settle(0.5)
    assert ws.runs("slow") == 2
    _quit(person, ws)


def test_r_tells_once_more_what_is_wrong_with_a_config_that_does_not_load(ws: Workspace) -> None:
    _once(ws)
    person = ws.person("watch", "test")
    person.sees(HINT)
    good = ws.read("vx.toml")
    ws.replace("vx.toml", good + "x = [")
    person.sees("is not TOML")
    person.press(b"r")
    person.sees("is not TOML")
    ws.replace("vx.toml", good)
    person.sees("cycle 2:")
    _quit(person, ws)


def test_s_restarts_the_server_and_l_shows_what_it_printed(ws: Workspace) -> None:
    _server(ws)
    person = ws.person("watch", "dev")
    person.sees(HINT)
    person.press(b"l")
    person.sees(r"what w#dev printed last:\S*\r\nup")
    person.press(b"s")
    person.sees("restarting w#dev")
    person.sees("w#dev ready again")
    assert ws.runs("dev") == 2
    _quit(person, ws)


def test_a_server_is_chosen_by_its_number(ws: Workspace) -> None:
    _server(ws, "one")
    _server(ws, "two")
    person = ws.person("watch", "one", "two")
    person.sees(HINT)
    person.press(b"s")
    person.sees("restart which server")
    person.sees("2  w#two")
    person.press(b"2")
    person.sees("w#two ready again")
    assert (ws.runs("one"), ws.runs("two")) == (1, 2)
    person.press(b"s")
    person.sees("2  w#two")
    person.press(b"?")
    person.sees("q  quit")
    person.press(b"2")
    person.press(b"c")
    person.sees("\x1b\\[2J")
    assert (ws.runs("one"), ws.runs("two")) == (1, 2)
    _quit(person, ws)


def test_special_keys_and_pasted_text_mean_nothing(ws: Workspace) -> None:
    _once(ws)
    person = ws.person("watch", "test")
    person.sees(HINT)
    person.press(b"\x1bOq")
    person.press(b"a text that quits if it is read as keys\n")

    def helped() -> bool:
        person.press(b"?")
        return person.says("run again what is selected")

    wait_for(helped, "a key that is typed means something")
    _quit(person, ws)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGQUIT, signal.SIGHUP])
def test_the_terminal_is_as_it_was_however_vx_ends(ws: Workspace, number: int) -> None:
    _server(ws)
    person = ws.person("watch", "dev")
    person.sees(HINT)
    assert not _echoes(person)
    os.kill(_vx(ws), number)
    person.ended()
    wait_for(lambda: person.settings_restored, "the settings are as before")
    ws.nothing_left(3)


@SHELLS
def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(
    ws: Workspace, shell: tuple[str, ...]
) -> None:
    _once(ws)
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch test")
    person.sees(HINT)
    person.press(CTRL_Z)
    person.sees("Stopped")
    person.sees(r"PROMPT\$ ")
    wait_for(lambda: _echoes(person), "the terminal shows what is typed")
    person.asks("echo h''i", "^hi")
    person.types("fg")
    person.gives_way_to(_vx(ws))
    wait_for(lambda: not _echoes(person), "vx hears each key")
    person.press(b"?")
    person.sees("run again what is selected")
    person.press(b"q")
    person.sees("stopped")
    person.sees(r"PROMPT\$ ")
    assert _echoes(person)
    person.types("exit")
    assert person.ended() == 0
    ws.nothing_left(1)


@SHELLS
def test_a_watch_in_the_background_reads_nothing_until_it_is_in_front(
    ws: Workspace, shell: tuple[str, ...]
) -> None:
    _once(ws)
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch test &")
    person.sees("cycle 1:")
    assert _echoes(person)
    person.asks("echo r''s", "^rs")
    person.asks("jobs", "Running")
    assert "keys:" not in person.output
    vx = _vx(ws)
    person.types("fg")
    person.gives_way_to(vx)
    person.sees(HINT)
    person.press(b"r")
    person.sees("cycle 2:")
    person.press(CTRL_C)
    person.sees("stopped")
    person.sees(r"PROMPT\$ ")
    assert not alive(vx)
    person.types("exit")
    assert person.ended() == 0
    assert person.restored
    ws.nothing_left(1)


def test_a_stop_that_vx_cannot_hear_of_is_made_good_when_it_goes_on(ws: Workspace) -> None:
    _once(ws)
    person = ws.person(*DASH)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch test")
    person.sees(HINT)
    os.kill(_vx(ws), signal.SIGSTOP)
    person.sees(r"PROMPT\$ ")
    person.types("stty sane; echo sa''ne; fg")
    person.sees(r"sane\r?\n")
    person.gives_way_to(_vx(ws))
    wait_for(lambda: not _echoes(person), "vx hears each key")
    person.press(b"q")
    person.sees("stopped")
    person.types("exit")
    assert person.ended() == 0


@SHELLS
def test_a_shell_goes_on_when_vx_is_killed(ws: Workspace, shell: tuple[str, ...]) -> None:
    _server(ws)
    person = ws.person(*shell)
    person.sees(r"PROMPT\$ ")
    person.types("$VX watch dev")
    person.sees(HINT)
    os.kill(_vx(ws), signal.SIGKILL)
    person.sees(r"PROMPT\$ ")
    wait_for(lambda: _echoes(person), "the terminal shows what is typed")
    person.asks("echo h''i", r"echo h''i\r\n(.*\n)?hi")
    person.types("exit")
    person.ended()
    ws.nothing_left(3)


def test_off_a_terminal_nothing_is_read(ws: Workspace) -> None:
    _once(ws)
    person = ws.person("sh", "-c", '"$VX" watch test | cat')
    person.sees("cycle 1:")
    assert _echoes(person)
    person.press(b"q\n")
    ws.write("src/a", "2")
    person.sees("cycle 2:")
    assert "keys:" not in person.output
    person.press(CTRL_C)
    person.ended()
    ws.nothing_left(1)
