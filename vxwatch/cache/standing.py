"""The check of a proof that a command has nothing to do.

Where a run ends with every task fresh, `proof` writes down all that could change this: each file
and directory that was looked at by its stat stamps, and the environment that counted. As long
as all of it stands, the same command in the same directory has the same end, and neither configs
nor git nor keys need to be looked at. Anything else, a damaged record too, is no proof.

Nothing is loaded here that the start of Python has not loaded, but for the hash.
"""

import os

from xxhash import xxh3_128, xxh3_128_hexdigest

from vxwatch import __version__
from vxwatch.cache import SCHEMA
from vxwatch.cache.stamps import Stamp, stamp_of

TYPE_CHECKING = False  # as typing has it, which is not loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PLACE = ".vx/cache/standing"
"""Where the proofs lie, below the root of the workspace."""

FORMAT = "standing 3"
_HEAD = 6
BLOCK = 128
"""Paths that are proven together: where one moved, what comes after them need not be looked at."""
_COUNTS = ("VX_", "GIT_")
_COUNT_TOO = frozenset({"HOME", "XDG_CONFIG_HOME", "CI"})


class Command:
    """A command line, the real path of the directory it was called in, and its environment."""

    def __init__(
        self, words: "Sequence[str]", directory: str, environ: "Mapping[str, str]"
    ) -> None:
        self.name = xxh3_128_hexdigest(os.fsencode("\0".join((*words, directory))))
        self._directory = directory
        self._environ = environ

    def standing(self) -> "Standing | None":
        """What was proven of this command, None where there is no proof that still holds."""
        for root in _upward(self._directory):
            try:
                with open(f"{root}/{PLACE}/{self.name}", "rb") as file:
                    content = file.read()
            except OSError:
                continue
            return self._verdict(os.fsdecode(content).split("\0"), root)
        return None

    def _verdict(self, parts: "Sequence[str]", root: str) -> "Standing | None":
        if len(parts) < _HEAD or parts[0] != FORMAT:
            return None
        _, head, text, names, again, moving, *rest = parts
        if self.head((text, again, moving), names.split("\n"), len(rest)) != head:
            return None
        at = int(moving)
        if not _stand(root, rest[:at]):
            return None
        if text and _stand(root, rest[at:]):
            return Standing(root, text, "")
        return Standing(root, "", again) if again else None

    def head(self, said: "Sequence[str]", names: "Sequence[str]", parts: int) -> str:
        """A hash of the variables that count, these names among them, and of what else a proof is.

        Another vx may see something to do where the one that wrote it saw nothing.
        """
        counts = {n for n in self._environ if n.startswith(_COUNTS)} | _COUNT_TOO | {*names}
        values = [(name, self._environ.get(name)) for name in sorted(counts) if name]
        whole = repr((__version__, SCHEMA, said, names, parts, values))
        return xxh3_128_hexdigest(whole.encode("utf-8", "surrogateescape"))


class Standing:
    """What is proven of the workspace at `root`.

    `text` is what to say where there is nothing to do. It is "" where only outputs may have moved:
    then `again` says how to restore them.
    """

    __slots__ = ("again", "root", "text")

    def __init__(self, root: str, text: str, again: str) -> None:
        self.root = root
        self.text = text
        self.again = again


def _stand(root: str, blocks: "Sequence[str]") -> bool:
    """Whether nothing moved of the paths in these blocks."""
    for first in range(0, len(blocks), 1 + BLOCK):
        expected, *paths = blocks[first : first + 1 + BLOCK]
        if digest((path, look(f"{root}/{path}")) for path in paths) != expected:
            return False
    return True


def digest(stamps: "Iterable[tuple[str, Stamp | None]]") -> str:
    """A hash of the stamps of paths."""
    hasher = xxh3_128()
    for path, stamp in stamps:
        hasher.update(os.fsencode(f"\0{path}\0{stamp}"))
    return hasher.hexdigest()


def look(path: str) -> Stamp | None:
    """The stamps of what is at the path now, links not followed; None if nothing is."""
    try:
        return stamp_of(os.lstat(path))
    except OSError:
        return None


def _upward(directory: str) -> "Iterator[str]":
    while directory not in ("", "/"):
        yield directory
        directory = directory.rpartition("/")[0]
