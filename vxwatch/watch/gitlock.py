"""Whether git is in the middle of changing the working tree.

While git writes many files (a branch switch, a merge, a stash) it holds `index.lock`; what it
has written so far is no state that anybody wants built. Only looks, never runs git.
"""

import os


class GitLock:
    """The index lock of the repository around a directory; never held outside git."""

    def __init__(self, root: str) -> None:
        directory = git_directory(root)
        self.path = None if directory is None else os.path.join(directory, "index.lock")
        self._ignored: tuple[int, int] | None = None

    def held(self) -> bool:
        """Whether the lock is there and was not given up on."""
        seen = self._identity()
        return seen is not None and seen != self._ignored

    def give_up(self) -> None:
        """Take the lock that is there now for a leftover of a git that died."""
        self._ignored = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        try:
            seen = os.stat(self.path)
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns


def git_directory(root: str) -> str | None:
    """The directory with the index of the working tree that `root` lies in, or None.

    In a linked worktree or a submodule `.git` is a file that names it (gitrepository-layout).
    """
    directory = root
    while True:
        candidate = os.path.join(directory, ".git")
        if os.path.isdir(candidate):
            return candidate
        if os.path.isfile(candidate):
            with open(candidate, encoding="utf-8", errors="surrogateescape") as file:
                target = file.read().removeprefix("gitdir:").strip()
            return os.path.normpath(os.path.join(directory, target))
        if directory == (directory := os.path.dirname(directory)):
            return None
