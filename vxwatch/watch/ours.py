"""The files that vx itself writes its output into: `vx watch t > watch.log`.

What it says there is nobody's edit, and each cycle says something.
"""

import os
import stat
from collections.abc import Iterable

_STDOUT, _STDERR = 1, 2


class OwnOutput:
    """The regular files among standard output and standard error, as they are when it is made."""

    def __init__(self) -> None:
        self._files = frozenset(filter(None, map(_identity_of_open, (_STDOUT, _STDERR))))

    def left_out(self, root: str, paths: Iterable[str]) -> set[str]:
        """The paths without those that are such a file, or a link to one."""
        if not self._files:
            return set(paths)
        return {path for path in paths if not self._is_at(os.path.join(root, path))}

    def _is_at(self, path: str) -> bool:
        try:
            found = os.stat(path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) in self._files


def _identity_of_open(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:  # it was closed before vx began
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
