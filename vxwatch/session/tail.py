"""The last output of one server, as it was written: any bytes, any cut. Memory is bounded.

A place in it counts all bytes that were ever written, so that whoever reads along knows what was
lost before it came to it. Pure.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT = 1 << 18
"""Bytes of one server that are surely kept."""


class Tail:
    """Grows at its end; what is older than the last `KEPT` bytes may be gone."""

    def __init__(self) -> None:
        self.start = 0
        self.heard: set[Callable[[], None]] = set()
        self._data = bytearray()

    @property
    def end(self) -> int:
        """Where the next byte will be."""
        return self.start + len(self._data)

    def add(self, data: bytes) -> None:
        """Keep this too, and call those that wait for more."""
        self._data += data[-KEPT:]
        lost = len(self._data) - KEPT
        if lost > KEPT or len(data) > KEPT:  # moving what is kept costs more than a little room
            del self._data[:lost]
            self.start += lost + max(0, len(data) - KEPT)
        for call in tuple(self.heard):
            call()

    def read(self, at: int, most: int) -> bytes:
        """At most so many bytes from there on; none at the end. `at` is not before `start`."""
        begin = at - self.start
        return bytes(self._data[begin : begin + most])

    def last(self, lines: int) -> int:
        """Where the last so many lines begin."""
        at = len(self._data) - self._data.endswith(b"\n")
        while lines > 0 and at >= 0:
            at = self._data.rfind(b"\n", 0, at)
            lines -= 1
        return self.start + at + 1 if lines == 0 else self.start
