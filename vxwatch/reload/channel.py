"""The reload channel: what the open pages are told, and the script that hears it.

Every page gets what is true now when it connects, and afterwards what changes. A page that does
not read is cut; its browser connects again when it does.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from vxwatch.reload.guard import Fields, may_use
from vxwatch.reload.wire import Wire

_UNREAD = 1 << 20
"""Bytes that a page may leave unread."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "client.js")
_ALWAYS = (
    "Cache-Control: no-store\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class News:
    """What pages are to know: the state that they should show, and what stands against it.

    `version` names the last good state. `servers`: other servers came up for it. `failed`: of each
    task that failed its name, how it ended and what it wrote.
    """

    version: str
    servers: bool
    failed: tuple[Mapping[str, str], ...]


class Channel:
    """The pages that are connected. `path` is where it lies, with a slash at both ends."""

    def __init__(self, path: str, news: News) -> None:
        self.path = path
        self.news = news
        self._pages: set[Wire] = set()
        with open(_SCRIPT, encoding="utf-8") as file:
            self._script = file.read()

    def tag(self, nonce: str) -> str:
        """The element that makes a page one of these. The nonce is of base64's letters alone."""
        proof = f' nonce="{nonce}"' if nonce else ""
        return f'<script async src="{self.path}reload.js?v={self.news.version}"{proof}></script>'

    def publish(self, news: News) -> None:
        """Tell all pages what has changed."""
        before, self.news = self.news, news
        if news.version != before.version:
            kind = "reload"
        elif news.failed == before.failed:
            return
        else:
            kind = "failed" if news.failed else "mended"
        message = self._message(kind)
        for page in tuple(self._pages):
            page.send(message)
            if page.unsent > _UNREAD:
                page.abort()

    def close(self) -> None:
        """Let all pages go."""
        for page in self._pages:
            page.close()

    async def answer(self, client: Wire, method: bytes, target: str, given: Fields) -> None:
        """Answer a request for something below `path`; the connection is to be closed then."""
        what = target.removeprefix(self.path).partition("?")[0]
        if not may_use(given):
            client.send(_head("403 Forbidden", "text/plain"))
        elif method != b"GET":
            client.send(_head("405 Method Not Allowed", "text/plain"))
        elif what == "reload.js":
            client.send(_head("200 OK", "text/javascript; charset=utf-8") + self._script.encode())
        elif what == "events":
            client.send(
                _head("200 OK", "text/event-stream") + b"retry: 500\n" + self._message("hello")
            )
            await self._hold(client)
        else:
            client.send(_head("404 Not Found", "text/plain"))

    async def _hold(self, client: Wire) -> None:
        self._pages.add(client)
        try:
            while await client.read():
                pass
        finally:
            self._pages.discard(client)

    def _message(self, kind: str) -> bytes:
        news = self.news
        data = {"version": news.version, "servers": news.servers, "failed": news.failed}
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def _head(status: str, kind: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{_ALWAYS}".encode()
