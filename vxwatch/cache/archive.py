"""Writes the files of an entry as `tar.zst`, and reads them back where they are as they were.

The same items always make the same bytes: no owner, no time. Whoever reads knows the items
from elsewhere and makes each header anew, so that nothing in an archive is ever interpreted:
it is what it should be, or it is damaged. Memory is bounded, whatever an archive expands to.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

import xxhash
import zstandard

from vxwatch.cache.manifest import DIRECTORY, LINK, Item

CHUNK = 1 << 20
_BLOCK = 512
_END = b"\0" * (2 * _BLOCK)
_NAME = 100
_OCTAL_SIZE = 8**11
_LEVEL = 1  # seen: level 3 takes twice the time for 6 % less
_WINDOW = 1 << 27
_TYPES = {LINK: b"2", DIRECTORY: b"5"}
_LONG_NAME, _LONG_TARGET = b"L", b"K"


class DamagedError(Exception):
    """The archive is not what was saved."""


class Sink(Protocol):
    """What a part of a file goes to."""

    def __call__(self, data: bytes, /) -> object:
        """Take the next bytes."""


class Target(Protocol):
    """A file to write to, which may take less than it is given."""

    def write(self, data: memoryview, /) -> int:
        """Take some of the bytes; how many."""


Receive = Callable[[Item], AbstractContextManager[Sink | None]]
"""Stands around an item; gives what its bytes go to, None where they are not wanted."""


class ArchiveWriter:
    """Takes items in order, each followed by its bytes, and gives the digest of what it wrote."""

    def __init__(self, file: Target) -> None:
        self._file = file
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._hash = xxhash.xxh3_128()
        self.size = 0

    def header(self, item: Item) -> None:
        """Begin an item."""
        self.data(header(item))

    def data(self, data: bytes) -> None:
        """The next bytes of the item."""
        self._put(self._compress.compress(data))

    def pad(self, size: int) -> None:
        """End an item of this size."""
        self.data(b"\0" * (-size % _BLOCK))

    def end(self) -> str:
        """Write out what is left; the digest of the whole file."""
        self.data(_END)
        self._put(self._compress.flush())
        return self._hash.hexdigest()

    def _put(self, data: bytes) -> None:
        if data:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._hash.update(data)
            self.size += len(data)


def verify(file: BinaryIO, digest: str, size: int) -> None:
    """Raise `DamagedError` unless the file holds what was saved; it is at its beginning again."""
    hasher = xxhash.xxh3_128()
    length = 0
    while data := file.read(CHUNK):
        hasher.update(data)
        length += len(data)
    if length != size or hasher.hexdigest() != digest:
        raise DamagedError("its bytes are not those that were saved")
    file.seek(0)


def read(file: BinaryIO, items: Sequence[Item], receive: Receive) -> None:
    """Go through the archive of these items, each of which is given to `receive`.

    Raises `DamagedError`, and what the receivers raise. What they were given before is not to be used
    then.
    """
    source = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
        file, read_size=CHUNK, read_across_frames=False
    )
    try:
        for item in items:
            expected = header(item)
            if b"".join(_parts(source, len(expected))) != expected:
                raise DamagedError(f"{item.path!r} is not where it should be")
            with receive(item) as take:
                for data in _parts(source, item.size):
                    if take is not None:
                        take(data)
            if any(b"".join(_parts(source, -item.size % _BLOCK))):
                raise DamagedError(f"{item.path!r} does not end where it should")
        if b"".join(_parts(source, len(_END))) != _END or source.read(1):
            raise DamagedError("it does not end where it should")
    except zstandard.ZstdError as error:
        raise DamagedError(str(error)) from None


def header(item: Item) -> bytes:
    """The blocks that stand before the bytes of an item."""
    name = os.fsencode(item.path) + (b"/" if item.kind == DIRECTORY else b"")
    target = os.fsencode(item.content) if item.kind == LINK else b""
    kind = _TYPES.get(item.kind, b"0")
    return b"".join(
        (
            _long(_LONG_NAME, name),
            _long(_LONG_TARGET, target),
            _block(name[:_NAME], item.mode, item.size, kind, target[:_NAME]),
        )
    )


def _long(kind: bytes, name: bytes) -> bytes:
    """What GNU tar writes where a name has no room in a block."""
    if len(name) <= _NAME:
        return b""
    size = len(name) + 1
    return _block(b"././@LongLink", 0, size, kind, b"") + name + b"\0" * (1 + -size % _BLOCK)


def _block(name: bytes, mode: int, size: int, kind: bytes, target: bytes) -> bytes:
    octal = b"%011o\0" % size if size < _OCTAL_SIZE else b"\x80" + size.to_bytes(11, "big")
    head = b"%s%07o\0" % (name.ljust(_NAME, b"\0"), mode)
    # no owner, no group, no time; the checksum is made with blanks in its place
    middle = b"0000000\0" * 2 + octal + b"%011o\0" % 0
    tail = kind + target.ljust(_NAME, b"\0") + b"ustar  \0"
    total = sum(head) + sum(middle) + sum(tail) + 8 * ord(" ")
    return (head + middle + b"%06o\0 " % total + tail).ljust(_BLOCK, b"\0")


def _parts(source: zstandard.ZstdDecompressionReader, size: int) -> Iterator[bytes]:
    """The next `size` bytes, in pieces."""
    while size:
        data = source.read(min(size, CHUNK))
        if not data:
            raise DamagedError("it ends too early")
        size -= len(data)
        yield data
