"""Bytes to standard output and standard error, in order, from a thread of their own.

The event loop never waits for a reader: a terminal that is held with Ctrl-S or a pipe that
nobody reads stops this thread, not the handling of signals. What is queued is bounded by
those who await `drained()` before they produce more. A reader that leaves (EPIPE, EIO) ends
the writing and nothing else; any other failure (a full disk) is kept for the exit code.
"""

import asyncio
import errno
import os
import threading
from collections import deque

HIGH_WATER = 1 << 20
"""Bytes queued above which `drained()` waits."""

CHUNK = 1 << 16


Waiters = list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]


class Writer:
    """The queue and the thread that empties it."""

    def __init__(self) -> None:
        self.failure: OSError | None = None
        self._queue: deque[tuple[int, bytes]] = deque()
        self._held: deque[tuple[int, bytes]] | None = None
        self._writing = False
        self._size = 0
        self._closed = False
        self._dead: set[int] = set()
        self._change = threading.Condition()
        self._waiters: Waiters = []
        self._idle: Waiters = []
        self._thread = threading.Thread(target=self._run, name="vx-writer", daemon=True)
        self._thread.start()

    def write(self, fd: int, data: bytes) -> None:
        """Queue `data` for the descriptor; returns at once."""
        if not data:
            return
        with self._change:
            queue = self._queue if self._held is None else self._held
            queue.append((fd, data))
            self._size += len(data)
            self._change.notify_all()

    async def drained(self) -> None:
        """Return when less than `HIGH_WATER` bytes wait to be written."""
        with self._change:
            if self._size < HIGH_WATER:
                return
            waiter = _waiter(self._waiters)
        await waiter

    async def hold(self) -> None:
        """Return when all that is queued is written; what comes now waits for `release`.

        That must be called in any case.
        """
        with self._change:
            self._held = deque()
            if not (self._queue or self._writing):
                return
            waiter = _waiter(self._idle)
        await waiter

    def release(self, first: bytes) -> None:
        """Write `first` to standard output, then what came since `hold`."""
        with self._change:
            held, self._held = self._held or (), None
            if first:
                self._queue.append((1, first))
                self._size += len(first)
            self._queue.extend(held)
            self._change.notify_all()

    def close(self, patience: float | None) -> None:
        """Write what is queued and end the thread; at most `patience` seconds (None: any time)."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._thread.join(patience)

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._queue and not self._closed:
                    self._change.wait()
                if not self._queue:
                    return
                fd, data = self._take()
                self._writing = True
            self._put(fd, data)
            with self._change:
                self._writing = False
                self._size -= len(data)
                if self._size < HIGH_WATER:
                    _wake(self._waiters)
                if not self._queue:
                    _wake(self._idle)

    def _take(self) -> tuple[int, bytes]:
        fd, data = self._queue.popleft()
        parts, size = [data], len(data)
        while self._queue and self._queue[0][0] == fd and size < CHUNK:
            more = self._queue.popleft()[1]
            parts.append(more)
            size += len(more)
        return fd, b"".join(parts)

    def _put(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view and fd not in self._dead:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                _wait_writable(fd)
            except OSError as error:
                self._dead.add(fd)
                # EBADF: started without that descriptor, so nobody asked for the text.
                if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                    self.failure = self.failure or error


def _waiter(waiters: Waiters) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    waiters.append((loop, waiter))
    return waiter


def _wake(waiters: Waiters) -> None:
    for loop, waiter in waiters:
        try:
            loop.call_soon_threadsafe(_resolve, waiter)
        except RuntimeError:  # the loop was closed, so nobody waits any more
            continue
    waiters.clear()


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _wait_writable(fd: int) -> None:
    # Another program may have set O_NONBLOCK on the description we share with it.
    import select  # noqa: PLC0415 - only a shared non-blocking terminal needs it

    select.select([], [fd], [], 1.0)
