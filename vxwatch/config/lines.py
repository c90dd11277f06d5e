"""The lines on which keys and list items of a TOML document stand.

tomllib keeps no positions, so this walks the text once more, and only when there is a fault to
report. It takes text that tomllib accepted: it looks for structure and checks nothing. Pure.
"""

import re
import tomllib
from bisect import bisect_right

from vxwatch.config.faults import At

_BLANK = re.compile(r"(?:[\s,]+|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_HEADER = re.compile(r"\[\[?[ \t]*")
_TEXT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?!")|\'\'\'.*?\'\'\'(?!\')|"(?:\\.|[^"\\])*"|'[^']*\'''', re.DOTALL
)
_EQUALS = re.compile(r"[ \t]*=?[ \t]*")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def dotted(at: At) -> str:
    """A place in a document as TOML writes it: `tasks."a.b".depends_on[1]`."""
    text = ""
    for step in at:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", step)
            quoted = step if bare else '"{}"'.format(step.replace("\\", "\\\\").replace('"', '\\"'))
            text += f".{quoted}" if text else quoted
    return text


class Lines:
    """Where things stand in one document."""

    __slots__ = ("_breaks", "_found", "_position", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._found: dict[At, int] = {}
        self._position = 0
        self._document()

    def of(self, at: At) -> int:
        """The line of a place, or of the nearest thing around it that has one; else 0."""
        while at and at not in self._found:
            at = at[:-1]
        return self._found.get(at, 0)

    def _document(self) -> None:
        table: At = ()
        lists: dict[At, int] = {}
        self._skip(_BLANK)
        while self._position < len(self._text):
            header = self._skip(_HEADER)
            key = self._key()
            if not key:
                return
            if not header:
                self._note(table, key)
                self._value((*table, *key))
            else:
                table = key
                if header.startswith("[["):
                    lists[key] = lists.get(key, -1) + 1
                    table = (*key, lists[key])
                self._note((), table)
                self._position = self._text.index("]", self._position) + len(header.rstrip())
            self._skip(_BLANK)

    def _key(self) -> At:
        """The dotted key that starts here, and what separates it from its value."""
        parts: list[str] = []
        while part := self._skip(_KEY):
            bare = part[0] not in "\"'"
            parts.append(part if bare else tomllib.loads(f"key = {part}")["key"])
            if not self._skip(_DOT):
                break
        return tuple(parts)

    def _value(self, at: At) -> None:
        self._skip(_EQUALS)
        opening = self._text[self._position : self._position + 1]
        if opening == "[":
            self._list(at)
        elif opening == "{":
            self._inline_table(at)
        elif not self._skip(_TEXT):
            self._skip(_SCALAR)

    def _list(self, at: At) -> None:
        self._position += 1
        self._skip(_BLANK)
        index = 0
        while self._text[self._position : self._position + 1] not in ("]", ""):
            self._note(at, (index,))
            self._value((*at, index))
            self._skip(_BLANK)
            index += 1
        self._position += 1

    def _inline_table(self, at: At) -> None:
        self._position += 1
        self._skip(_BLANK)
        while self._text[self._position : self._position + 1] not in ("}", ""):
            key = self._key()
            self._note(at, key)
            self._value((*at, *key))
            self._skip(_BLANK)
        self._position += 1

    def _note(self, table: At, key: At) -> None:
        """Remember the line of a key, and of each part of it that is new."""
        line = bisect_right(self._breaks, self._position - 1) + 1
        for end in range(1, len(key) + 1):
            self._found.setdefault((*table, *key[:end]), line)

    def _skip(self, expression: re.Pattern[str]) -> str:
        match = expression.match(self._text, self._position)
        if not match:
            return ""
        self._position = match.end()
        return match[0]
