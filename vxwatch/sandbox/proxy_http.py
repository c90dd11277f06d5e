"""HTTP/1.1 as the proxy speaks it: CONNECT, and requests for http: URIs.

Heads and the framing of bodies are read by h11 and written anew, so that a server never reads a
request in another way than it was judged. Each request is judged by itself and gets a connection
of its own. What asks for more than a transfer of one message, an upgrade for instance, goes
through CONNECT.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

import h11

from vxwatch.sandbox.proxy_dial import Dialler, RefusedError, UnreachableError, target
from vxwatch.sandbox.proxy_tunnel import Tunnels

_HEAD = 30.0
"""Seconds for a whole head to arrive."""
_IDLE = 120.0
"""Seconds that a connection may stay without a request."""
_LONGEST_HEAD = 65536
_CHUNK = 65536
_LAST_PORT = 65535
_OF_THE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"trailer")
) | {b"upgrade"}

_Headers = list[tuple[bytes, bytes]]


class _Error(Exception):
    """What the client is told instead of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Peer:
    """One side of a conversation."""

    def __init__(self, one: socket.socket, state: h11.Connection) -> None:
        self.socket = one
        self.state = state

    async def event(self) -> object:
        """The next event. Raises OSError, and `h11.RemoteProtocolError` for what is no HTTP."""
        loop = asyncio.get_running_loop()
        while (event := self.state.next_event()) is h11.NEED_DATA:
            # A socket that is always ready would keep the loop to itself, and a request from
            # being read to its end before its answer has been.
            await asyncio.sleep(0)
            self.state.receive_data(await loop.sock_recv(self.socket, _CHUNK))
        return event

    async def send(self, event: h11.Event) -> None:
        """Send the event."""
        data = self.state.send(event)
        if data:
            await asyncio.get_running_loop().sock_sendall(self.socket, data)


async def speak_http(
    client: socket.socket, first: bytes, dialler: Dialler, tunnels: Tunnels
) -> bool:
    """Serve a client whose first bytes these are; whether its socket is now a tunnel's.

    Raises OSError and TimeoutError when the client goes away or says nothing.
    """
    peer = _Peer(client, h11.Connection(h11.SERVER, max_incomplete_event_size=_LONGEST_HEAD))
    peer.state.receive_data(first)
    limit = _HEAD
    try:
        while True:
            async with asyncio.timeout(limit):
                request = await peer.event()
            if not isinstance(request, h11.Request):
                return False
            if request.method == b"CONNECT":
                await _tunnel(peer, request, dialler, tunnels)
                return True
            await _forward(peer, request, dialler)
            if peer.state.our_state is not h11.DONE or peer.state.their_state is not h11.DONE:
                break
            peer.state.start_next_cycle()
            limit = _IDLE
    except h11.ProtocolError as error:
        await _answer(peer, _Error(error.error_status_hint, str(error)))
    except _Error as error:
        await _answer(peer, error)
    return False


async def _tunnel(peer: _Peer, request: h11.Request, dialler: Dialler, tunnels: Tunnels) -> None:
    host, colon, port = request.target.decode("latin-1").rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port[:6]) <= _LAST_PORT:
        raise _Error(400, "CONNECT names a host and a port")
    server = await _dial(dialler, host, int(port))
    try:
        await peer.send(h11.Response(status_code=200, reason=b"Connection established", headers=[]))
    except BaseException:
        server.close()
        raise
    tunnels.add(peer.socket, server, peer.state.trailing_data[0])


async def _forward(peer: _Peer, request: h11.Request, dialler: Dialler) -> None:
    """Pass one request on, and its answer back."""
    host, port, authority, path = _uri(request.target)
    server = await _dial(dialler, host, port)
    with server:
        origin = _Peer(server, h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD))
        kept = [(name, value) for name, value in _end_to_end(request.headers) if name != b"host"]
        headers = [(b"host", authority), *kept, (b"connection", b"close")]
        try:
            await origin.send(h11.Request(method=request.method, target=path, headers=headers))
            await _exchange(peer, origin)
        except (h11.ProtocolError, OSError) as error:
            if peer.state.their_state is h11.ERROR:
                raise
            raise _Error(502, f"the answer of {host}:{port} is broken: {error}") from None


async def _exchange(peer: _Peer, origin: _Peer) -> None:
    # The answer may come before the request is whole, and then ends it.
    asking = asyncio.get_running_loop().create_task(_ask(peer, origin))
    try:
        await _tell(origin, peer)
        if not asking.done() and peer.state.their_state is h11.DONE:
            await asking
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError, h11.ProtocolError):
            await asking


async def _ask(peer: _Peer, origin: _Peer) -> None:
    """Pass the body of a request on."""
    while True:
        match await peer.event():
            case h11.Data(data=data):
                await origin.send(h11.Data(data=data))
            case h11.EndOfMessage():
                await origin.send(h11.EndOfMessage())
                return
            case _:
                return


async def _tell(origin: _Peer, peer: _Peer) -> None:
    """Pass an answer back."""
    while True:
        match await origin.event():
            case h11.InformationalResponse(status_code=status, headers=headers):
                kept = _end_to_end(headers)
                await peer.send(h11.InformationalResponse(status_code=status, headers=kept))
            case h11.Response(status_code=status, headers=headers, reason=reason):
                kept = _end_to_end(headers)
                await peer.send(h11.Response(status_code=status, headers=kept, reason=reason))
            case h11.Data(data=data):
                await peer.send(h11.Data(data=data))
            case h11.EndOfMessage():
                await peer.send(h11.EndOfMessage())
                return
            case _:
                raise ConnectionResetError("it ended without an answer")


async def _dial(dialler: Dialler, host: str, port: int) -> socket.socket:
    try:
        return await dialler.dial(target(host), port)
    except RefusedError as error:
        raise _Error(403, f"the sandbox of this task refuses {error}") from None
    except UnreachableError as error:
        raise _Error(504 if error.late else 502, str(error)) from None


def _uri(text: bytes) -> tuple[str, int, bytes, bytes]:
    """Host, port, authority and path of an http: URI."""
    try:
        uri = urlsplit(text.decode("ascii"))
        port = uri.port or 80
    except ValueError:
        raise _Error(400, "this is no URI") from None
    if uri.scheme == "https":
        raise _Error(400, "https: goes through CONNECT")
    if uri.scheme != "http" or not uri.hostname or "@" in uri.netloc:
        raise _Error(400, "this is the network proxy of a sandbox: ask it for an http: URI")
    path = text[text.index(b"//") + 2 + len(uri.netloc) :].partition(b"#")[0]
    return uri.hostname, port, uri.netloc.encode(), path if path[:1] == b"/" else b"/" + path


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """The headers that are meant for the other side."""
    all_of_them = list(headers)
    named = b",".join(value for name, value in all_of_them if name == b"connection")
    dropped = _OF_THE_CONNECTION | {word.strip().lower() for word in named.split(b",")}
    if any(name == b"transfer-encoding" for name, _ in all_of_them):
        dropped |= {b"content-length"}  # of the two only one counts
    return [(name, value) for name, value in all_of_them if name not in dropped]


async def _answer(peer: _Peer, error: _Error) -> None:
    if peer.state.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
        return
    body = f"{error}\n".encode("utf-8", "replace")
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    phrase = b"Refused by the sandbox" if error.status == HTTPStatus.FORBIDDEN else b""
    await peer.send(h11.Response(status_code=error.status, headers=headers, reason=phrase))
    with contextlib.suppress(h11.LocalProtocolError):  # the answer to HEAD has no body
        await peer.send(h11.Data(data=body))
