"""Colour and glyphs, or neither: the same information without them. Pure."""

from collections.abc import Mapping

LOOKS = {
    "ran": "32",
    "restored": "32",
    "ready": "32",
    "failed": "31;1",
    "error": "31;1",
    "warning": "33",
    "skipped": "33",
    "aborted": "33",
    "hint": "36",
    "dim": "2",
}
"""ANSI SGR parameters by what a line is about."""

GLYPHS = {
    "ran": "✓",
    "fresh": "✓",
    "restored": "✓",
    "ready": "●",
    "kept": "●",
    "failed": "✗",
    "skipped": "-",
    "aborted": "-",
}
PLAIN_GLYPHS = {
    "ran": "+",
    "fresh": "+",
    "restored": "+",
    "ready": "*",
    "kept": "*",
    "failed": "x",
    "skipped": "-",
    "aborted": "-",
}
SERVER_COLOURS = ("36", "35", "34", "33", "32")


class Style:
    """How lines look on this output. `reset` ends a colour that was cut, and shows the cursor."""

    def __init__(self, *, colour: bool, unicode: bool, terminal: bool = False) -> None:
        self._colour = colour
        self.reset = b"\x1b[0m\x1b[?25h" if terminal else b""
        self._glyphs = GLYPHS if unicode else PLAIN_GLYPHS
        self._servers: dict[str, str] = {}

    def glyph(self, status: str) -> str:
        """The sign that stands before a task's line."""
        return self._glyphs[status]

    def paint(self, line: str, look: str) -> str:
        """The line in the colour of what it is about."""
        return f"\x1b[{LOOKS[look]}m{line}\x1b[0m" if self._colour and look in LOOKS else line

    def prefix(self, name: str) -> bytes:
        """What stands before each line of a server's output."""
        text = f"{name} | "
        if self._colour:
            sgr = self._servers.setdefault(
                name, SERVER_COLOURS[len(self._servers) % len(SERVER_COLOURS)]
            )
            text = f"\x1b[2;{sgr}m{text}\x1b[0m"
        return text.encode(errors="backslashreplace")


def wants_colour(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether to colour: NO_COLOR wins, then FORCE_COLOR, then a terminal that is not dumb."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return terminal and environ.get("TERM") != "dumb"
