"""Digests of files from earlier runs, by the stat stamps that vouch for them; keys made of those.

They spare reading a file again, and making a key. A record that is missing, cut or of another
version is an empty one; one that is damaged anywhere is, too, because a wrong digest would be a
wrong key.
"""

import os
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, Self

import xxhash

from vxwatch.cache.stamps import Stamp
from vxwatch.model import TaskId
from vxwatch.workspace.home import replace

PLACE = ".vx/cache/files"
"""Where the record lies, below the root of the workspace."""

_FORMAT = "files 4"
_STAMP = Struct("<QqqQQ")
_HEAD = 3  # words: the terms of the keys, how many files they were made of, how many they are
Entry = tuple[str, Stamp, str]
"""A path, its stamps, and the digest of what it holds."""

_Known = tuple[bytes, str]
"""Packed stamps, and a digest."""

UNSURE = "?"
"""In place of a digest: it was read, and may hold something else by now. It equals no digest."""

_UNREAD = (bytes(_STAMP.size), "")
_IS_UNSURE = (bytes(_STAMP.size), UNSURE)


class Keys(NamedTuple):
    """Keys of tasks, made of files as a record has them; `terms` stands for all else that counted."""

    terms: str = ""
    by_task: Mapping[TaskId, str] = MappingProxyType({})


class Remembered:
    """What one workspace's files held when they were last read; and `keys`, with what they held then."""

    def __init__(
        self,
        digests: Mapping[str, _Known] | None = None,
        keys: Keys | None = None,
        folded: Mapping[str, _Known] | None = None,
    ) -> None:
        """`folded` are all files that there were for the keys; the digest is empty where none took it."""
        self.keys = keys or Keys()
        self._digests = digests or {}
        self._folded = folded or {}

    @classmethod
    def load(cls, root: str) -> Self:
        """The record of the workspace at `root`; an empty one if there is none to trust."""
        try:
            with open(f"{root}/{PLACE}", "rb") as file:
                content = file.read()
        except OSError:
            return cls()
        head, _, body = content.partition(b"\n")
        if head != _summed(body):
            return cls()
        size, _, body = body.partition(b"\n")
        words = os.fsdecode(body[: int(size)]).split("\0")
        folded, first = int(words[1]), _HEAD + 2 * int(words[2])
        keys = Keys(
            words[0], dict(zip(words[_HEAD:first:2], words[_HEAD + 1 : first : 2], strict=True))
        )
        each = range(int(size), len(body), _STAMP.size)
        known = zip(
            (body[at : at + _STAMP.size] for at in each), words[first + 1 :: 2], strict=True
        )
        files = zip(words[first::2], known, strict=True)
        return cls(folded=dict(islice(files, folded)), keys=keys, digests=dict(files))

    def __len__(self) -> int:
        return len(self._digests) + len(self._folded)

    def digest(self, path: str, stamp: Stamp) -> str | None:
        """What the file with these stamps holds; None if that was not read."""
        known = self._digests.get(path) or self._folded.get(path)
        if known is None:
            return None
        packed = _STAMP.pack(*stamp)
        if known[0] != packed:
            known = self._folded.get(path, known)
        return known[1] if known[0] == packed and _tells(known) else None

    def moved(self, files: Mapping[str, str]) -> set[str]:
        """The paths at which there is not what the keys were made of.

        `files` are all that are there, with what they hold, or "" where nobody knows that yet.
        """
        folded = self._folded
        found = {p for p, now in files.items() if p not in folded or folded[p][1] not in ("", now)}
        return found | (folded.keys() - files.keys())

    def save(self, root: str, entries: Iterable[Entry], keys: Keys | None = None) -> None:
        """Write down these entries, and those that the record has of other files that exist.

        The digest of a file that nobody read is empty. Where `keys` are given they were made of
        the entries. Raises OSError; then the record is as it was.
        """
        now = {path: _known(stamp, digest) for path, stamp, digest in entries}
        others = {
            path: known
            for path, known in chain(self._folded.items(), self._digests.items())
            if _tells(known) and not _tells(now.get(path)) and os.path.lexists(f"{root}/{path}")
        }
        if keys is None:
            keys, folded = self.keys, self._folded if self.keys.by_task else {}
            others |= {path: known for path, known in now.items() if _tells(known)}
            others = {path: known for path, known in others.items() if folded.get(path) != known}
        else:
            folded = now
        files = (*folded.items(), *others.items())
        words = chain(
            (keys.terms, str(len(folded)), str(len(keys.by_task))),
            chain.from_iterable(keys.by_task.items()),
            (word for path, (_, digest) in files for word in (path, digest)),
        )
        text = os.fsencode("\0".join(words))
        body = b"%d\n%s%s" % (len(text), text, b"".join(stamps for _, (stamps, _) in files))
        replace(f"{root}/{PLACE}", _summed(body) + b"\n" + body)
        self.keys, self._folded, self._digests = keys, folded, others


def _known(stamp: Stamp, digest: str) -> _Known:
    if digest in ("", UNSURE):
        return _IS_UNSURE if digest else _UNREAD
    return _STAMP.pack(*stamp), digest


def _tells(known: _Known | None) -> bool:
    """Whether it says what a file with these stamps holds."""
    return known is not None and known[1] not in ("", UNSURE)


def _summed(body: bytes) -> bytes:
    return f"{_FORMAT} {xxhash.xxh3_128_hexdigest(body)}".encode()
