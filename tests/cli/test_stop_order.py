"""In every ending, what needs a server is gone before the server hears of it."""

import itertools
import os
import signal
import time

import pytest

from tests.harness.waiting import patience
from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

NAP = 0.3


def _traps(name: str) -> str:
    """A command that takes `NAP` to end when asked, and logs the signal and its end."""
    told = "; ".join(
        f'trap \'echo {name} {sig} >> "$LOGS/order"; sleep {NAP}; echo {name} gone >> "$LOGS/order"; exit 0\' {sig}'
        for sig in ("INT", "TERM", "HUP", "QUIT")
    )
    return f'{told}; echo {name} up >> "$LOGS/order"; echo READY; while :; do sleep 0.05; done'


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    """Servers `a`, `b` that needs it, `c` that needs `b`; `alone`; and a task that needs `c`."""
    for name, after in (("a", []), ("b", ["a"]), ("c", ["b"]), ("alone", [])):
        ws.server(name, _traps(name), ready_line="READY", after=after)
    ws.task("t", _traps("t"), after=["c"])
    ws.task("late", 'echo late up >> "$LOGS/order"; sleep 0.2; exit 4', after=["c"])
    return ws


def _all_up(ws: Workspace, *names: str) -> None:
    for name in names:
        ws.wait(lambda name=name: f"{name} up" in ws.lines("order"), f"{name} is up")  # type: ignore[misc]


def _ended(ws: Workspace, *names: str) -> list[str]:
    """What these logged once the end had begun."""
    return [
        line for line in ws.lines("order") if line.split()[0] in names and not line.endswith(" up")
    ]


def _in_turn(sig: str, *names: str) -> list[str]:
    return list(itertools.chain.from_iterable((f"{n} {sig}", f"{n} gone") for n in names))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_chain_from_its_end_and_others_meanwhile(
    ws: Workspace, number: signal.Signals
) -> None:
    vx = ws.start("run", "t", "alone")
    _all_up(ws, "a", "b", "c", "alone", "t")
    begun = time.monotonic()
    assert vx.stop(number) == 128 + number
    took = time.monotonic() - begun
    sig = number.name.removeprefix("SIG")
    assert _ended(ws, "t", "c", "b", "a") == _in_turn(sig, "t", "c", "b", "a")
    lines = ws.lines("order")
    assert lines.index(f"alone {sig}") < lines.index("t gone")
    assert took < patience(4 * NAP + 0.8)
    ws.nothing_left()


def test_a_watch_ends_in_order_too(ws: Workspace) -> None:
    vx = ws.watch("c")
    _all_up(ws, "a", "b", "c")
    assert vx.stop() == 0
    assert _ended(ws, "c", "b", "a") == _in_turn("INT", "c", "b", "a")
    ws.nothing_left()


def test_a_failed_run_ends_in_order(ws: Workspace) -> None:
    assert ws.vx("run", "late").code == 4
    assert _ended(ws, "c", "b", "a") == _in_turn("TERM", "c", "b", "a")
    ws.nothing_left()


def test_a_server_that_dies_ends_the_others_in_order(ws: Workspace) -> None:
    ws.server("top", "echo READY; sleep 0.3; exit 5", ready_line="READY", after=["c"])
    assert ws.vx("run", "top").code == 5
    assert _ended(ws, "c", "b", "a") == _in_turn("TERM", "c", "b", "a")
    ws.nothing_left()


def test_a_second_signal_ends_a_whole_chain_of_the_deaf_at_once(ws: Workspace) -> None:
    for name, after in (("x", []), ("y", ["x"]), ("z", ["y"])):
        deaf = f'trap "" INT TERM HUP; echo {name} up >> "$LOGS/order"; echo READY; while :; do sleep 1; done'
        ws.server(name, deaf, ready_line="READY", after=after, grace="60s")
    vx = ws.start("run", "z")
    _all_up(ws, "x", "y", "z")
    vx.send(signal.SIGINT)
    time.sleep(0.1)  # two signals of one kind at once are one
    begun = time.monotonic()
    assert vx.stop(signal.SIGINT) == 130
    assert time.monotonic() - begun < patience(2)
    ws.nothing_left()


def test_a_server_is_asked_by_its_own_signal_however_vx_ends(ws: Workspace) -> None:
    ws.server("q", _traps("q"), ready_line="READY", stop_signal="SIGQUIT")
    for number in (signal.SIGINT, signal.SIGTERM):
        vx = ws.start("run", "q")
        ws.wait(lambda: ws.lines("order")[-1:] == ["q up"], "q is up")
        assert vx.stop(number) == 128 + number
        assert _ended(ws, "q")[-2:] == ["q QUIT", "q gone"]
    ws.nothing_left()


def test_an_edited_stop_signal_holds_without_a_restart(ws: Workspace) -> None:
    ws.server("q", _traps("q"), ready_line="READY")
    vx = ws.watch("q")
    vx.wait_says("q ready")
    config = ws.read("vx.toml")
    ws.replace(
        "vx.toml",
        config.replace("[tasks.q.persistent]", '[tasks.q.persistent]\nstop_signal = "SIGQUIT"'),
    )
    vx.wait_says("cycle 2:")
    assert vx.stop() == 0
    assert ws.lines("order") == ["q up", "q QUIT", "q gone"]
    ws.nothing_left()


@pytest.mark.parametrize(
    ("grace", "said"),
    [
        ("x", "VX_KILL_GRACE: expected a duration"),
        ("5", 'expected a unit, as in "5s"'),
        ("-1s", "not negative"),
        ("9999h", "at most 596h"),
    ],
)
def test_a_grace_that_is_none_is_one_clear_error(ws: Workspace, grace: str, said: str) -> None:
    ws.environment["VX_KILL_GRACE"] = grace
    done = ws.vx("run", "late")
    assert done.code == 2
    assert done.out == ""
    assert said in done.err
    assert len(done.err.splitlines()) == 2
    assert not os.path.exists(os.path.join(ws.logs, "order"))


@pytest.mark.parametrize(("grace", "limit"), [("0", 0.5), ("300ms", 1.0), ("", 3.0)])
def test_the_grace_of_the_environment_bounds_the_end_of_the_deaf(
    ws: Workspace, grace: str, limit: float
) -> None:
    ws.environment["VX_KILL_GRACE"] = grace
    ws.task("deaf", 'trap "" INT; echo deaf up >> "$LOGS/order"; while :; do sleep 1; done')
    vx = ws.start("run", "deaf")
    _all_up(ws, "deaf")
    begun = time.monotonic()
    assert vx.stop() == 130
    assert time.monotonic() - begun < patience(limit)
    ws.nothing_left()
