"""What `.gitignore` files leave out where there is no git to ask.

Reads the files below the root as they are met and keeps them until `reset`. A rule of a deeper
file wins, and nothing below an ignored directory comes back, as gitignore(5) has it. Rules of
the user (`core.excludesFile`) are git's own and not known here.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vxwatch import globs
from vxwatch.config.load import content_of

_FILE = ".gitignore"
_UNFINISHED = r"(?<!\\)(?:\\\\)*\\$"


class Rules:
    """The ignore rules of one directory tree. `root` is absolute."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._specs: dict[str, list[_Rule]] = {}
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
        above = path
        while above:
            above = above.rpartition("/")[0]
            name = path[len(above) + 1 :] if above else path
            for rule in self._spec(above):
                if (directory or not rule.directory) and rule.names.fullmatch(name):
                    return rule.ignores
        return False

    def _spec(self, directory: str) -> "list[_Rule]":
        """The rules of one directory, the last one first."""
        if directory not in self._specs:
            prefix = f"{directory}/" if directory else ""
            try:
                content = content_of(f"{self._root}/{prefix}{_FILE}")
                lines = os.fsdecode(content).removeprefix("\ufeff").split("\n")
            except OSError:
                lines = []
            rules = (_rule(line.removesuffix("\r")) for line in reversed(lines))
            self._specs[directory] = [rule for rule in rules if rule]
        return self._specs[directory]

    def _is_directory(self, path: str) -> bool:
        full = f"{self._root}/{path}"
        return os.path.isdir(full) and not os.path.islink(full)


class _Rule(NamedTuple):
    """One line: which names below its file's directory, only directories?, ignored or not."""

    names: re.Pattern[str]
    directory: bool
    ignores: bool


def _rule(line: str) -> _Rule | None:
    """The rule of a line, or None if it has none (gitignore(5), "Pattern format")."""
    text = re.sub(r"(?<!\\) +$", "", line)
    negative = text.startswith("!")
    body = text[1:] if negative else text
    name = body.removesuffix("/")
    if re.search(_UNFINISHED, name) or text.startswith("#"):
        return None
    if not {"", "."}.isdisjoint(name.removeprefix("/").split("/")):
        return None
    parts = globs.split(name if "/" in name else f"**/{name}")
    return _Rule(globs.compile_exact([parts]), body.endswith("/"), not negative)
