"""When a server's output says that it is ready. Pure: bytes in, a verdict out."""

import re

ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
"""CSI and OSC sequences and two-byte escapes (ECMA-48): what colours a line."""

REMEMBERED = 1 << 14
"""Characters of an unfinished line that are kept for the next read."""


class ReadyLine:
    """Looks for `ready_when` in what a server prints.

    A coloured line matches as its plain text, and a trailing line without its end counts,
    because a prompt or a progress line may be all that is printed.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._rest: dict[str, bytes] = {}

    def feed(self, stream: str, data: bytes) -> bool:
        """Whether the pattern occurs in a line that `data` continues or completes."""
        seen = self._rest.get(stream, b"") + data
        self._rest[stream] = seen[seen.rfind(b"\n") + 1 :][-REMEMBERED:]
        text = re.sub(ESCAPES, "", seen.decode(errors="replace"))
        return any(self._pattern.search(line) for line in text.splitlines())
