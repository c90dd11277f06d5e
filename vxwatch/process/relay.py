"""What the nursery's helpers bring back from the network of a box, and carry into it."""

import asyncio
import contextlib
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

    def listen(self, on_packet: Callable[[bytes], None]) -> None:
        """Call back with what the helper sends; b"" when it has ended."""

        def on_readable() -> None:
            packet = b""
            with contextlib.suppress(ConnectionError):  # it ended before it had read all
                packet, _, _ = receive(self._ours)
            on_packet(packet)

        asyncio.get_running_loop().add_reader(self._ours, on_readable)

    def say(self, word: bytes) -> None:
        """Send to the helper; nothing if it is gone."""
        with contextlib.suppress(OSError):
            self._ours.send(word)


class Relay:
    """The process that carries all connections of some ports into a box, or out of it.

    `done` is set when that process has ended: by itself, because its box is gone and all is
    written out, by `end`, or by an accident; also when there never was one.
    """

    def __init__(self, link: Link, number: int, channel: Channel, init: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self.init = init
        self._held: asyncio.Future[None] = loop.create_future()
        self._link = link
        self._number = number
        self._channel = channel
        channel.listen(self._on_packet)

    def hold(self) -> None:
        """Have it accept nobody any more."""
        self._channel.say(b"hold")

    async def settled(self) -> None:
        """Wait, after `hold`, until everybody it has accepted has arrived at the server."""
        await asyncio.wait((self._held, self.done), return_when=asyncio.FIRST_COMPLETED)

    def end(self) -> None:
        """Cut all of its connections. Returns at once; `done` follows."""
        if not self.done.done():
            self._link.post("end", self._number)

    def on_end(self) -> None:
        """Its process has ended, or there never was one."""
        self._channel.close()
        resolve(self.done)

    def _on_packet(self, packet: bytes) -> None:
        if packet:
            resolve(self._held)
        else:
            self._channel.close()
