"""Signals as calls on the event loop, without the loop's own way to hear them.

asyncio gives a signal back to Python when its loop closes. Until vx takes it again, a second
Ctrl-C would end vx with a stack and another exit code. Here it belongs to vx to the end.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def hearing(numbers: Sequence[signal.Signals], call: Callable[[int], None]) -> Iterator[None]:
    """Inside the block each of these signals is a `call` on the running loop; after it, ignored.

    For the main thread.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        # A handler alone does not wake a loop that is just about to wait.
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        loop.add_reader(ours, _pass_on, ours, frozenset(numbers), call)
        try:
            answer(numbers, _wake)
            yield
        finally:
            answer(numbers, signal.SIG_IGN)
            loop.remove_reader(ours)
            signal.set_wakeup_fd(-1)


def answer(
    numbers: Sequence[signal.Signals],
    how: signal.Handlers | Callable[[int, FrameType | None], None],
) -> None:
    """Have all of these signals answered in one way."""
    for number in numbers:
        signal.signal(number, how)


def _pass_on(
    ours: socket.socket, numbers: frozenset[signal.Signals], call: Callable[[int], None]
) -> None:
    for number in ours.recv(4096):
        if number in numbers:
            call(number)


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor has told the loop."""
