"""What a tree writes, read from our own pipes as bytes.

A consumer that has no room gives something to wait for, and nothing is read meanwhile: that is
the back-pressure. A pipe may outlive the leader of its tree, held open by something left behind:
after `leave`, what the leader wrote is still delivered in full, and beyond that only a short drain
is read before the pipe is cut.
"""

import array
import asyncio
import contextlib
import fcntl
import os
import termios
from collections.abc import Awaitable, Callable
from typing import Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], Awaitable[None] | None]
"""Takes what was read; what it returns, if anything, is awaited before more is read."""

SILENCE = 0.25
"""Seconds without a byte after which the pipe of a dead leader is cut."""

DRAIN = 1.0
"""Seconds after which it is cut, however much is still being written."""

_CHUNK = 1 << 16
_FLOOD = 1 << 18
"""Bytes read at once, and room in the pipe, once a whole chunk was waiting: a flood costs less
so, and who prints a line now and then keeps nothing for it."""
_NEVER = float("inf")


class Pump:
    """Carries one pipe to the consumer until its end or the cut. It owns the read end, not blocking.

    `task` is done when everything was delivered; it raises what the consumer raised. One read at
    most is made in a turn of the loop, so that a flood does not keep the loop to itself.
    """

    def __init__(self, number: int, stream: Stream, on_output: OnOutput) -> None:
        self.was_cut = False
        self._number = number
        self._stream: Stream = stream
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Future[None] = self._loop.create_future()
        self._size = _CHUNK
        self._end = _NEVER  # of the drain
        self._owed = 0  # bytes in the pipe when the leader ended
        self._silence: asyncio.TimerHandle | None = None
        self._busy: asyncio.Task[None] | None = None  # the consumer's wait for room
        self._loop.add_reader(number, self._carry)

    def leave(self) -> None:
        """The leader has ended: begin the drain."""
        if self._end == _NEVER and not self.task.done():
            self._end = self._loop.time() + DRAIN
            pending = array.array("i", [0])
            fcntl.ioctl(self._number, termios.FIONREAD, pending)
            self._owed = pending[0]
            if self._busy is None:
                self._await_silence()

    def abandon(self) -> None:
        """Stop delivering, even in the middle of what the consumer is doing."""
        if not self.task.done():
            self.was_cut = True
            if self._busy is None:
                self._finish()
            else:
                self._busy.cancel()

    def _carry(self, *, silent: bool = False) -> None:
        """Read once, and deliver; cut the pipe when the drain is over, or nothing came in it."""
        if self._owed <= 0 and self._loop.time() > self._end:
            return self._cut()
        try:
            data = os.read(self._number, self._size)
        except BlockingIOError:
            return self._cut() if silent else None
        self._owed -= len(data)
        if len(data) == _CHUNK == self._size:
            self._expect_a_flood()
        return self._deliver(data) if data else self._finish()

    def _deliver(self, data: bytes) -> None:
        try:
            room = self._on_output(self._stream, data)
        except Exception as fault:  # noqa: BLE001 - the consumer's, told to who waits
            self._finish(fault)
            return
        if self.task.done():
            return
        if room is not None:
            self._wait_for(room)
        elif self._end != _NEVER:
            self._await_silence()

    def _wait_for(self, room: Awaitable[None]) -> None:
        self._loop.remove_reader(self._number)
        self._end_silence()
        self._busy = self._loop.create_task(_wait(room))
        self._busy.add_done_callback(self._on_room)

    def _on_room(self, busy: "asyncio.Task[None]") -> None:
        self._busy = None
        if busy.cancelled() or busy.exception() is not None:
            self._finish(asyncio.CancelledError() if busy.cancelled() else busy.exception())
            return
        self._loop.add_reader(self._number, self._carry)
        if self._end != _NEVER:
            self._await_silence()

    def _await_silence(self) -> None:
        self._end_silence()
        self._silence = self._loop.call_later(SILENCE, lambda: self._carry(silent=True))

    def _end_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _expect_a_flood(self) -> None:
        self._size = _FLOOD
        # A user who has many large pipes is refused another one.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._number, fcntl.F_SETPIPE_SZ, _FLOOD)

    def _cut(self) -> None:
        self.was_cut = True
        self._finish()

    def _finish(self, fault: BaseException | None = None) -> None:
        self._loop.remove_reader(self._number)
        self._end_silence()
        os.close(self._number)
        if self.task.done():
            return
        if fault is None or self.was_cut:
            self.task.set_result(None)
        elif isinstance(fault, asyncio.CancelledError):
            self.task.cancel()
        else:
            self.task.set_exception(fault)


async def _wait(room: Awaitable[None]) -> None:
    await room


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
