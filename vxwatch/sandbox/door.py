"""Listening sockets that are taken from only while somebody is there to serve.

    held --open--> waiting for a client --first client--> asking --it answers--> taking
      ^--------------------------------- hold --------------------------------------'

Held or waiting, clients stay in the kernel's backlog: accepting is the only thing this does.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence

from vxwatch.process.tree import NurseryLostError

LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_BACKLOG = 1024
_AT_ONCE = 64
"""Connections taken before other work of the loop has its turn."""
_REST = 0.1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_NO_SUCH_ADDRESS = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Take = Callable[[socket.socket], None]


def listen(port: int) -> list[socket.socket]:
    """Listeners on 127.0.0.1 and ::1, on the first alone where there is no ::1.

    Raises `OSError`, and then holds none.
    """
    listeners: list[socket.socket] = []
    for family, host in LOOPBACK:
        try:
            listeners.append(socket.create_server((host, port), family=family, backlog=_BACKLOG))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno in _NO_SUCH_ADDRESS:
                continue
            for listener in listeners:
                listener.close()
            raise
    return listeners


def somebody_listens(port: int) -> bool:
    """Whether a client of this port of the host's loopback would be heard.

    Asked by binding the port, which fails on a listener alone: a connection would reach it.
    """
    for family, host in LOOPBACK:
        try:
            with socket.socket(family) as question:
                question.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                question.bind((host, port))
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                return True
    return False


def refuse(connection: socket.socket) -> None:
    """Close the connection so that its client sees a reset, not an empty answer."""
    with connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


class Door:
    """The listeners of one port. `close`, then await `closed`, when it is no longer needed."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._listeners = listeners
        self._take: Take = refuse
        self._asking: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        for listener in listeners:
            listener.setblocking(False)

    def open(self, take: Take, answers: Callable[[], Awaitable[None]] | None = None) -> None:
        """Give each connection to `take`; with `answers`, only once that has returned.

        It is called when the first client is there. If it raises `OSError`, nothing is taken.
        """
        self.hold()
        self._take = take
        if answers is None:
            self._watch(self._accept)
        else:
            self._watch(lambda _: self._ask(answers))

    def hold(self) -> None:
        """Take no more connections."""
        self._watch(None)
        for task in self._asking:
            task.cancel()
        if self._resting is not None:
            self._resting.cancel()

    def close(self) -> None:
        """Stop listening: clients that wait are refused."""
        self.hold()
        for listener in self._listeners:
            listener.close()

    async def closed(self) -> None:
        """Wait until nothing of it runs."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _watch(self, callback: Take | None) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            if callback is not None:
                loop.add_reader(listener, callback, listener)
            elif listener.fileno() >= 0:
                loop.remove_reader(listener)

    def _ask(self, answers: Callable[[], Awaitable[None]]) -> None:
        self._watch(None)
        task = asyncio.get_running_loop().create_task(self._answered(answers))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answered(self, answers: Callable[[], Awaitable[None]]) -> None:
        # Whoever would serve is gone, or we are about to be; the clients wait.
        with contextlib.suppress(OSError, NurseryLostError):
            await answers()
            self._watch(self._accept)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listener.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest()
                return
            self._take(connection)

    def _rest(self) -> None:
        """Out of descriptors or memory: clients wait until connections have ended."""
        self._watch(None)
        self._resting = asyncio.get_running_loop().call_later(_REST, self._watch, self._accept)
