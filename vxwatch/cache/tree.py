"""Knows which files lie below a directory, at the cost of those files alone.

Holds names, never looks at the file system. A directory is held as long as a file below it is;
the root ("") always. The same path may for a moment be a file and a directory.
"""

from collections.abc import Collection, Iterator


class PathTree:
    """A set of file paths, arranged by directory."""

    def __init__(self) -> None:
        self._files: dict[str, set[str]] = {"": set()}
        self._directories: dict[str, set[str]] = {"": set()}

    def add(self, path: str) -> None:
        """Put a file in."""
        directory = path.rpartition("/")[0]
        if directory not in self._files:
            self._open(directory)
        self._files[directory].add(path)

    def discard(self, path: str) -> None:
        """Take a file out, and the directories that held nothing else."""
        directory = path.rpartition("/")[0]
        if directory in self._files:
            self._files[directory].discard(path)
            self._close(directory)

    def holds(self, directory: str) -> bool:
        """Whether it is a directory with a file somewhere below it."""
        return directory in self._files

    def below(self, directory: str, but: Collection[str] = ()) -> Iterator[str]:
        """The files below a directory, without those below the directories `but`."""
        ahead = [directory] if directory in self._files else []
        while ahead:
            here = ahead.pop()
            yield from self._files[here]
            ahead.extend(path for path in self._directories[here] if path not in but)

    def _open(self, directory: str) -> None:
        while directory not in self._files:
            self._files[directory] = set()
            inner, directory = directory, directory.rpartition("/")[0]
            self._directories.setdefault(inner, set())
            self._directories.setdefault(directory, set()).add(inner)

    def _close(self, directory: str) -> None:
        while directory and not self._files[directory] and not self._directories[directory]:
            del self._files[directory], self._directories[directory]
            above = directory.rpartition("/")[0]
            self._directories[above].discard(directory)
            directory = above
