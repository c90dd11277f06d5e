"""What a tree writes, read from our own pipes as bytes.

Awaiting the consumer before more is read is the back-pressure. A pipe may outlive the leader of
its tree, held open by something left behind: after `leave`, what the leader wrote is still
delivered in full, and beyond that only a short drain is read before the pipe is cut.
"""

import array
import asyncio
import fcntl
import os
import termios
from collections.abc import Awaitable, Callable
from typing import Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], Awaitable[None]]

SILENCE = 0.25
"""Seconds without a byte after which the pipe of a dead leader is cut."""

DRAIN = 1.0
"""Seconds after which it is cut, however much is still being written."""

_CHUNK = 65536
_NEVER = float("inf")


class Pump:
    """Carries one pipe to the consumer until its end or the cut. It owns the read end, not blocking.

    `task` is done when everything was delivered; it raises what the consumer raised.
    """

    def __init__(self, number: int, stream: Stream, on_output: OnOutput) -> None:
        self.was_cut = False
        self._number = number
        self._stream: Stream = stream
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] | None = None
        self._open = True
        self._end = _NEVER  # of the drain
        self._owed = 0  # bytes in the pipe when the leader ended
        self.task = self._loop.create_task(self._run())

    def leave(self) -> None:
        """The leader has ended: begin the drain."""
        if self._open and self._end == _NEVER:
            self._end = self._loop.time() + DRAIN
            pending = array.array("i", [0])
            fcntl.ioctl(self._number, termios.FIONREAD, pending)
            self._owed = pending[0]
            self._notify()

    def abandon(self) -> None:
        """Stop delivering, even in the middle of what the consumer is doing."""
        if not self.task.done():
            self.was_cut = True
            self.task.cancel()

    async def _run(self) -> None:
        try:
            while data := await self._next():
                await self._on_output(self._stream, data)
                await asyncio.sleep(0)  # a flood must not keep the loop to itself
        except asyncio.CancelledError:
            if not self.was_cut:
                raise
        finally:
            self._open = False
            os.close(self._number)

    async def _next(self) -> bytes:
        """The next bytes; none at the end or when the pipe is cut."""
        silent = False
        while not (self._owed <= 0 and self._loop.time() > self._end):
            try:
                data = os.read(self._number, _CHUNK)
            except BlockingIOError:
                if silent:
                    break
                silent = not await self._readable()
            else:
                self._owed -= len(data)
                return data
        self.was_cut = True
        return b""

    async def _readable(self) -> bool:
        """Wait for bytes, or for `leave`; False after the silence of a drain."""
        self._wake = self._loop.create_future()
        self._loop.add_reader(self._number, self._notify)
        draining = self._end != _NEVER
        try:
            done, _ = await asyncio.wait((self._wake,), timeout=SILENCE if draining else None)
        finally:
            self._loop.remove_reader(self._number)
            self._wake = None
        return bool(done)

    def _notify(self) -> None:
        if self._wake is not None:
            resolve(self._wake)


class Report:
    """A short message that a child leaves in a pipe, of which this owns the read end."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def read(self, until: bytes = b"") -> bytes:
        """The message: up to the end of the pipe, or to a read that ends with `until`."""
        loop, message = asyncio.get_running_loop(), b""
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._number, resolve, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self._number)
            part = os.read(self._number, _CHUNK)
            message += part
            if not part or (until and message.rstrip().endswith(until)):
                return message

    def close(self) -> None:
        """Give up the read end."""
        os.close(self._number)


def resolve(future: "asyncio.Future[None]") -> None:
    """Set the future, unless it is set or nobody waits for it any more."""
    if not future.done():
        future.set_result(None)
