"""Bytes to standard output and standard error, in order, without a wait.

What a pipe takes at once and what goes to a file or to /dev/null is written at once, the rest from
a thread: a terminal that is held with Ctrl-S or a pipe that nobody reads stops that, not the
handling of signals. What is queued is bounded by those who await `drained()` before they produce more; a pipe
that they flood gets more room. A reader that leaves (EPIPE, EIO) ends the writing and nothing
else; any other failure (a full disk) is kept for the exit code.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections import deque
from collections.abc import Awaitable, Generator, Sequence

HIGH_WATER = 1 << 20
"""Bytes queued above which `drained()` waits."""

LOW_WATER = HIGH_WATER // 2
"""Bytes queued below which it returns: with one mark, each write would wake who waits."""

CHUNK = 1 << 18
"""Bytes written at once, if so much is queued."""

PIPE = 1 << 16
"""Bytes that a pipe holds unless somebody chose another size."""

MOST_PARTS = 512
"""Parts written at once: the kernel takes 1024."""

_NULL = os.makedev(1, 3)
"""/dev/null, as Linux numbers it."""

Queue = deque[tuple[int, bytes | Generator[bytes], int]]
"""A descriptor, what to write, and how much of it is in memory."""
Waiters = list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]


class Writer:
    """The queue and the thread that empties it."""

    def __init__(self) -> None:
        self.failure: OSError | None = None
        self._queue: Queue = deque()
        self._held: Queue | None = None
        self._writing = False
        self._size = 0
        self._closed = False
        self._dead: set[int] = set()
        self._grown: set[int] = set()
        self._flags: dict[int, int | None] = {}
        self._change = threading.Condition()
        self._waiters: Waiters = []
        self._idle: Waiters = []
        self._thread = threading.Thread(target=self._run, name="vx-writer", daemon=True)
        self._thread.start()

    def write(self, fd: int, data: bytes) -> None:
        """Queue `data` for the descriptor, as far as it does not take it now; returns at once."""
        with self._change:
            taken = self._write_now(fd, data) if data else 0
        if rest := data[taken:]:
            self._add(fd, rest, len(rest))

    def write_all(self, fd: int, pieces: Generator[bytes], size: int) -> None:
        """Queue pieces that are fetched when their turn has come, of which `size` bytes are in memory.

        They are fetched in the writer's thread, and closed there in any case.
        """
        self._add(fd, pieces, size)

    def drained(self) -> Awaitable[None] | None:
        """What to wait for where `HIGH_WATER` bytes or more wait to be written; else None."""
        if self._size < HIGH_WATER:
            return None
        with self._change:
            return _waiter(self._waiters) if self._size >= HIGH_WATER else None

    def _write_now(self, fd: int, data: bytes) -> int:
        """How much was taken without a wait, if nothing is to be written before it."""
        if self._queue or self._writing or self._held is not None:
            return 0
        if fd not in self._flags:
            self._flags[fd] = _without_a_wait(fd)
        flags = self._flags[fd]
        if flags is None:
            return 0
        self._make_room(fd, len(data))
        try:
            return os.pwritev(fd, (data,), -1, flags)
        except BlockingIOError:
            return 0
        except OSError:  # it cannot do that, there is no reader or no room: the thread finds out
            self._flags[fd] = None
            return 0

    def _make_room(self, fd: int, size: int) -> None:
        if size > PIPE and fd not in self._grown:
            self._grown.add(fd)
            _grow(fd)

    def _add(self, fd: int, source: bytes | Generator[bytes], size: int) -> None:
        with self._change:
            queue = self._queue if self._held is None else self._held
            queue.append((fd, source, size))
            self._size += size
            self._change.notify_all()

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
                self._queue.append((1, first, len(first)))
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
                fd, parts, size = self._take()
                self._writing = True
            if isinstance(parts, list):
                self._put(fd, parts)
            else:
                self._put_all(fd, parts)
            with self._change:
                self._writing = False
                self._size -= size
                if self._size < LOW_WATER:
                    _wake(self._waiters)
                if not self._queue:
                    _wake(self._idle)

    def _take(self) -> tuple[int, list[bytes] | Generator[bytes], int]:
        fd, source, size = self._queue.popleft()
        if not isinstance(source, bytes):
            return fd, source, size
        parts = [source]
        while self._queue and size < CHUNK and len(parts) < MOST_PARTS:
            other, more, more_size = self._queue[0]
            if other != fd or not isinstance(more, bytes):
                break
            self._queue.popleft()
            parts.append(more)
            size += more_size
        return fd, parts, size

    def _put_all(self, fd: int, pieces: Generator[bytes]) -> None:
        try:
            for piece in pieces:
                self._put(fd, [piece])
                if fd in self._dead:
                    break
        except OSError as error:  # of who gives the pieces
            self.failure = self.failure or error
        finally:
            pieces.close()

    def _put(self, fd: int, parts: Sequence[bytes]) -> None:
        views = [memoryview(part) for part in parts]
        self._make_room(fd, sum(map(len, views)))
        while views and fd not in self._dead:
            try:
                written = os.writev(fd, views)
            except BlockingIOError:
                _wait_writable(fd)
            except OSError as error:
                self._dead.add(fd)
                # EBADF: started without that descriptor, so nobody asked for the text.
                if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                    self.failure = self.failure or error
            else:
                _drop(views, written)


def _without_a_wait(fd: int) -> int | None:
    """With what flags a write to this cannot take long; None where it may."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    if stat.S_ISFIFO(status.st_mode):
        return os.RWF_NOWAIT
    null = stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL
    return 0 if null or stat.S_ISREG(status.st_mode) else None


def _grow(fd: int) -> None:
    """Give a pipe more room: each time that it is full costs two changes of processes."""
    # Not a pipe, or its owner's pipes have all the room that they may have.
    with contextlib.suppress(OSError):
        if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) == PIPE:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, CHUNK)


def _drop(views: list[memoryview], size: int) -> None:
    """Take that many bytes off the front."""
    while views and size >= len(views[0]):
        size -= len(views.pop(0))
    if views:
        views[0] = views[0][size:]


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
