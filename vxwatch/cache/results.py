"""What there is to say of a task's result: found again, put back, or made."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from vxwatch.cache.log import Chunk
from vxwatch.cache.manifest import Item
from vxwatch.cache.ondisk import Presence
from vxwatch.cache.store import Pending
from vxwatch.model import Task


class Reused(NamedTuple):
    """A result that was there already ("fresh"), or was put back, with what the task wrote."""

    status: Literal["fresh", "restored"]
    log: Sequence[Chunk] = ()


class Restored(NamedTuple):
    """What came of putting back: whether anything was written, what is there now, what git has."""

    anew: bool
    presence: Presence
    tracked: Sequence[str]


class Made(NamedTuple):
    """What a task has made, captured; `pending` is None where there is nothing to hold."""

    items: tuple[Item, ...]
    presence: Presence
    artifact: str | None
    size: int
    pending: Pending | None


def is_kept(task: Task) -> bool:
    """Whether what the task makes is saved and restored."""
    return task.command is not None and task.persistent is None and task.outputs is not None
