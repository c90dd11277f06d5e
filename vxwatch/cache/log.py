"""What a task wrote, kept to be shown again: which stream, which bytes, in order.

What is fed must be masked already. The memory that it takes is bounded: of a long output the
beginning and the end are kept, and a line says what is missing.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import Literal

import zstandard

Stream = Literal["stdout", "stderr"]
Chunk = tuple[Stream, bytes]

MOST = 4 << 20
"""Bytes of a log that are kept, half from the beginning and half from the end."""

_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_HEAD = struct.Struct(">BI")
_LEVEL = 1
_SMALL = 4096  # bytes


class Log:
    """The output of a task, as far as it is kept."""

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._first: list[Chunk] = []
        self._room = self._half
        self._last: deque[Chunk] = deque()
        self._held = 0
        self._left_out = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """The next bytes of a stream."""
        head, tail = data[: self._room], data[self._room :]
        if head:
            self._room -= len(head)
            _append(self._first, stream, head)
        if tail:
            self._last.append((stream, tail))
            self._held += len(tail)
        while self._held > self._half:
            oldest, old = self._last.popleft()
            kept = old[self._held - self._half :]
            self._left_out += len(old) - len(kept)
            self._held -= len(old) - len(kept)
            if kept:
                self._last.appendleft((oldest, kept))

    def chunks(self) -> Iterator[Chunk]:
        """What is kept."""
        yield from self._first
        if self._left_out:
            yield "stdout", b"\n[vx: %d bytes of the output were not kept]\n" % self._left_out
        yield from self._last

    def pack(self) -> bytes:
        """What is kept, compressed; empty if nothing is."""
        parts = [
            part
            for stream, data in self.chunks()
            for part in (_HEAD.pack(_STREAMS.index(stream), len(data)), data)
        ]
        return zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(parts)) if parts else b""


def unpack(packed: bytes) -> list[Chunk]:
    """The chunks of a packed log. Raises `ValueError` if it is none."""
    if not packed:
        return []
    try:
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=4 * MOST)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    chunks: list[Chunk] = []
    at = 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise ValueError("cut in the middle")
        stream, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if stream >= len(_STREAMS) or at + size > len(data):
            raise ValueError("no log")
        chunks.append((_STREAMS[stream], data[at : at + size]))
        at += size
    return chunks


def _append(chunks: list[Chunk], stream: Stream, data: bytes) -> None:
    """Many small writes become one chunk, which is what they are shown as."""
    if chunks and chunks[-1][0] == stream and len(chunks[-1][1]) < _SMALL:
        chunks[-1] = stream, chunks[-1][1] + data
    else:
        chunks.append((stream, data))
