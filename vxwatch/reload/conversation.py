"""One client of a bridged server: its requests go to the server, the answers come back.

What comes is read along and passed on as it is, but for pages, which get the reload script, and
for what is meant for the reload channel. What is no HTTP/1.1, or stops being it, is carried as
bytes until both sides have ended.

    idle --request--> asked --head of the answer--> passing, or rewriting a page --end--> idle
                        '--101, CONNECT, no HTTP--> carrying
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import h11

from vxwatch.reload import csp
from vxwatch.reload.channel import Channel
from vxwatch.reload.guard import Fields, asks_for_page, fields
from vxwatch.reload.reading import Reading, answer_to
from vxwatch.reload.rewriting import (
    Rewriting,
    UnreadableError,
    decoder,
    is_page,
    page_request,
)
from vxwatch.reload.wire import Wire

Dial = Callable[[], Awaitable[Wire]]
Tell = Callable[[str, str], None]

_AGAIN = frozenset({b"GET", b"HEAD", b"OPTIONS"})
"""What a server may be asked twice, so that one that went down meanwhile is not noticed."""
_SWITCHING = 101
_VERSIONS = (b"1.0", b"1.1")


_LEAVE = 2.0
"""Seconds for a client to read its last answer: a close with something unread would take it away."""


class Conversation:
    """`run` must be awaited; it closes both connections.

    `dial` gives a connection to the server. `tell` is called with why a page gets no script, and
    with its path.
    """

    def __init__(self, client: Wire, channel: Channel, dial: Dial, tell: Tell) -> None:
        self.idle = True
        """Whether the client has asked for nothing that it has not got."""
        self._client = client
        self._channel = channel
        self._dial = dial
        self._tell = tell
        self._server: Wire | None = None
        self._early = b""
        self._whole = False  # all that the client has sent was passed on
        client.on_end = self._on_client_end

    @property
    def owes(self) -> bool:
        """Whether there is, or may yet come, something that the client is to get."""
        server = self._server
        coming = server is not None and (server.waiting > 0 or not server.ended)
        return self._client.unsent > 0 or (coming and not self.idle)

    async def run(self) -> None:
        """Serve the client until one side has ended."""
        try:
            while await self._exchange():
                self.idle = True
            await self._leave()
        except OSError:
            self._client.abort()
        finally:
            self._client.close()
            self._drop_server()

    async def _leave(self) -> None:
        self._client.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE):
                while await self._client.read():
                    pass

    async def _exchange(self) -> bool:
        """One request and its answer; whether another may follow."""
        asked = Reading(h11.SERVER, self._early)
        self._whole = False
        try:
            request = await self._request(asked)
        except h11.RemoteProtocolError:
            await self._carry(asked.drain())
            return False
        if request is None:
            return False
        given = fields(request.headers)
        target = request.target.decode("latin-1")
        if target.startswith(self._channel.path):
            await self._channel.answer(self._client, request.method, target, given)
            return False
        head = asked.take()
        page = asks_for_page(request.method, given)
        if request.method == b"CONNECT" or request.http_version not in _VERSIONS:
            await self._carry(head + asked.drain())
            return False
        if page:
            head = page_request(request)
        return await self._pass(_Exchange(request, given, head, page, asked))

    async def _request(self, asked: Reading) -> h11.Request | None:
        while (event := asked.event()) is h11.NEED_DATA:
            data = await self._client.read()
            self.idle = False
            asked.feed(data)
        self.idle = False
        return event if isinstance(event, h11.Request) else None

    async def _pass(self, exchange: "_Exchange") -> bool:
        """Have the server answer, and pass that on."""
        asked = exchange.asked
        kept = self._server is not None
        server = self._server = self._server or await self._connect()
        await self._say(server, exchange.head)
        try:
            whole = asked.event()
            if isinstance(whole, h11.EndOfMessage):
                asked.take()
                self._sent(asked)
                answered = await self._first_answer(exchange, kept=kept)
            else:
                answered = await self._beside_the_body(exchange, whole)
        except h11.RemoteProtocolError:  # of the client: the server may see more in it
            answered = None
        if answered is None:
            await self._carry(asked.drain())
            return False
        if not answered.persists or answered.drain() or server.ended or server.finished:
            self._drop_server()
        self._early = asked.drain()
        return asked.persists and answered.persists and not exchange.closes

    async def _first_answer(self, exchange: "_Exchange", *, kept: bool) -> Reading | None:
        """The answer, asked for once more where the server went away before it had begun."""
        assert self._server is not None
        again = kept and exchange.request.method in _AGAIN
        try:
            first = await self._server.read()
        except OSError:
            if not again:
                raise
            first = b""
        if not first and again:
            self._drop_server()
            server = self._server = await self._connect()
            await self._say(server, exchange.head)
            self._sent(exchange.asked)
            first = await server.read()
        answered = answer_to(exchange.request)
        answered.feed(first)
        return await self._answer(exchange, answered)

    async def _beside_the_body(self, exchange: "_Exchange", first: object) -> Reading | None:
        """The answer, which may come before the request has been sent to its end."""
        answered: Reading | None = None
        fault: OSError | None = None
        async with asyncio.TaskGroup() as group:
            body = group.create_task(self._body(exchange.asked, first))
            try:
                answered = await self._answer(exchange, answer_to(exchange.request))
                if answered is not None and answered.persists:
                    await body
            except OSError as error:
                fault = error
            finally:
                body.cancel()
        if fault is not None:
            raise fault
        return answered

    async def _body(self, asked: Reading, event: object) -> None:
        """Pass on the rest of a request; what it breaks, the answer tells."""
        server = self._server
        assert server is not None
        with contextlib.suppress(OSError, h11.RemoteProtocolError):
            while not isinstance(event, h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    await server.write(asked.take())
                    asked.feed(await self._client.read())
                event = asked.event()
            await server.write(asked.take())
        self._sent(asked)

    async def _answer(self, exchange: "_Exchange", answered: Reading) -> Reading | None:
        """Pass one answer on, with the interim ones before it.

        None when it is, or has become, something else than HTTP/1.1: all that came was passed on.
        """
        try:
            while True:
                event = await self._event(answered)
                if not isinstance(event, h11.InformationalResponse):
                    break
                await self._client.write(answered.take())
                if event.status_code == _SWITCHING:
                    await self._client.write(answered.drain())
                    return None
            rewriting = self._rewriting(exchange, event)
            if rewriting is None:
                await self._verbatim(answered)
            else:
                exchange.closes |= rewriting.closes
                await self._rewritten(answered, rewriting)
        except h11.RemoteProtocolError:
            await self._client.write(answered.drain())
            return None
        return answered

    async def _event(self, answered: Reading) -> object:
        assert self._server is not None
        while (event := answered.event()) is h11.NEED_DATA:
            answered.feed(await self._server.read())
        return event

    async def _verbatim(self, answered: Reading) -> None:
        assert self._server is not None
        while not isinstance(event := answered.event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                await self._client.write(answered.take())
                answered.feed(await self._server.read())
        await self._client.write(answered.take())

    async def _rewritten(self, answered: Reading, rewriting: Rewriting) -> None:
        """Pass a page on. Raises `OSError` where it ends too early or cannot be decoded."""
        answered.take()
        try:
            while not isinstance(event := await self._event(answered), h11.EndOfMessage):
                assert isinstance(event, h11.Data)
                for piece in rewriting.feed(bytes(event.data)):
                    await self._client.write(piece)
                answered.take()
            answered.take()
            await self._client.write(rewriting.end())
        except (h11.RemoteProtocolError, UnreadableError):
            # Not as an end: the page would pass for whole.
            raise ConnectionAbortedError from None

    def _rewriting(self, exchange: "_Exchange", answer: object) -> Rewriting | None:
        """How to put the script into this answer; None where it is to stay as it is."""
        if not (exchange.page and isinstance(answer, h11.Response)):
            return None
        given = fields(answer.headers)
        if not is_page(answer.status_code, given):
            return None
        path = exchange.request.target.decode("latin-1").partition("?")[0]
        encoding = given.get("content-encoding", "")
        decode = decoder(encoding)
        if decode is None:
            self._tell(f"it is sent as {encoding} unasked", path)
            return None
        policy = given.get("content-security-policy", "")
        nonce = csp.nonce(policy)
        if why := csp.forbids(policy, exchange.given["host"], nonce):
            self._tell(f"its Content-Security-Policy forbids it ({why})", path)
            return None
        old = exchange.request.http_version < b"1.1"
        return Rewriting(answer, given, self._channel.tag(nonce), decode, old=old)

    async def _say(self, server: Wire, data: bytes) -> None:
        with contextlib.suppress(OSError):  # what is read of it tells
            await server.write(data)

    def _sent(self, asked: Reading) -> None:
        """All of a request was passed on; that nothing comes after it is, too."""
        self._whole = not asked.waiting
        if self._client.ended:
            self._on_client_end()

    async def _connect(self) -> Wire:
        server = await self._dial()
        server.on_end = self._on_server_end
        return server

    def _on_client_end(self) -> None:
        """Pass it on that the client sends nothing more; a server may stop working for it."""
        server = self._server
        if server is None or self.idle:
            return
        if self._client.lost:
            server.abort()
        elif self._whole and not self._client.waiting:
            server.finish()

    def _on_server_end(self) -> None:
        """A server that goes down need not wait for a client that asks for nothing."""
        if self.idle:
            self._drop_server()

    def _drop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.on_end = None
            server.abort() if self._client.lost else server.close()

    async def _carry(self, early: bytes) -> None:
        """Carry bytes both ways until both sides have ended."""
        self.idle = False
        server = self._server = self._server or await self._connect()
        client = self._client
        client.on_end = server.on_end = None
        await server.write(early)
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(client, server))
            group.create_task(_copy(server, client))


class _Exchange:
    """A request on its way. `closes`: the client's connection ends with the answer."""

    def __init__(
        self, request: h11.Request, given: Fields, head: bytes, page: bool, asked: Reading
    ) -> None:
        self.request = request
        self.given = given
        self.head = head
        self.page = page
        self.asked = asked
        self.closes = False


async def _copy(source: Wire, sink: Wire) -> None:
    """Carry one way; where that breaks, both ways end."""
    try:
        while data := await source.read():
            await sink.write(data)
        sink.finish()
    except OSError:
        source.abort()
        sink.abort()
