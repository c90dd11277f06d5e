"""One end of a connection: what it sends is waited for, what it does not read slows the sender."""

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

from vxwatch.process.pump import RESET_ON_CLOSE

if TYPE_CHECKING:
    from collections.abc import Callable

_HELD = 1 << 18
"""Bytes that were received and not read, from which on nothing more is received."""


class Wire(asyncio.Protocol):
    """`close` or `abort` must be called at last. One coroutine reads at a time, and one writes."""

    def __init__(self) -> None:
        self.ended = False
        """Whether it sends nothing more."""
        self.lost = False
        """Whether it is gone: nothing can be sent to it."""
        self.finished = False
        """Whether it was told that nothing more comes."""
        self.on_end: Callable[[], None] | None = None
        """Called when it ends or is gone."""
        self._transport: asyncio.Transport
        self._received: list[bytes] = []
        self._held = 0
        self._paused = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._error: Exception | None = None

    async def read(self) -> bytes:
        """What came since, at least a byte; b"" at the end. Raises `OSError` after a reset."""
        while not self._received:
            if self._error is not None:
                raise self._error
            if self.ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send, and wait while too much of what was sent is not read. Raises `OSError`."""
        self.send(data)
        if not self._writable.is_set():
            await self._writable.wait()
        if self.lost:
            raise self._error or ConnectionResetError

    def send(self, data: bytes) -> None:
        """Send without waiting; nothing if it is gone."""
        if data and not (self.lost or self._transport.is_closing()):
            self._transport.write(data)

    def finish(self) -> None:
        """Tell it that nothing more comes."""
        if not (self.finished or self.lost or self._transport.is_closing()):
            self.finished = True
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    @property
    def waiting(self) -> int:
        """Bytes received and not read."""
        return self._held

    @property
    def unsent(self) -> int:
        """Bytes that it has yet to read."""
        return 0 if self.lost else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close it when all is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close it at once, so that the other side sees no orderly end."""
        one = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # it is closed
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._transport.abort()

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep it until it is read."""
        self._received.append(data)
        self._held += len(data)
        if self._held > _HELD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._readable.set()

    def eof_received(self) -> bool:
        """Keep it open: who sends nothing more may still read."""
        self._end()
        return True

    def pause_writing(self) -> None:
        """Too much was sent that it has not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has read enough."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone; what had arrived when sending failed is kept, which asyncio would not."""
        if exc is not None and not self.ended:
            number = self._transport.get_extra_info("socket").fileno()
            with contextlib.suppress(OSError):
                while data := os.read(number, _HELD):
                    self._received.append(data)
                    self._held += len(data)
        self.lost = True
        self._error = exc
        self._writable.set()
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._readable.set()
        if self.on_end is not None:
            self.on_end()
