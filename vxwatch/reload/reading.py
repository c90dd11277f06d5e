"""HTTP/1.1 read along: which bytes are which part of a message, while all stay as they came.

h11 does the reading; the bytes are kept beside it, so that they can be passed on untouched. Pure.
"""

from typing import Any

import h11

LONGEST_HEAD = 1 << 18


class Reading:
    """One message of one side, and the interim ones before it."""

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER], early: bytes = b"") -> None:
        """`role` is ours: a server reads requests. `early` was received already."""
        self.state = h11.Connection(role, max_incomplete_event_size=LONGEST_HEAD)
        self._raw = b""
        if early:
            self.feed(early)

    def feed(self, data: bytes) -> None:
        """Go on with what was received; b"" says that nothing more comes."""
        self._raw = self._raw + data if self._raw else data
        self.state.receive_data(data)

    def event(self) -> Any:
        """The next event, or NEED_DATA or PAUSED. Raises `h11.RemoteProtocolError` for what is no HTTP/1.1."""
        return self.state.next_event()

    def take(self) -> bytes:
        """The bytes of all events so far that were not taken yet."""
        rest, _ = self.state.trailing_data
        cut = len(self._raw) - len(rest)
        taken, self._raw = self._raw[:cut], self._raw[cut:]
        return taken

    def drain(self) -> bytes:
        """All bytes that were not taken, whatever they are; nothing more is read."""
        taken, self._raw = self._raw, b""
        return taken

    @property
    def waiting(self) -> bool:
        """Whether there are bytes that were not taken."""
        return bool(self._raw)

    @property
    def persists(self) -> bool:
        """Whether the side that was read may send another message after this one."""
        _, ended = self.state.trailing_data
        return self.state.their_state is h11.DONE and not ended


_GET = h11.Request(method="GET", target="/", headers=[("host", "-")])


def answer_to(request: h11.Request) -> Reading:
    """A reading of the answer to this request."""
    reading = Reading(h11.CLIENT)
    reading.state.send(
        _GET if request.method == b"GET" and not _upgrades(request) else _like(request)
    )
    return reading


def _upgrades(request: h11.Request) -> bool:
    return any(name == b"upgrade" for name, _ in request.headers)


def _like(request: h11.Request) -> h11.Request:
    """A request whose answer is framed in the same way; h11 sends none of HTTP/1.0."""
    headers = [(b"host", b"-")]
    if _upgrades(request):
        headers += [(b"upgrade", b"-"), (b"connection", b"upgrade")]
    return h11.Request(method=request.method, target="/", headers=headers)
