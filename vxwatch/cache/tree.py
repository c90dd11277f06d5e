"""Knows which paths lie below a directory, at the cost of those paths alone.

Holds names, never looks at the file system. A directory exists here as long as a path below it
does; the root ("") always does.
"""

from collections.abc import Collection, Iterator


class PathTree:
    """A set of file paths, arranged by directory."""

    def __init__(self) -> None:
        self._children: dict[str, set[str]] = {"": set()}

    def add(self, path: str) -> None:
        """Put a file in."""
        while path:
            directory = path.rpartition("/")[0]
            siblings = self._children.get(directory)
            if siblings is not None:
                siblings.add(path)
                return
            self._children[directory] = {path}
            path = directory

    def discard(self, path: str) -> None:
        """Take a file out, and with the last file of a directory the directory."""
        while path:
            directory = path.rpartition("/")[0]
            siblings = self._children.get(directory)
            if siblings is None:
                return
            siblings.discard(path)
            if siblings or not directory:
                return
            del self._children[directory]
            path = directory

    def holds(self, directory: str) -> bool:
        """Whether it is a directory with a file somewhere below it."""
        return directory in self._children

    def below(self, directory: str, but: Collection[str] = ()) -> Iterator[str]:
        """The files below a directory, without those below the directories `but`."""
        ahead = [directory] if directory in self._children else []
        while ahead:
            for path in self._children[ahead.pop()]:
                if path not in self._children:
                    yield path
                elif path not in but:
                    ahead.append(path)
