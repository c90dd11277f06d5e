"""Opens what a box binds, and makes what a write grant names and the disk does not have yet.

Every path is walked one component at a time without following a link, so what is bound is what was
judged, whatever is swapped in between. What was made and never written is taken back when the last
box that had it is gone, also after vx was killed: the nursery knows it.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vxwatch.process.nursery import Nursery

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_real(path: str) -> int:
    """A descriptor of this absolute path, for binding only.

    Raises `OSError`: FileNotFoundError, or NotADirectoryError if a component is a link.
    """
    here = os.open("/", _LOOK)
    for part in filter(None, path.split("/")):
        above = here
        try:
            here = os.open(part, _LOOK, dir_fd=above)
        finally:
            os.close(above)
    if stat.S_ISLNK(os.fstat(here).st_mode):
        os.close(here)
        raise NotADirectoryError(path)
    return here


def in_memory(content: bytes, sent: ExitStack) -> int:
    """A descriptor of a file without a name that holds this, at its beginning; `sent` closes it."""
    descriptor = os.memfd_create("vx-box")
    sent.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@dataclass(slots=True)
class _Made:
    """Something we made: which one it is on the disk, and how many boxes have it now."""

    identity: tuple[int, int]
    modified: int
    boxes: int = 0


class Placeholders:
    """The empty files and directories that stand where a task may write.

    `owner` is the uid and gid they belong to, None for ours.
    """

    def __init__(self, nursery: "Nursery", owner: tuple[int, int] | None) -> None:
        self._nursery = nursery
        self._owner = owner
        self._made: dict[str, _Made] = {}

    async def hold(self, path: str, kind: Literal["file", "directory"]) -> tuple[str, ...]:
        """Make what is missing on the way to this absolute path, and the path itself.

        Returns what of it is made by us, by this call or an earlier one; `release` it. Raises
        `OSError`.
        """
        held: list[str] = []
        walked = ""
        here = os.open("/", _LOOK)
        try:
            parts = path.strip("/").split("/")
            for index, part in enumerate(parts):
                walked += f"/{part}"
                last = index == len(parts) - 1
                await self._make(walked, part, here, kind if last else "directory")
                if self._is_ours(walked, part, here):
                    self._made[walked].boxes += 1
                    held.append(walked)
                above, here = here, os.open(part, _LOOK, dir_fd=here)
                os.close(above)
        except OSError:
            await self.release(held)
            raise
        finally:
            os.close(here)
        return tuple(held)

    async def _make(
        self, path: str, name: str, parent: int, kind: Literal["file", "directory"]
    ) -> None:
        """Make it if it is missing. The nursery knows of it before it is there."""
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            return
        await self._nursery.announce(path)
        made = False
        try:
            made = self._create(name, parent, kind)
            if made:
                await self._remember(path, name, parent)
        finally:
            if not made:
                await self._nursery.forget(path)

    def _create(self, name: str, parent: int, kind: Literal["file", "directory"]) -> bool:
        try:
            if kind == "directory":
                os.mkdir(name, dir_fd=parent)
            else:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o666, dir_fd=parent))
        except FileExistsError:
            return False
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=parent, follow_symlinks=False)
        return True

    async def _remember(self, path: str, name: str, parent: int) -> None:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        identity = (status.st_dev, status.st_ino)
        self._made[path] = _Made(identity, status.st_mtime_ns)
        await self._nursery.register(path, untouched=True)

    def _is_ours(self, path: str, name: str, parent: int) -> bool:
        made = self._made.get(path)
        if made is None:
            return False
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        return (status.st_dev, status.st_ino) == made.identity

    async def release(self, held: Sequence[str]) -> None:
        """Give back what `hold` returned; what no box has and no task wrote is removed."""
        for path in reversed(held):
            made = self._made[path]
            made.boxes -= 1
            if not made.boxes:
                del self._made[path]
                _remove_unused(path, made)
                await self._nursery.forget(path)


def _remove_unused(path: str, made: _Made) -> None:
    try:
        status = os.lstat(path)
        if (status.st_dev, status.st_ino) != made.identity:
            return
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(path)
        elif status.st_size == 0 and status.st_mtime_ns == made.modified:
            os.unlink(path)
    except OSError:
        return  # gone, or no longer empty: the task's own now
