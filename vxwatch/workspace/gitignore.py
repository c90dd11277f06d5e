"""What `.gitignore` files leave out where there is no git to ask.

Reads the files below the root as they are met and keeps them until `reset`. A rule of a deeper
file wins, and nothing below an ignored directory comes back, as gitignore(5) has it. Rules of
the user (`core.excludesFile`) are git's own and not known here. Loads pathspec, so it is
imported only outside of git.
"""

import os
from collections.abc import Iterable, Iterator

from pathspec import GitIgnoreSpec

from vxwatch import globs

_FILE = ".gitignore"


class Rules:
    """The ignore rules of one directory tree. `root` is absolute."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._directories: dict[str, bool] = {"": False}

    def reset(self) -> None:
        """Forget everything that was read: a `.gitignore` changed."""
        self._specs.clear()
        self._directories = {"": False}

    def ignored(self, path: str) -> bool:
        """Whether a path, there or not, is left out."""
        directory = path.rpartition("/")[0]
        return self._ignored_directory(directory) or self._decides(path, self._is_directory(path))

    def files(self, directory: str) -> Iterator[str]:
        """The files below a directory that are not left out; links count as files."""
        ahead = [] if self._ignored_directory(directory) else [directory]
        while ahead:
            for entry, path in self._entries(ahead.pop()):
                below = entry.is_dir(follow_symlinks=False)
                if globs.excluded(path) or self._decides(path, below):
                    continue
                if below:
                    ahead.append(path)
                else:
                    yield path

    def _entries(self, directory: str) -> Iterable[tuple[os.DirEntry[str], str]]:
        prefix = f"{directory}/" if directory else ""
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                return [(entry, prefix + entry.name) for entry in entries]
        except OSError:
            return ()

    def _ignored_directory(self, directory: str) -> bool:
        known = self._directories.get(directory)
        if known is None:
            above = self._ignored_directory(directory.rpartition("/")[0])
            known = self._directories[directory] = above or self._decides(directory, True)
        return known

    def _decides(self, path: str, directory: bool) -> bool:
        """What the deepest rule that speaks of a path says of it."""
        above = path.rpartition("/")[0]
        while True:
            spec = self._spec(above)
            if spec is not None:
                name = path[len(above) + 1 :] if above else path
                verdict = spec.check_file(f"{name}/" if directory else name).include
                if verdict is not None:
                    return verdict
            if not above:
                return False
            above = above.rpartition("/")[0]

    def _spec(self, directory: str) -> GitIgnoreSpec | None:
        if directory not in self._specs:
            prefix = f"{directory}/" if directory else ""
            try:
                with open(f"{self._root}/{prefix}{_FILE}", "rb") as stream:
                    lines = os.fsdecode(stream.read()).splitlines()
                self._specs[directory] = GitIgnoreSpec.from_lines(lines)
            except OSError:
                self._specs[directory] = None
        return self._specs[directory]

    def _is_directory(self, path: str) -> bool:
        full = f"{self._root}/{path}"
        return os.path.isdir(full) and not os.path.islink(full)
