"""Files that were made anew while a task ran that takes them, and hold what they held before.

Somebody may have changed them and changed them back, faster than a watch looks, as git does: the
task may have read what is no longer there, and runs once more. Or the task makes them itself, just
as they were: then it does so again in that run, and is left alone with them from then on. Where git
was at work meanwhile, nothing is taken for the work of a task. Pure.
"""

from collections.abc import Collection

from vxwatch.model import TaskId

_GHOST = ""
"""Stands for all that came and went: what a task makes for the time of its run has ever new names."""


class Undone:
    """Of one session, or of one watch as a whole: then the task is all that ran."""

    def __init__(self) -> None:
        self._suspects: dict[TaskId, frozenset[str]] = {}
        self._own: dict[TaskId, frozenset[str]] = {}

    def once_more(
        self,
        task: TaskId,
        renewed: Collection[str],
        passed: Collection[str] = (),
        *,
        git: bool = False,
    ) -> frozenset[str]:
        """The task ran; those of the paths for which it is to run once more.

        `renewed` were made anew meanwhile, `passed` came and went; `git`: it was at work, too.
        """
        new = self._new(task, {*renewed, *([_GHOST] if passed else ())}, git=git)
        return (new - {_GHOST}).union(passed if _GHOST in new else ())

    def _new(self, task: TaskId, renewed: Collection[str], *, git: bool) -> frozenset[str]:
        """What of this is not the task's own work, as far as is known by now."""
        own = frozenset() if git else self._own.get(task, frozenset())
        before = self._suspects.pop(task, frozenset())
        new = frozenset(renewed) - own
        if not git and not new.isdisjoint(before):
            self._own[task] = own | (new & before)
            new -= before
        if new:
            self._suspects[task] = new
        return new

    def may_be_own(self, task: TaskId, paths: Collection[str]) -> bool:
        """Whether any of these may be the task's own work, as far as is known by now."""
        nothing: frozenset[str] = frozenset()
        known = self._own.get(task, nothing) | self._suspects.get(task, nothing)
        return not known.isdisjoint(paths)
