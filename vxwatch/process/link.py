"""Vx's end of the pair that joins it with the nursery.

Nothing here blocks: what the kernel has no room for waits, with copies of its descriptors, and
goes out in order when there is room.
"""

import asyncio
import contextlib
import marshal
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vxwatch.process.helper import HelperProcess


class Link:
    """Sends requests to the nursery and hands its messages on. `close` must be called."""

    def __init__(
        self, pair: socket.socket, on_message: Callable[..., None], helper: "HelperProcess"
    ) -> None:
        self.helper = helper
        self._pair = pair
        self._on_message = on_message
        self._waiting: deque[tuple[object, bytes, tuple[int, ...]]] = deque()
        self._clear_ways: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        pair.setblocking(False)
        self._loop.add_reader(pair, self._receive)

    def post(self, *message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a request and copies of the descriptors; the caller's own may be closed at once.

        Raises OSError when the kernel refuses the descriptors. After the end of the nursery it
        does nothing: whoever waits for an answer hears of that end.
        """
        packet = marshal.dumps(message)  # type: ignore[arg-type]
        if self._waiting or not self._send(packet, descriptors):
            copies = _copies(descriptors)
            if not self._waiting:
                self._loop.add_writer(self._pair, self._flush)
            self._waiting.append((message[1], packet, copies))

    async def sent(self) -> None:
        """Wait until what was posted is on its way: our death does not take that back."""
        if self._waiting:
            way: asyncio.Future[None] = self._loop.create_future()
            self._clear_ways.append(way)
            await way

    def close(self) -> None:
        """End the pair; the nursery kills all and ends."""
        self._loop.remove_reader(self._pair)
        self._loop.remove_writer(self._pair)
        self._pair.close()
        for _, _, copies in self._waiting:
            _close_all(copies)
        self._waiting.clear()
        self._clear_the_ways()

    def drain(self) -> None:
        """Hand on what has arrived, whether or not the loop came to it."""
        while self._pair.fileno() >= 0 and self._receive():
            pass

    def _send(self, packet: bytes, descriptors: Sequence[int]) -> bool:
        try:
            socket.send_fds(self._pair, [packet], descriptors)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            pass
        return True

    def _flush(self) -> None:
        while self._waiting:
            number, packet, copies = self._waiting[0]
            try:
                if not self._send(packet, copies):
                    return
            except OSError as error:  # as the nursery would tell it, had it got that far
                self._on_message("failed", number, "start", error.errno)
            self._waiting.popleft()
            _close_all(copies)
        self._loop.remove_writer(self._pair)
        self._clear_the_ways()

    def _clear_the_ways(self) -> None:
        for way in self._clear_ways:
            if not way.done():
                way.set_result(None)
        self._clear_ways.clear()

    def _receive(self) -> bool:
        try:
            packet = self._pair.recv(65536)
        except (BlockingIOError, ConnectionResetError):
            return False
        if not packet:
            self._loop.remove_reader(self._pair)
            return False
        self._on_message(*marshal.loads(packet))  # noqa: S302  # from our own nursery
        return True


def _copies(numbers: Sequence[int]) -> tuple[int, ...]:
    copies: list[int] = []
    try:
        for number in numbers:
            copies.append(os.dup(number))  # noqa: PERF401  # what was copied before a failure must be closed
    except OSError:
        _close_all(copies)
        raise
    return tuple(copies)


def _close_all(numbers: Sequence[int]) -> None:
    for number in numbers:
        with contextlib.suppress(OSError):
            os.close(number)
