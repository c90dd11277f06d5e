"""The files that one box may save, one by one: their desks, and what is said of what else is there."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from vxwatch.sandbox.desks import Desk, Keep, make_desk
from vxwatch.sandbox.grants import not_kept, not_saved
from vxwatch.sandbox.trace import Report, judged
from vxwatch.sandbox.tracelog import Attempt

if TYPE_CHECKING:
    from vxwatch.model import Task
    from vxwatch.sandbox.findings import Scene
    from vxwatch.sandbox.policy import Mount


class Saving:
    """The desks of a box with these mounts; `scene` is asked for only if something is to be told."""

    def __init__(
        self,
        desks: Iterable[Desk],
        mounts: "Iterable[Mount]",
        task: "Task",
        scene: "Callable[[], Scene]",
    ) -> None:
        self._desks = {desk.directory: desk for desk in desks}
        self._mounts = {mount.path: mount for mount in mounts}
        self._task = task
        self._scene = scene

    def path(self, directory: str) -> str:
        """Where the desk is that is shown in place of this directory."""
        return self._desks[directory].path

    def settle(self) -> tuple[Attempt, ...]:
        """Save what is still to be saved, when the box is gone: the attempts to save anything else.

        Raises `UserError` when a file could not be saved.
        """
        strays: list[Attempt] = []
        for directory, desk in self._desks.items():
            try:
                desk.settle()
            except OSError as error:
                raise not_kept(directory, error.strerror or str(error)) from None
            strays += (_attempt(*stray) for stray in desk.strays(self._mounts))
        return tuple(strays)

    def told(self, strays: tuple[Attempt, ...]) -> Report:
        """The report of a command of which nothing else is known."""
        return judged(strays, self._scene(), self._task) if strays else Report()

    def replaced(self) -> str | None:
        """A file for which the host has another one by now that was not saved in the box."""
        return next(filter(None, (desk.replaced() for desk in self._desks.values())), None)


def _attempt(path: str, directory: bool) -> Attempt:
    """What it would have been without a desk."""
    return Attempt("write", path, *(("mkdir", "EPERM") if directory else ("creat", "EROFS")))


async def saving(
    mounts: "tuple[Mount, ...]",
    task: "Task",
    scene: "Callable[[], Scene]",
    keep: Keep,
    stack: AsyncExitStack,
) -> Saving:
    """The desks that these mounts show; the stack takes them back. Raises `UserError`."""
    names: dict[str, list[str]] = defaultdict(list)
    for mount in mounts:
        if mount.kind == "saved":
            directory, name = os.path.split(mount.path)
            names[directory].append(name)
    desks = []
    for directory in (mount.path for mount in mounts if mount.kind == "desk"):
        try:
            desks.append(await make_desk(directory, names[directory], keep, stack))
        except OSError as error:
            raise not_saved(directory, error.strerror or str(error)) from None
    return Saving(desks, mounts, task, scene)
