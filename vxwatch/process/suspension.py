"""Stopping vx as a job of its shell, until it is continued, with its clock standing still."""

import asyncio
import os
import signal
import time

_DISCARDED = 0.05
"""Seconds without a SIGCONT after which the kernel did not stop us: no shell could continue us."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock leaves out the time that `stand_still` is told of.

    A timeout and a grace have as much left after a stop as before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._still = 0.0

    def time(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic() - self._still

    def stand_still(self, seconds: float) -> None:
        """Set the clock back by what has just passed without it."""
        self._still += seconds


def stop(*, whole_group: bool = False) -> bool:
    """Stop this process, or all of its group, as Ctrl-Z does; return when it is continued.

    False when it was not stopped: the kernel does not stop a group that no shell waits for. The
    time that has passed is left out of the running loop's clock. For the main thread.
    """
    continued: list[int] = []
    begun = time.monotonic()
    at_stop = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    at_continue = signal.signal(signal.SIGCONT, lambda number, _: continued.append(number))
    try:
        target = -os.getpgrp() if whole_group else os.getpid()
        os.kill(target, signal.SIGTSTP)
        while not continued and time.monotonic() - begun < _DISCARDED:
            time.sleep(0.001)
    finally:
        signal.signal(signal.SIGCONT, at_continue)
        signal.signal(signal.SIGTSTP, at_stop)
    loop = asyncio.get_running_loop()
    if isinstance(loop, Loop):
        loop.stand_still(time.monotonic() - begun)
    return bool(continued)
