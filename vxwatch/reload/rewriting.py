"""A page on its way to the browser: the reload script is put into it, and all else stays.

Pure: the head and the pieces of the body in, bytes for the browser out. The body leaves as it
came, decoded if it was compressed; its length, where it is told, counts the script.
"""

import zlib
from collections.abc import Iterator
from email.message import Message

import h11

from vxwatch.reload.html import Opening

_AT_ONCE = 1 << 18
"""Bytes that a piece is decoded to in one go."""
_OF_THE_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_UNTRUE = frozenset(
    (b"accept-ranges", b"content-digest", b"repr-digest", b"digest", b"content-md5")
)
"""Fields of an answer that speak of its bytes, and would be wrong with the script in them."""
_CONDITIONS = frozenset((b"if-none-match", b"if-modified-since"))
_NO_BODY = frozenset({204, 205, 206, 304})

_Items = list[tuple[bytes, bytes]]


class UnreadableError(Exception):
    """A compressed body is damaged."""


def page_request(request: h11.Request) -> bytes:
    """The head of a request for a page, so that the answer is whole and can be read.

    A condition would be answered for a page without the script, as the browser may still have one.
    """
    items: _Items = []
    for name, value in request.headers.raw_items():
        if name.lower() == b"accept-encoding":
            items.append((name, b"identity"))
        elif name.lower() not in _CONDITIONS:
            items.append((name, value))
    line = b"%s %s HTTP/%s" % (request.method, request.target, request.http_version)
    return _head(line, items)


def content_type(value: str) -> tuple[str, str]:
    """The media type and the charset of a Content-Type."""
    message = Message()
    message["content-type"] = value
    return message.get_content_type(), message.get_content_charset() or ""


def is_page(status: int, given: "dict[str, str]") -> bool:
    """Whether an answer is a whole HTML page that a browser shows."""
    if status in _NO_BODY or "content-range" in given:
        return False
    if given.get("content-disposition", "").lower().lstrip().startswith("attachment"):
        return False
    return "content-type" in given and content_type(given["content-type"])[0] == "text/html"


def decoder(encoding: str) -> "Decoder | None":
    """What reads this Content-Encoding; None where nothing of ours can."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    names = [name for name in names if name != "identity"]
    if not names:
        return Decoder("identity")
    known = len(names) == 1 and names[0] in ("gzip", "x-gzip", "deflate")
    return Decoder(names[0]) if known else None


class Decoder:
    """Undoes one Content-Encoding, piece by piece."""

    def __init__(self, name: str) -> None:
        self.plain = name == "identity"
        self._gzip = name.endswith("gzip")
        self._state: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What this piece holds, in pieces of a bounded size. Raises `UnreadableError`."""
        if self.plain:
            yield data
            return
        try:
            while data:
                if self._state is None:
                    self._state = zlib.decompressobj(self._kind(data))
                yield self._state.decompress(data, _AT_ONCE)
                data = self._state.unconsumed_tail
                if self._state.eof:
                    # Members of a gzip file may follow one another.
                    data = self._state.unused_data if self._gzip else b""
                    self._state = None if self._gzip else self._state
        except zlib.error as error:
            raise UnreadableError(str(error)) from None

    def _kind(self, data: bytes) -> int:
        if self._gzip:
            return zlib.MAX_WBITS | 16
        # "deflate" means zlib's format, and some send it bare.
        return zlib.MAX_WBITS if data[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS


class Rewriting:
    """One page. `tag` is what is added to it, as ASCII."""

    def __init__(
        self, answer: h11.Response, given: "dict[str, str]", tag: str, decode: Decoder, *, old: bool
    ) -> None:
        """`old`: the client knows no chunks, as none did before HTTP/1.1."""
        self._answer = answer
        self._tag = tag
        self._decode = decode
        self._opening: Opening | None = Opening(content_type(given["content-type"])[1])
        length = given.get("content-length")
        self._length = int(length) if length is not None and decode.plain else None
        modern = answer.http_version >= b"1.1" and not old
        self._chunked = self._length is None and modern and _framed(given)
        self.closes = self._length is None and not self._chunked
        """Whether the end of the page is the end of its connection."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What goes to the browser now. Raises `UnreadableError`."""
        for piece in self._decode.feed(data):
            yield self._pass(piece)

    def end(self) -> bytes:
        """What goes to the browser at last."""
        return self._pass(b"", last=True) + (b"0\r\n\r\n" if self._chunked else b"")

    def _pass(self, piece: bytes, *, last: bool = False) -> bytes:
        if self._opening is None:
            return self._framed(piece)
        found = self._opening.feed(piece, last=last)
        if found is None:
            return b""
        tag = self._tag.encode(self._opening.codec)
        self._opening = None
        return self._head(len(tag)) + self._framed(found[0] + tag + found[1])

    def _framed(self, data: bytes) -> bytes:
        return b"%x\r\n%s\r\n" % (len(data), data) if self._chunked and data else data

    def _head(self, added: int) -> bytes:
        """The head of the answer, each field at its place."""
        framing: _Items = []
        if self._length is not None:
            framing = [(b"Content-Length", b"%d" % (self._length + added))]
        elif self._chunked:
            framing = [(b"Transfer-Encoding", b"chunked")]
        items: _Items = []
        for name, value in self._answer.headers.raw_items():
            lower = name.lower()
            if lower in _OF_THE_FRAMING:
                items += [
                    (name, one) if lower == own.lower() else (own, one) for own, one in framing
                ]
                framing = []
            elif lower not in _UNTRUE and not (
                lower == b"content-encoding" and not self._decode.plain
            ):
                items.append((name, value))
        line = b"HTTP/%s %d %s" % (
            self._answer.http_version,
            self._answer.status_code,
            self._answer.reason,
        )
        return _head(line, [*items, *framing])


def _framed(given: "dict[str, str]") -> bool:
    """Whether the end of the answer is told by itself and not by the end of its connection."""
    return "transfer-encoding" in given or "content-length" in given


def _head(line: bytes, items: _Items) -> bytes:
    fields = b"".join(b"%s: %s\r\n" % item for item in items)
    return b"%s\r\n%s\r\n" % (line, fields)
