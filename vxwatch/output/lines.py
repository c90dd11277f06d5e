"""Whole lines out of bytes that arrive in any cut. Pure; memory stays bounded."""

LONGEST = 1 << 16
"""A line longer than this many bytes is passed on in pieces, which together are the line."""


class Lines:
    """Collects bytes and gives back what is complete, cut at line ends only."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> bytes:
        """All whole lines that are complete now, in one piece ("" if none is)."""
        cut = data.rfind(b"\n") + 1
        if cut:
            whole = b"".join((*self._rest, data[:cut]))
            self._rest, self._size = [data[cut:]], len(data) - cut
            return whole
        self._rest.append(data)
        self._size += len(data)
        return self.end() if self._size > LONGEST else b""

    def end(self) -> bytes:
        """What is left without a line end."""
        rest = b"".join(self._rest)
        self._rest, self._size = [], 0
        return rest
