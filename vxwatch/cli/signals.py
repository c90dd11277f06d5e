"""Signals as calls on the event loop, without the loop's own way to hear them.

asyncio gives a signal back to Python when its loop closes. Until vx takes it again, a second
Ctrl-C would end vx with a stack and another exit code. Here it belongs to vx to the end.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import socket


@contextmanager
def hearing(
    numbers: Sequence[signal.Signals], call: Callable[[int], None], suspend: Callable[[], None]
) -> Iterator[None]:
    """Inside the block each of these signals is a `call` on the running loop; after it, ignored.

    Ctrl-Z is a call of `suspend`. The end of the terminal counts as SIGHUP, if that is among them,
    also where no shell passes one on. For the main thread.
    """
    import asyncio
    import socket

    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        # A handler alone does not wake a loop that is just about to wait.
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        loop.add_reader(ours, _pass_on, ours, frozenset(numbers), call, suspend)
        stops = [signal.SIGTSTP] if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL else []
        ends = _terminal_end() if signal.SIGHUP in numbers else None
        try:
            answer([*numbers, *stops], _wake)
            if ends is not None:
                loop.add_reader(ends, _hang_up, ends, call)
            yield
        finally:
            answer(numbers, signal.SIG_IGN)
            answer(stops, signal.SIG_DFL)
            loop.remove_reader(ours)
            if ends is not None:
                loop.remove_reader(ends)
                ends.close()
            signal.set_wakeup_fd(-1)


class Interrupted(BaseException):
    """A signal came while there was no session to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Early:
    """Answers signals where no session does. `number` is the last that came, None before.

    What it raises can be lost: it may come up in code that nobody waits for (a finalizer, a
    callback), where Python can only report it. So the session that starts next looks here, too.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def interrupt(self, number: int, _frame: FrameType | None) -> NoReturn:
        """Note the signal, and raise `Interrupted`."""
        self.number = number
        raise Interrupted(number)


def answer(
    numbers: Sequence[signal.Signals],
    how: signal.Handlers | Callable[[int, FrameType | None], None],
) -> None:
    """Have all of these signals answered in one way."""
    for number in numbers:
        signal.signal(number, how)


def _pass_on(
    ours: "socket.socket",
    numbers: frozenset[signal.Signals],
    call: Callable[[int], None],
    suspend: Callable[[], None],
) -> None:
    for number in ours.recv(4096):
        if number in numbers:
            call(number)
        elif number == signal.SIGTSTP:
            suspend()


def _terminal_end() -> select.epoll | None:
    """Can be read when the terminal that vx writes to is gone, and never before."""
    if not os.isatty(1):
        return None
    ends = select.epoll()
    ends.register(1, 0)
    return ends


def _hang_up(ends: select.epoll, call: Callable[[int], None]) -> None:
    import asyncio

    asyncio.get_running_loop().remove_reader(ends)
    call(signal.SIGHUP)


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor has told the loop."""
