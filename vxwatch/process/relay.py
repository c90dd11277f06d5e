"""What the nursery's helpers bring back from the network of a box."""

import asyncio
import marshal
import os
import socket

from vxwatch.process.link import Link
from vxwatch.process.pipes import resolve


class Channel:
    """A pair whose far end a helper has; closing ours tells it that nobody waits."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)

    def close(self) -> None:
        """Close what is still open of it here."""
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
        packet, numbers, _, _ = socket.recv_fds(self._ours, 64, 8, socket.MSG_CMSG_CLOEXEC)
        brought = [socket.socket(fileno=number) for number in numbers]
        reason = marshal.loads(packet) if packet else None  # noqa: S302  # from our own helper
        if reason is None:
            raise ConnectionAbortedError("the box is gone")
        if reason:
            raise OSError(reason, os.strerror(reason))
        return brought


class Relay:
    """One connection carried into a box by a process of its own.

    `done` is set when that process has ended: by itself, because both directions ended or the
    box did while it was still dialling, or by `end`.
    """

    def __init__(self, link: Link, number: int, channel: Channel) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = link
        self._number = number
        self._channel = channel

    def end(self) -> None:
        """Cut the connection. Returns at once; `done` follows."""
        if not self.done.done():
            self._link.post("end", self._number)

    def on_end(self) -> None:
        """Its process has ended, or there never was one."""
        self._channel.close()
        resolve(self.done)
