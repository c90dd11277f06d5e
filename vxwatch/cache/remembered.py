"""Digests of files from earlier runs, by the stat stamps that vouch for them; keys made of those.

They spare reading a file again, and making a key. A record that is missing, cut or of another
version is an empty one; one that is damaged anywhere is, too, because a wrong digest would be a
wrong key.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple, Self

import xxhash

from vxwatch.cache.stamps import Stamp
from vxwatch.model import TaskId
from vxwatch.workspace.home import replace

PLACE = ".vx/cache/files"
"""Where the record lies, below the root of the workspace."""

_FORMAT = "files 2"
Entry = tuple[str, Stamp, str]
"""A path, its stamps, and the digest of what it holds."""

_Known = tuple[str, str]
_UNREAD = ("", "")


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
        if head != _head(body):
            return cls()
        words = iter(os.fsdecode(body).split("\0"))
        terms, keys, folded = next(words), int(next(words)), int(next(words))
        by_task = dict(islice(zip(words, words, strict=False), keys))
        files = _files(words)
        return cls(
            folded=dict(islice(files, folded)), keys=Keys(terms, by_task), digests=dict(files)
        )

    def __len__(self) -> int:
        return len(self._digests) + len(self._folded)

    def digest(self, path: str, stamp: Stamp) -> str | None:
        """What the file with these stamps holds; None if that was not read."""
        text = _text(stamp)
        for files in (self._digests, self._folded):
            known = files.get(path)
            if known is not None and known[0] == text:
                return known[1]
        return None

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
        the entries, and of files that no entry can tell of. Raises OSError; then the record is as
        it was.
        """
        now = {path: (_text(stamp) if digest else "", digest) for path, stamp, digest in entries}
        others = {
            path: known
            for path, known in chain(self._folded.items(), self._digests.items())
            if known[1] and not now.get(path, _UNREAD)[1] and os.path.lexists(f"{root}/{path}")
        }
        if keys is None:
            keys, folded = self.keys, self._folded if self.keys.by_task else {}
            others |= {path: known for path, known in now.items() if known[1]}
            others = {path: known for path, known in others.items() if folded.get(path) != known}
        else:
            folded = now
        words = chain(
            (keys.terms, str(len(keys.by_task)), str(len(folded))),
            chain.from_iterable(keys.by_task.items()),
            _words(folded),
            _words(others),
        )
        body = os.fsencode("\0".join(words))
        replace(f"{root}/{PLACE}", _head(body) + b"\n" + body)
        self.keys, self._folded, self._digests = keys, folded, others


def _files(words: Iterator[str]) -> Iterator[tuple[str, _Known]]:
    for path, stamp, digest in zip(words, words, words, strict=False):
        yield path, (stamp, digest)


def _words(files: Mapping[str, _Known]) -> Iterator[str]:
    return (word for path, known in files.items() for word in (path, *known))


def _text(stamp: Stamp) -> str:
    size, modified, moved, inode, mode = stamp
    return f"{size} {modified} {moved} {inode} {mode}"


def _head(body: bytes) -> bytes:
    return f"{_FORMAT} {xxhash.xxh3_128_hexdigest(body)}".encode()
