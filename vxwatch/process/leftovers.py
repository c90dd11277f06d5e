"""Files that must not outlive a session, taken away when nobody is left to do it properly.

It follows no symbolic link and leaves what it was not told about. It imports little, because
the nursery's start waits for it.
"""

import contextlib
import os
import stat

Identity = tuple[int, int]
"""Device and inode of a path as it was made."""

UNBORN: Identity = (-1, -1)
"""Of a path at which there was nothing yet: what is there later, and empty, was made there."""


def identity_of(path: str) -> Identity:
    """What tells this file or directory from one that replaces it. Raises OSError."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def remove(path: str, untouched: Identity | None) -> None:
    """Remove the path with all that is in it; with `untouched`, only if it is still as it was made.

    As it was made means: the same inode, unless it was unborn, and empty. A failure is left
    alone: there is nobody to tell any more.
    """
    with contextlib.suppress(OSError):
        if untouched is None:
            _remove_all(path)
        elif untouched in (UNBORN, identity_of(path)):
            _remove_empty(path)


def _remove_all(path: str) -> None:
    if not _is_directory(path):
        os.unlink(path)
        return
    os.chmod(path, stat.S_IRWXU)  # a tool may have made its tree read-only
    for name in os.listdir(path):
        with contextlib.suppress(OSError):
            _remove_all(f"{path}/{name}")
    os.rmdir(path)


def _remove_empty(path: str) -> None:
    if _is_directory(path):
        os.rmdir(path)
    elif os.lstat(path).st_size == 0:
        os.unlink(path)


def _is_directory(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)
