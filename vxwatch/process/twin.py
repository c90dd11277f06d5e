"""A copy of this process that does a part of its work beside it, on another core.

For work of a process that has one thread and no event loop yet: what it looks at is there in the
copy, and nothing has to be loaded or handed over. The copy must use neither the database nor
whatever else the two would share. It never outlives the block, and ends soon where vx is killed.
"""

import marshal
import os
import signal
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

SHORTEST = 0.04
"""Seconds of work from which on a copy pays: it takes 5 to 10 ms to make, and writes to memory cost
both of them more for as long as it lives."""


def pays(seconds: float) -> bool:
    """Whether to split so much work is worth a copy."""
    return seconds >= SHORTEST and len(os.sched_getaffinity(0)) > 1


class Twin:
    """`with Twin(work) as twin: ...; twin.result()`; `work` makes what `marshal` can write."""

    def __init__(self, work: Callable[[], Iterable[Any]]) -> None:
        """`pid` is that of the copy; 0 where there is none, or none any more."""
        self._work = work
        self.pid = 0

    def __enter__(self) -> Self:
        """Begin. Where no copy can be made there is no result."""
        self._answer = os.memfd_create("twin", os.MFD_CLOEXEC)
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            return self
        if not self.pid:
            self._be_it(parent)
        return self

    def result(self) -> list[Any] | None:
        """Wait for what it made, in order; None if it failed, in whatever way."""
        if not self.pid:
            return None
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        if status:
            return None
        with open(self._answer, "rb", closefd=False) as file:
            made: list[Any] = marshal.load(file)  # noqa: S302 - our own copy wrote it
            return made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, if that is still to do."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._answer)

    def _be_it(self, parent: int) -> None:
        """Do the work as the copy, and end. A failure is told by that alone."""
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            made = []
            for one in self._work():
                made.append(one)
                if os.getppid() != parent:
                    os._exit(code)
            with open(self._answer, "wb", closefd=False) as file:
                marshal.dump(made, file)
                file.flush()
                file.seek(0)
            code = 0
        finally:
            os._exit(code)
