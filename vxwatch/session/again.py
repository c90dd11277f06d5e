"""How soon a task may be started anew by a cycle that it ran in already.

Nothing tells who wrote a file. A task that writes what it takes itself, or what leads to it round
about, looks like somebody who saves often, and the cycle would take it in for ever. So the first
time is free, and each one after that waits for twice as long, until the task was left alone for a
while. It waits from the last change on while the task runs: one that rewrites files in place, as a
formatter does, is not ended in the midst of that over and over. What waits is not lost: at the end
of the cycle the guard of the watch judges it. Pure.
"""

from collections.abc import Iterable

from vxwatch.model import TaskId

PAUSE = 1.0
"""Seconds from the first time that a task is started anew to the next one."""
CALM = 10.0
"""Seconds after which the first time is free again; at least twice the pause."""


class Again:
    """Of one session. Times are of any one clock."""

    def __init__(self) -> None:
        self._times: dict[TaskId, tuple[int, float]] = {}

    def may(self, tasks: Iterable[TaskId], now: float) -> bool:
        """Whether all of these may be started anew now."""
        return all(now >= last + _pause(times) for times, last in map(self._seen, tasks))

    def put_off(self, tasks: Iterable[TaskId], now: float) -> None:
        """Something changes now that these take, which run: those that have to wait do so from now on."""
        for task in tasks:
            times, last = self._seen(task)
            if now < last + _pause(times):
                self._times[task] = times, now

    def count(self, tasks: Iterable[TaskId], now: float) -> None:
        """These are started anew now."""
        for task in tasks:
            times, last = self._seen(task)
            calm = now > last + max(CALM, 2 * _pause(times))
            self._times[task] = 1 if calm else times + 1, now

    def _seen(self, task: TaskId) -> tuple[int, float]:
        return self._times.get(task, (0, float("-inf")))


def _pause(times: int) -> float:
    return PAUSE * 2.0 ** min(times - 1, 30) if times else 0.0
