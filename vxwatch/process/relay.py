"""What the nursery's helpers bring back from the network of a box."""

import asyncio
import marshal
import os
import socket
from collections.abc import Callable

from vxwatch.process.link import Link
from vxwatch.process.packets import receive
from vxwatch.process.pipes import resolve


class Channel:
    """A pair whose far end a helper has; closing ours tells it that nobody waits."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)

    def close(self) -> None:
        """Close what is still open of it here."""
        if self._ours.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()
        self.theirs.close()

    async def answer(self) -> list[socket.socket]:
        """Wait for the helper; what it sent along. Raises OSError when it failed or was ended."""
        self.theirs.close()
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._ours, resolve, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._ours)
        packet, numbers, _ = receive(self._ours)
        brought = [socket.socket(fileno=number) for number in numbers]
        reason = marshal.loads(packet) if packet else None  # noqa: S302  # from our own helper
        if reason is None:
            raise ConnectionAbortedError("the box is gone")
        if reason:
            raise OSError(reason, os.strerror(reason))
        return brought

    def let_go(self, told: Callable[[], None]) -> None:
        """Call back when the helper's end is closed: it has failed, or become another program."""
        asyncio.get_running_loop().add_reader(self._ours, told)


class Relay:
    """One connection carried into a box by a process of its own.

    `done` is set when that process has ended: by itself, because both directions ended or the
    box did while it was still dialling, or by `end`. `connected` is set when the connection has
    reached a listener there, at the latest with `done`.
    """

    def __init__(self, link: Link, number: int, channel: Channel, init: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.connected: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.init = init
        channel.let_go(self._on_connected)
        self._link = link
        self._number = number
        self._channel = channel

    def end(self) -> None:
        """Cut the connection. Returns at once; `done` follows."""
        if not self.done.done():
            self._link.post("end", self._number)

    def on_end(self) -> None:
        """Its process has ended, or there never was one."""
        self._on_connected()
        resolve(self.done)

    def _on_connected(self) -> None:
        self._channel.close()
        resolve(self.connected)
