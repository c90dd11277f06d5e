"""Reaches directories below a root without following a link, and changes what is in them.

Every step is taken from the directory before it, so that nothing which someone puts in the way
meanwhile leads elsewhere. Paths are relative to the root.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import Self

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o700


class LinkedPlaceError(Exception):
    """A link stands where a directory was expected. `path` names it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Places:
    """`with Places(root)`: the descriptors of one directory and of those above it are kept."""

    def __init__(self, root: str) -> None:
        self._chain = [("", os.open(root, _DIRECTORY & ~os.O_NOFOLLOW))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._chain:
            os.close(self._chain.pop()[1])

    def open(self, directory: str, *, make: bool = False) -> int:
        """A descriptor of the directory, good until the next call.

        `make` makes what is missing. Raises `LinkedPlaceError`, and OSError: FileNotFoundError or
        NotADirectoryError where it is not there.
        """
        while self._chain[-1][0] and not _holds(self._chain[-1][0], directory):
            os.close(self._chain.pop()[1])
        at, handle = self._chain[-1]
        for name in directory[len(at) :].split("/"):
            if name:
                at = f"{at}/{name}" if at else name
                handle = self._enter(handle, name, at, make=make)
                self._chain.append((at, handle))
        return handle

    def status(self, path: str) -> os.stat_result | None:
        """What is at the path, a link as itself; None if nothing is. Raises `LinkedPlaceError`."""
        directory, _, name = path.rpartition("/")
        try:
            return os.stat(name, dir_fd=self.open(directory), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def target(self, path: str) -> str:
        """Where the link points to."""
        directory, _, name = path.rpartition("/")
        return os.readlink(name, dir_fd=self.open(directory))

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """A descriptor to read what is at the path; it may be anything but a link."""
        directory, _, name = path.rpartition("/")
        handle = os.open(name, _READ, dir_fd=self.open(directory))
        try:
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def creating(self, path: str) -> Iterator[int]:
        """A descriptor to write a file at the path, where nothing may be."""
        directory, _, name = path.rpartition("/")
        handle = os.open(name, _CREATE, 0o600, dir_fd=self.open(directory, make=True))
        try:
            yield handle
        finally:
            os.close(handle)

    def link(self, path: str, target: str) -> None:
        """Make a link at the path, where nothing may be."""
        directory, _, name = path.rpartition("/")
        os.symlink(target, name, dir_fd=self.open(directory, make=True))

    def remove(self, path: str, *, directory: bool) -> bool:
        """Remove what is at the path, a directory only if it is empty; False if it stays."""
        above, _, name = path.rpartition("/")
        handle = self.open(above)
        try:
            (os.rmdir if directory else os.unlink)(name, dir_fd=handle)
        except FileNotFoundError:
            return True
        except OSError as error:
            if directory and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                return False
            raise
        return True

    def set_mode(self, directory: str, mode: int) -> None:
        """Give a directory these permissions."""
        handle = self.open(directory)
        kept = stat.S_IMODE(os.fstat(handle).st_mode) & ~0o777
        os.fchmod(handle, kept | mode)

    def loosen(self, directory: str) -> None:
        """Let its owner, who we are, change what the directory holds."""
        handle = self.open(directory)
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & _OWNER != _OWNER:
            os.fchmod(handle, mode | _OWNER)

    def _enter(self, handle: int, name: str, path: str, *, make: bool) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=handle)
        except FileNotFoundError:
            if not make:
                raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=handle)
            return self._enter(handle, name, path, make=False)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise LinkedPlaceError(path) from None
            raise


def _holds(directory: str, path: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
