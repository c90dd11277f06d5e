"""What git waits for without an end: a fifo where it looks for its rules.

It opens one as it would a file, and nobody may ever write to it. Looked for only when git takes
long, and in the order in which git reads: nothing is told of a git that merely has much to do.
"""

import os
import stat
from collections.abc import Iterable, Iterator

from vxwatch.errors import GitError

_RULES = ".gitignore"


class GitWaitsError(GitError):
    """Git does not answer; `path` is why, absolute."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "git-waits",
            f"git waits for {path}, which is a fifo and no file",
            f"rm {path}",
        )
        self.path = path

    @property
    def lasts(self) -> bool:
        """Whether git would still wait."""
        return _is_fifo(self.path)


def check_rules(root: str, paths: Iterable[str]) -> None:
    """Raise `GitWaitsError` for rules that git reads for some paths, relative to an absolute root."""
    _check({*_upward(root), *(place for path in paths for place in _between(root, path))})


def check_all_rules(root: str) -> None:
    """The same for all below a root, and above it."""
    _check(_upward(root))
    _check(place for place, _, names in os.walk(root) if _RULES in names)


def _check(places: Iterable[str]) -> None:
    for place in places:
        if _is_fifo(f"{place}/{_RULES}"):
            raise GitWaitsError(f"{place}/{_RULES}".replace("//", "/"))


def _is_fifo(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    except OSError:
        return False


def _between(root: str, path: str) -> Iterator[str]:
    while path:
        yield f"{root}/{path}"
        path = path.rpartition("/")[0]


def _upward(directory: str) -> Iterator[str]:
    yield directory
    while directory != (parent := os.path.dirname(directory)):
        directory = parent
        yield directory
