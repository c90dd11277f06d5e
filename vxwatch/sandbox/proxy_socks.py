"""SOCKS5 as the proxy speaks it (RFC 1928): CONNECT, without authentication."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address

from vxwatch.sandbox.proxy_dial import Dialler, RefusedError, UnreachableError, target
from vxwatch.sandbox.proxy_tunnel import Tunnels

VERSION = b"\x05"
_HANDSHAKE = 30.0
_NO_AUTHENTICATION, _NO_METHOD = 0, 0xFF
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_DONE, _REFUSED, _NO_HOST, _NOT_CONNECTED, _LATE, _NO_COMMAND, _NO_KIND = 0, 2, 4, 5, 6, 7, 8


async def speak_socks(client: socket.socket, dialler: Dialler, tunnels: Tunnels) -> bool:
    """Serve a client that has said the version; whether its socket is now a tunnel's.

    Raises OSError and TimeoutError when the client goes away or says nothing.
    """
    async with asyncio.timeout(_HANDSHAKE):
        methods = await _exactly(client, (await _exactly(client, 1))[0])
        if _NO_AUTHENTICATION not in methods:
            await _say(client, VERSION + bytes((_NO_METHOD,)))
            return False
        await _say(client, VERSION + bytes((_NO_AUTHENTICATION,)))
        version, command, _, kind = await _exactly(client, 4)
        host = await _host(client, kind)
        if host is None or bytes((version,)) != VERSION:
            await _reply(client, _NO_KIND)
            return False
        port = int.from_bytes(await _exactly(client, 2))
        if command != _CONNECT:
            await _reply(client, _NO_COMMAND)
            return False
    try:
        server = await dialler.dial(target(host), port)
    except RefusedError:
        await _reply(client, _REFUSED)
    except UnreachableError as error:
        code = _NO_HOST if error.lookup else _LATE if error.late else _NOT_CONNECTED
        await _reply(client, code)
    else:
        await _tell_and_tunnel(client, server, tunnels)
        return True
    return False


async def _tell_and_tunnel(client: socket.socket, server: socket.socket, tunnels: Tunnels) -> None:
    try:
        await _reply(client, _DONE)
    except BaseException:
        server.close()
        raise
    tunnels.add(client, server)


async def _host(client: socket.socket, kind: int) -> str | None:
    if kind == _IPV4:
        return str(IPv4Address(await _exactly(client, 4)))
    if kind == _IPV6:
        return str(IPv6Address(await _exactly(client, 16)))
    if kind == _NAME:
        name = await _exactly(client, (await _exactly(client, 1))[0])
        return name.decode("utf-8", "replace")
    return None


async def _reply(client: socket.socket, code: int) -> None:
    # The address that was bound is nobody's business.
    await _say(client, VERSION + bytes((code, 0, _IPV4)) + bytes(6))


async def _say(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


async def _exactly(client: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        part = await loop.sock_recv(client, count - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data
