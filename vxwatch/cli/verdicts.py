"""Forecasts as values that `vx why` and `vx run --dry` print, as text or as JSON."""

from typing import TYPE_CHECKING, Any

from vxwatch.graph.affected import LOCKFILES, takes_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vxwatch.cache.difference import Moved
    from vxwatch.model import TaskId
    from vxwatch.session.forecast import Verdict
    from vxwatch.session.planning import Plan


def verdict_value(plan: "Plan", verdict: "Verdict") -> dict[str, Any]:
    """A verdict on one task."""
    return {
        "task": verdict.task,
        "would": verdict.would,
        "reason": verdict.reason,
        "since": verdict.since,
        "moved": moved_value(plan, verdict.task, verdict.moved),
    }


def moved_value(plan: "Plan", task: "TaskId", moved: "Iterable[Moved]") -> list[dict[str, Any]]:
    """What moved of the task; `part_of` is the project whose part of a lockfile is meant."""
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "way": one.way,
            "part_of": _part_of(plan, one.of or task, one),
            "because": moved_value(plan, task, one.because),
            "of": one.of,
        }
        for one in moved
    ]


def _part_of(plan: "Plan", task: "TaskId", moved: "Moved") -> str | None:
    """The project that a part of a lockfile is of; None for a file that counts whole."""
    if moved.kind != "file" or moved.name not in LOCKFILES:
        return None
    owner, _, name = task.rpartition("#")
    project = plan.workspace.projects.get(owner)
    if project is None or name not in project.tasks:
        return owner
    return None if takes_whole(project, project.tasks[name], moved.name) else owner
