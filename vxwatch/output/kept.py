"""A task's output while it is not known whether it must be shown.

Nothing that was taken is lost, also when the disk is full: then it says so and takes no more.
Memory is bounded; what goes beyond it is in a file without a name.
"""

from collections.abc import Generator
from typing import IO

IN_MEMORY = 1 << 20
"""Bytes of one task that stay in memory."""

PIECE = 1 << 16


class Kept:
    """Write to it, then read it once from the start; that, or `close`, gives back what it holds."""

    def __init__(self) -> None:
        self._memory: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._whole = 0
        self.at_line_start = True
        self.coloured = False

    def write(self, data: bytes) -> None:
        """Keep `data` too. Raises OSError if there is no room for it; the rest stays kept."""
        self.at_line_start = data.endswith(b"\n")
        self.coloured = self.coloured or b"\x1b" in data
        if self._file is None and self._size + len(data) <= IN_MEMORY:
            self._memory.append(data)
            self._size += len(data)
            return
        if self._file is None:
            import tempfile  # noqa: PLC0415 - most output is small

            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `close`
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._whole += len(data)

    @property
    def in_memory(self) -> int:
        """How many bytes of it are no file's."""
        return self._size

    def pieces(self) -> Generator[bytes]:
        """All of it, in order."""
        try:
            yield from self._memory
            if self._file is not None:
                self._file.seek(0)
                left = self._whole
                while left:
                    piece = self._file.read(min(PIECE, left))
                    left -= len(piece)
                    yield piece
        finally:
            self.close()

    def close(self) -> None:
        """Give the memory and the disk back."""
        self._memory.clear()
        if self._file is not None:
            self._file.close()
