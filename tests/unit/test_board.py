"""What a session can tell of itself, by the events that it has heard."""

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, nullcontext

import pytest

from vxwatch.events import (
    CycleEnded,
    CycleStarted,
    Event,
    Outcome,
    RunStarted,
    ServerExited,
    ServerReady,
    TaskEnded,
    TaskOutput,
    TaskStarted,
)
from vxwatch.session.board import Board

DEV, TEST = "w#dev", "w#test"
BEGIN = RunStarted("watch", (DEV, TEST), (DEV, TEST), frozenset({DEV}), broad=False)
UP = (TaskStarted(DEV, "x"), ServerReady(DEV, ("http://localhost:1",), restarted=False))


class _Sink:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event, /) -> None:
        self.events.append(event)

    def quiet(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def drained(self) -> Awaitable[None] | None:
        return None


def _board(*events: Event) -> tuple[Board, _Sink]:
    sink, now = _Sink(), iter(range(100))
    board = Board(sink, lambda: float(next(now)))
    for event in (BEGIN, *events):
        board(event)
    return board, sink


@pytest.mark.parametrize(
    ("events", "state", "starts", "code"),
    [
        ((), "waiting", 0, None),
        ((TaskEnded(Outcome(DEV, "skipped", blocked_by=TEST)),), "waiting", 0, None),
        (UP[:1], "starting", 1, None),
        (UP, "ready", 1, None),
        (
            (*UP, TaskEnded(Outcome(DEV, "ready")), TaskEnded(Outcome(DEV, "kept"))),
            "ready",
            1,
            None,
        ),
        ((*UP, ServerExited(DEV, 143, asked=True)), "stopped", 1, 143),
        ((*UP, ServerExited(DEV, 3, asked=False)), "crashed", 1, 3),
        ((*UP, ServerExited(DEV, 3, asked=False, again=0.1)), "pausing", 1, 3),
        ((*UP, ServerExited(DEV, 3, asked=False), *UP), "ready", 2, None),
        ((UP[0], TaskEnded(Outcome(DEV, "failed", 1))), "failed", 1, 1),
        ((UP[0], TaskEnded(Outcome(DEV, "aborted", 143))), "stopped", 1, 143),
    ],
)
def test_how_a_server_stands(
    events: tuple[Event, ...], state: str, starts: int, code: int | None
) -> None:
    board, sink = _board(*events)
    server = board.servers[DEV]
    assert (server.state, server.starts, server.code) == (state, starts, code)
    assert sink.events == [BEGIN, *events]


def test_what_runs_is_known_until_it_ends_or_its_cycle_does() -> None:
    board, _ = _board(CycleStarted(1, (), (TEST,)), TaskStarted(TEST, "x"))
    assert list(board.running) == [TEST]
    assert not board.idle
    board(TaskEnded(Outcome(TEST, "ran", 0)))
    assert not board.running
    board(TaskStarted(TEST, "x"))
    board(CycleEnded(1, (), 0, 0.1, ()))
    assert not board.running
    assert (board.idle, board.cycle) == (True, 1)


def test_only_what_servers_write_is_kept_and_a_new_plan_keeps_it() -> None:
    board, _ = _board(*UP, TaskOutput(DEV, "stdout", b"a"), TaskOutput(TEST, "stdout", b"b"))
    more = RunStarted("watch", (), (), frozenset({DEV, "w#more"}), broad=False)
    board(more)
    assert set(board.servers) == {DEV, "w#more"}
    tail = board.servers[DEV].tail
    assert tail.read(0, 10) == b"a"
    board(RunStarted("watch", (), (), frozenset(), broad=False))
    assert not board.servers
