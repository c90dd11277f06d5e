"""Connections of the proxy: looked up, judged, and made to the very address that was judged.

A name is looked up only if the rules grant it, so that no look-up tells anybody anything; of its
addresses only those are dialled that the rules grant as well.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from ipaddress import ip_address

from vxwatch.hosts import Address, Refusal, Rules, canonical

_LOOKUP = 15.0
_CONNECT, _CONNECT_IN_ALL = 3.0, 30.0
"""Seconds for one address where there are more of them, and for all."""


class RefusedError(Exception):
    """The rules do not grant it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.target}, {refusal.why}")


class UnreachableError(Exception):
    """It is granted and cannot be reached; `lookup` tells that it has no address."""

    def __init__(self, message: str, *, lookup: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.lookup = lookup
        self.late = late


class Dialler:
    """Connects to what the rules of one task grant, and tells of what they do not."""

    def __init__(self, rules: Rules, tell: Callable[[Refusal], None]) -> None:
        self._rules = rules
        self._tell = tell
        self._family = socket.AF_UNSPEC  # of which an address has answered

    async def dial(self, host: str, port: int) -> socket.socket:
        """A connection to a canonical host.

        Raises `RefusedError` and `UnreachableError`.
        """
        if refusal := self._rules.refuse(host, port):
            self._refuse(refusal)
        granted: list[Address] = []
        for address in await _addresses(host):
            refusal = self._rules.refuse_address(host, port, address, own=_is_own(address))
            if refusal is None:
                granted.append(address)
        if not granted:
            assert refusal is not None
            self._refuse(refusal)
        granted.sort(key=lambda one: self._family not in {socket.AF_UNSPEC, _family(one)})
        try:
            async with asyncio.timeout(_CONNECT_IN_ALL):
                return await self._first(granted, host, port)
        except TimeoutError:
            raise UnreachableError(f"{host}:{port} does not answer", late=True) from None

    def _refuse(self, refusal: Refusal) -> None:
        self._tell(refusal)
        raise RefusedError(refusal)

    async def _first(self, addresses: list[Address], host: str, port: int) -> socket.socket:
        """A connection to the first of the addresses that takes one."""
        reason = "it has no address"
        for address in addresses:
            limit = None if address is addresses[-1] else _CONNECT
            try:
                async with asyncio.timeout(limit):
                    connection = await _connect(address, port)
            except TimeoutError:
                reason = "it does not answer"
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
            else:
                self._family = _family(address)
                return connection
        raise UnreachableError(f"cannot connect to {host}:{port}: {reason}")


def target(host: str) -> str:
    """The canonical text of a host that a client asks for. Raises `UnreachableError`."""
    if not host.isascii():
        raise UnreachableError(
            f"{host[:100]!r} is not in the form of networks, xn--...", lookup=True
        )
    try:
        return canonical(host)
    except ValueError as error:
        raise UnreachableError(f"{host[:100]!r} is {error}", lookup=True) from None


async def _addresses(host: str) -> list[Address]:
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LOOKUP):
            # As bytes: a text would need a codec, whose module may no longer be readable.
            found = await loop.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise UnreachableError(f"the look-up of {host} takes too long", late=True) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreachableError(f"cannot look up {host}: {reason}", lookup=True) from None
    texts = dict.fromkeys(str(row[4][0]) for row in found)
    return [ip_address(text.partition("%")[0]) for text in texts]


async def _connect(address: Address, port: int) -> socket.socket:
    connection = socket.socket(_family(address))
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004


def _is_own(address: Address) -> bool:
    """Whether this machine has the address: then its packets would come from there, too.

    A datagram socket is connected to ask for that; nothing is sent.
    """
    with socket.socket(_family(address), socket.SOCK_DGRAM) as question:
        try:
            question.connect((str(address), 9))
        except OSError:
            return False
        return bool(ip_address(question.getsockname()[0]) == address)
