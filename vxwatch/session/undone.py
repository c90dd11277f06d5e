"""Files that were made anew while a task ran that takes them, and hold what they held before.

Somebody may have changed them and changed them back, faster than a watch looks, as git does: the
task may have read what is no longer there, and runs once more. Or the task makes them itself, just
as they were: then it does so again in that run, and is left alone with them from then on. Pure.
"""

from collections.abc import Collection

from vxwatch.model import TaskId


class Undone:
    """Of one session."""

    def __init__(self) -> None:
        self._suspects: dict[TaskId, frozenset[str]] = {}
        self._own: dict[TaskId, frozenset[str]] = {}

    def once_more(self, task: TaskId, renewed: Collection[str]) -> frozenset[str]:
        """The task ran, and these were made anew meanwhile; those for which it is to run once more."""
        own = self._own.get(task, frozenset())
        before = self._suspects.pop(task, frozenset())
        new = frozenset(renewed) - own
        if not new.isdisjoint(before):
            self._own[task] = own | (new & before)
            new -= before
        if new:
            self._suspects[task] = new
        return new
