"""The terminal that vx was started on, lent to one interactive task at a time and taken back whole.

Only who is in the foreground of a terminal may lend it: a vx in a background job never takes it
from whoever has it. What was lent is taken back whatever became of the task: the foreground, and
the modes as they were before. Nothing here waits, reads or writes. A terminal that is gone is no
error: there is nothing left to take back.
"""

import contextlib
import os
import signal
import termios
from collections.abc import Iterator

from vxwatch.process import kin

TYPE_CHECKING = False  # as typing has it, which the nursery does not load
if TYPE_CHECKING:
    from typing import Self

Modes = list[int | list[bytes | int]]
"""As `termios.tcgetattr` gives them."""


class Terminal:
    """The controlling terminal. `close` gives its descriptor back."""

    def __init__(self, number: int) -> None:
        self.group = os.getpgrp()
        self._number = number
        self._before: Modes | None = None
        self._during: Modes | None = None
        self._borrower = 0

    @classmethod
    def open(cls) -> "Self | None":
        """The terminal of this session; None where there is none, as in CI."""
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
        except OSError:
            return None

    def close(self) -> None:
        """Have no more to do with it."""
        os.close(self._number)

    def remember(self) -> None:
        """Note the modes as they are now, unless others use it."""
        with _at_liberty():
            if os.tcgetpgrp(self._number) == self.group:
                self._before = termios.tcgetattr(self._number)

    @property
    def modes(self) -> Modes | None:
        """The modes that were noted last."""
        return self._before

    def name_borrower(self, group: int) -> None:
        """Note which group `lend_again` is for, should it not have had the terminal yet."""
        self._borrower, self._during = group, None

    def take_back(self, lender: int) -> None:
        """Become its foreground with the modes of before, if a descendant of `lender` is that."""
        with _at_liberty():
            foreground = os.tcgetpgrp(self._number)
            if foreground != self.group and not _is_of(foreground, lender):
                return
            if foreground != self.group:
                self._borrower = foreground
                self._during = termios.tcgetattr(self._number)
            os.tcsetpgrp(self._number, self.group)
            if self._before is not None:
                termios.tcsetattr(self._number, termios.TCSANOW, self._before)

    def lend_again(self) -> None:
        """Give it to the group that had it before `take_back`, in the modes of then, if it is ours."""
        with _at_liberty():
            if os.tcgetpgrp(self._number) != self.group:
                return
            self._before = termios.tcgetattr(self._number)
            if self._during is not None:
                termios.tcsetattr(self._number, termios.TCSANOW, self._during)
            os.tcsetpgrp(self._number, self._borrower)


def borrow(group: int) -> None:
    """Make this process's group the foreground, if the given one is that. Raises OSError."""
    with _not_stopped(), _open() as number:
        if os.tcgetpgrp(number) == group:
            os.tcsetpgrp(number, os.getpgrp())


def bequeath(group: int, modes: Modes | None) -> None:
    """Leave it usable: the group that lent it was killed, and so was who borrowed it.

    A shell with job control has taken it back already, and keeps the modes that it has set.
    """
    with _at_liberty(), _open() as number:
        if kin.group_lives(os.tcgetpgrp(number)):
            return
        if modes is not None:
            termios.tcsetattr(number, termios.TCSANOW, modes)
        os.tcsetpgrp(number, group)


def give_back(number: int, before: Modes, ours: Modes) -> None:
    """Set the modes of before, if the terminal still has ours. A terminal that is gone is no error."""
    with _at_liberty():
        if termios.tcgetattr(number) == ours:
            termios.tcsetattr(number, termios.TCSANOW, before)


@contextlib.contextmanager
def _open() -> Iterator[int]:
    number = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def _at_liberty() -> Iterator[None]:
    """No stop for changing a terminal from the background; no error when it is gone."""
    with _not_stopped(), contextlib.suppress(OSError, termios.error):
        yield


@contextlib.contextmanager
def _not_stopped() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_of(group: int, ancestor: int) -> bool:
    """Whether all of the group descend from this process; so when nobody of it is left."""
    return all(_descends(pid, ancestor) for pid in _members(group))


def _members(group: int) -> list[int]:
    everybody = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in everybody if kin.group_of(pid) == group]


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        pid = kin.parent_of(pid)
    return pid == ancestor
