"""Digests of files from earlier runs, by the stat stamps that vouch for them.

They spare reading a file again. A record that is missing, cut or of another version is an empty
one; one that is damaged anywhere is, too, because a wrong digest would be a wrong key.
"""

import os
from collections.abc import Iterable
from typing import Self

import xxhash

from vxwatch.cache.stamps import Stamp
from vxwatch.workspace.home import replace

PLACE = ".vx/cache/files"
"""Where the record lies, below the root of the workspace."""

_FORMAT = "files 1"
Entry = tuple[str, Stamp, str]
"""A path, its stamps, and the digest of what it holds."""


class Remembered:
    """What one workspace's files held when they were last read."""

    def __init__(self, digests: dict[str, tuple[str, str]] | None = None) -> None:
        self._digests = digests or {}

    @classmethod
    def load(cls, root: str) -> Self:
        """The record of the workspace at `root`; an empty one if there is none to trust."""
        try:
            with open(f"{root}/{PLACE}", "rb") as file:
                content = file.read()
        except OSError:
            return cls()
        head, _, body = content.partition(b"\n")
        if head != _head(body):
            return cls()
        words = iter(os.fsdecode(body).split("\0"))
        return cls({path: (stamp, next(words)) for path, stamp in zip(words, words, strict=False)})

    def digest(self, path: str, stamp: Stamp) -> str | None:
        """What the file with these stamps holds; None if that was not read."""
        known = self._digests.get(path)
        return known[1] if known is not None and known[0] == _text(stamp) else None

    def save(self, root: str, entries: Iterable[Entry]) -> None:
        """Write down these entries, and those that the record has of other files that exist.

        Raises OSError; then the record is as it was.
        """
        now = {path: (_text(stamp), digest) for path, stamp, digest in entries}
        others = {p: known for p, known in self._digests.items() if p not in now}
        now.update(item for item in others.items() if os.path.lexists(f"{root}/{item[0]}"))
        words = (word for path, known in now.items() for word in (path, *known))
        body = os.fsencode("\0".join(words))
        replace(f"{root}/{PLACE}", _head(body) + b"\n" + body)
        self._digests = now


def _text(stamp: Stamp) -> str:
    return " ".join(map(str, stamp))


def _head(body: bytes) -> bytes:
    return f"{_FORMAT} {xxhash.xxh3_128_hexdigest(body)}".encode()
