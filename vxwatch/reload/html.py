"""Where a script may stand in an HTML page before all others, found while the page arrives.

Pure: pieces of bytes in, cut anywhere; what was given comes out again, byte for byte. The place is
the first one at which a browser takes a script without the page turning out another: after the
byte order mark, comments, the doctype and the tags `<html>` and `<head>`, as far as it has them.
"""

import re

LONGEST = 1 << 16
"""Bytes held back until the place is known; a comment that is longer has it before itself."""
_BOMS = ((b"\xef\xbb\xbf", "latin-1"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_ATTRIBUTES = r"""(?:[\s/](?:[^>"']|"[^"]*"|'[^']*')*+)?+>"""
_PIECE = re.compile(
    r"[\t\n\f\r ]+|<!--(?:-?>|.*?--!?>)|<!(?!--)[^>]*+>|<\?[^>]*+>"
    rf"|<html{_ATTRIBUTES}|(?P<head><head{_ATTRIBUTES})",
    re.IGNORECASE | re.DOTALL,
)
_UNFINISHED = re.compile(
    r"<(?:[!?].*|h(?:tml|ead)[\s/].*|h(?:t(?:ml?)?|e(?:ad?)?)?)?", re.IGNORECASE | re.DOTALL
)


class Opening:
    """The beginning of one page. `charset` is what the head of the answer says, "" if nothing."""

    def __init__(self, charset: str) -> None:
        self.codec = ""
        """How to write ASCII into this page, once the place is known."""
        self._charset = charset.lower()
        self._data = bytearray()
        self._at = 0  # in bytes; all before it is complete

    def feed(self, data: bytes, *, last: bool = False) -> tuple[bytes, bytes] | None:
        """What stands before the place and what of it is known to follow, once both are known."""
        self._data += data
        if not self.codec and (len(self._data) >= len(_BOMS[0][0]) or last):
            self.codec, self._at = self._begin()
        known = self.codec != "" and self._found()
        if not (known or last or len(self._data) > LONGEST):
            return None
        return bytes(self._data[: self._at]), bytes(self._data[self._at :])

    def _begin(self) -> tuple[str, int]:
        for mark, codec in _BOMS:
            if self._data.startswith(mark):
                return codec, len(mark)
        if self._charset.startswith("utf-16"):
            return ("utf-16-be" if self._charset.endswith("be") else "utf-16-le"), 0
        return "latin-1", 0

    def _found(self) -> bool:
        """Go on as far as whole pieces reach; whether nothing that may come can move the place."""
        data = self._data[self._at :]
        if self.codec != "latin-1":
            del data[len(data) & ~1 :]  # half a character
        text = data.decode(self.codec, errors="replace")
        end = 0
        head = False
        while not head and (piece := _PIECE.match(text, end)):
            end = piece.end()
            head = piece["head"] is not None
        self._at += len(text[:end].encode(self.codec, errors="replace"))
        return head or not (_UNFINISHED.fullmatch(text, end) or end == len(text))
