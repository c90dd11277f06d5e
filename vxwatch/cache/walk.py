"""Finds the files below a directory by looking.

Never enters a link or an excluded directory, nor any that its owner does not allow, which is
asked once per level of directories. What is neither a regular file nor a link is left out.
"""

import os
from collections.abc import Callable, Iterable, Iterator

from vxwatch.cache.content import is_gone
from vxwatch.globs import excluded

Ignored = Callable[[list[str]], set[str]]
"""Which of these directories do not count."""

Allowed = Callable[[list[str], list[str]], set[str]]
"""Which of these files and directories, none of them known, count."""

Known = Callable[[str], bool]


class Walker:
    """A look around. `denied` maps the directories that could not be read to the reason."""

    def __init__(self, root: str, allowed: Allowed) -> None:
        """`root` is absolute; all other paths are relative to it."""
        self._root = root
        self._allowed = allowed
        self.denied: dict[str, str] = {}

    def files(
        self, directories: Iterable[str], known: Known, holds: Known = lambda _: False
    ) -> Iterator[str]:
        """The files below the directories, each once.

        A file that is `known`, and a directory that `holds` one, needs no permission.
        """
        level = list(directories)
        while level:
            files: list[str] = []
            deeper: list[str] = []
            for directory in level:
                self._scan(directory, files, deeper)
            allowed = self._allowed(
                [path for path in files if not known(path)],
                [path for path in deeper if not holds(path)],
            )
            yield from (path for path in files if path in allowed or known(path))
            level = [path for path in deeper if path in allowed or holds(path)]

    def _scan(self, directory: str, files: list[str], deeper: list[str]) -> None:
        prefix = f"{directory}/" if directory else ""
        self.denied.pop(directory, None)
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                for entry in entries:
                    if excluded(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        deeper.append(prefix + entry.name)
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        files.append(prefix + entry.name)
        except OSError as error:
            if is_gone(error):
                return
            self.denied[directory] = os.strerror(error.errno or 0)


def listing(root: str, directory: str) -> Iterator[tuple[str, bool]]:
    """What lies in a directory and may count, and whether that is a directory itself.

    Nothing where there is no directory, or none that can be read.
    """
    prefix = f"{directory}/" if directory else ""
    try:
        with os.scandir(f"{root}/{directory}") as entries:
            for entry in entries:
                if not excluded(entry.name):
                    yield prefix + entry.name, entry.is_dir(follow_symlinks=False)
    except OSError:
        return


def directories(root: str, ignored: Ignored) -> list[str]:
    """Every directory below an absolute root that counts, and the root as "", by its level.

    Links are not entered, nor what lies in a directory that cannot be read.
    """
    found: list[str] = []
    level = [""]
    while level:
        found += level
        inner = [path for directory in level for path in _inner(root, directory)]
        out = ignored(inner) if inner else set()
        level = [path for path in inner if path not in out]
    return found


def _inner(root: str, directory: str) -> Iterator[str]:
    prefix = f"{directory}/" if directory else ""
    try:
        with os.scandir(f"{root}/{directory}") as entries:
            for entry in entries:
                if not excluded(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield prefix + entry.name
    except OSError:
        return
