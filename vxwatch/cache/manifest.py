"""What an entry of the cache holds, as a list of items, and whether such a list may be trusted.

Pure. A list that is not exactly as one is made here is refused: an entry may have been damaged,
or written by someone who wants files in other places.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Literal, NamedTuple

Kind = Literal["f", "l", "d"]
FILE: Kind = "f"
LINK: Kind = "l"
DIRECTORY: Kind = "d"

MODES = 0o777
"""The bits of a mode that are kept: never those that lend a file its owner's rights."""

_FIELDS = 5
_KINDS: dict[str, Kind] = {"f": FILE, "l": LINK, "d": DIRECTORY}
_NEVER = frozenset({"", ".", "..", ".git", ".vx"})


class UnsoundError(ValueError):
    """A list of items that no save makes."""


class Item(NamedTuple):
    """A file, link or directory. `path` is relative to the root of the workspace.

    `content` is the digest of a file's bytes, the target of a link, and empty for a directory;
    `mode` is 0 for a link, which has none of its own, and `size` is 0 but for files.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    content: str


def order(path: str) -> str:
    """The sort key of paths: a directory stands before what it holds, and that is together."""
    return path.replace("/", "\0")


def above(path: str) -> str:
    """The directory that holds the path."""
    return path.rpartition("/")[0]


def pack(items: Iterable[Item]) -> bytes:
    """The items, which are in `order`, as bytes."""
    words = (
        f"{item.path}\0{item.kind}\0{item.mode:o}\0{item.size}\0{item.content}" for item in items
    )
    return "\0".join(words).encode("utf-8", "surrogateescape")


def unpack(data: bytes, declared: Callable[[str], bool]) -> tuple[Item, ...]:
    """The items of a packed list, each of which must be `declared`. Raises `UnsoundError`."""
    if not data:
        return ()
    words = data.decode("utf-8", "surrogateescape").split("\0")
    if len(words) % _FIELDS:
        raise UnsoundError("cut in the middle of an item")
    items = tuple(_item(*islice(words, at, at + _FIELDS)) for at in range(0, len(words), _FIELDS))
    _check(items, declared)
    return items


def _item(path: str, kind: str, mode: str, size: str, content: str) -> Item:
    try:
        return Item(path, _KINDS[kind], int(mode, 8), int(size), content)
    except (KeyError, ValueError):
        raise UnsoundError(f"{path!r} is not described as an item is") from None


def _check(items: Sequence[Item], declared: Callable[[str], bool]) -> None:
    kinds: dict[str, str] = {}
    before = ""
    for item in items:
        path = item.path
        if path.startswith("/") or not _NEVER.isdisjoint(path.split("/")):
            raise UnsoundError(f"{path!r} is no place for an output")
        if order(path) <= before:
            raise UnsoundError(f"{path!r} is there twice, or not where it belongs")
        if kinds.get(above(path), DIRECTORY) != DIRECTORY:
            raise UnsoundError(f"{path!r} lies in something that is no directory")
        if item.mode & ~MODES or item.size < 0 or (item.size and item.kind != FILE):
            raise UnsoundError(f"{path!r} has a mode or a size that no output has")
        if not declared(path):
            raise UnsoundError(f"{path!r} is no output of the task")
        kinds[path] = item.kind
        before = order(path)
