"""Carries bytes between pairs of connected sockets, many pairs in one loop.

    one end --received--> held back for the other --sent--> the other end

What an end sends arrives at the other in order and as it is. An end that stops sending still
receives; what cannot be sent is held back, and nothing more is received for it meanwhile. A pair
ends when both directions have: with a reset where one end was reset and nothing is lost by that.
It never waits, and it interprets nothing.
"""

import contextlib
import errno
import fcntl
import select
import socket
import struct
import termios
from collections import deque

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 1 << 18
"""Bytes received in one go."""
_TURNS = 8
"""Of these in a row for one end, before others have their turn."""
_HINTS = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that makes a close a reset."""
_DELAYS = (errno.EAGAIN, errno.EINTR)
_NOTHING = memoryview(b"")


class _End:
    """One socket of a pair.

    `held` is what it could not be sent yet. `mute`: it sends nothing more; `deaf`: it takes
    nothing more, or was told that nothing more comes. `hinted`: its end may follow what it sent
    without another event. `lost`: what it was still to get is, so it is to see a reset.
    """

    __slots__ = ("deaf", "held", "hinted", "lost", "mute", "peer", "queued", "readable", "socket")

    def __init__(self, one: socket.socket, held: bytes) -> None:
        self.socket = one
        self.peer: _End
        self.held = memoryview(held)
        self.readable = True
        self.hinted = self.mute = self.deaf = self.lost = self.queued = False


class Pump:
    """An epoll loop over pairs, and over other descriptors with a callback each."""

    def __init__(self) -> None:
        self.pairs = 0
        self._epoll = select.epoll()
        self._ends: dict[int, _End] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._more: deque[_End] = deque()
        self._buffer = bytearray(_AT_ONCE)
        self._view = memoryview(self._buffer)

    def add(self, one: socket.socket, other: socket.socket, early: bytes = b"") -> None:
        """Carry between the two, which are the pump's to close from now on.

        `early` was received from the one before.
        """
        ends = _End(one, b""), _End(other, early)
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        self.pairs += 1
        for end in ends:
            end.socket.setblocking(False)
            with contextlib.suppress(OSError):  # it is no TCP socket
                end.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = end.socket.fileno()
            self._ends[number] = end
            self._epoll.register(number, _EDGES)

    def watch(self, number: int, callback: "Callable[[], None]") -> None:
        """Call back, in each turn, while this descriptor can be read or has hung up."""
        self._watched[number] = callback
        self._epoll.register(number, select.EPOLLIN)

    def unwatch(self, number: int) -> None:
        """Take a `watch` back; its descriptor is still open."""
        if self._watched.pop(number, None):
            self._epoll.unregister(number)

    def turn(self, within: float = -1) -> None:
        """Wait for events, `within` seconds at most (-1: any time), and do what they allow."""
        for number, event in self._epoll.poll(0 if self._more else within):
            if end := self._ends.get(number):
                self._on_event(end, event)
            elif callback := self._watched.get(number):
                callback()
        for _ in range(len(self._more)):
            end = self._more.popleft()
            end.queued = False
            if end.socket.fileno() >= 0:
                self._move(end)

    def _on_event(self, end: _End, event: int) -> None:
        if event & (select.EPOLLIN | _HINTS):
            end.readable = True
            end.hinted = end.hinted or bool(event & _HINTS)
            self._move(end)
        if event & (select.EPOLLOUT | _HINTS) and end.held:
            self._move(end.peer)

    def _move(self, source: _End) -> None:
        """Carry from this end to its peer what is there, or a good piece of it."""
        sink = source.peer
        for _ in range(_TURNS):
            if sink.held:
                sink.held = self._send(sink, sink.held)
                if sink.held:
                    return
            if source.mute or sink.deaf or not source.readable:
                self._settle(source)
                return
            if count := self._receive(source):
                # What is held back outlives the buffer.
                sink.held = memoryview(bytes(self._send(sink, self._view[:count])))
        if not source.queued:
            source.queued = True
            self._more.append(source)

    def _receive(self, source: _End) -> int:
        """Fill the buffer; its bytes, or 0 when there are none now or none will come."""
        try:
            count = source.socket.recv_into(self._buffer)
        except OSError as error:
            source.readable = False
            if error.errno not in _DELAYS:
                source.mute = source.deaf = source.peer.lost = True
                source.held = _NOTHING
            return 0
        # Less than there was room for means that all is taken, but for an end that follows it.
        source.readable = count == _AT_ONCE or source.hinted
        source.mute = not count
        return count

    def _send(self, sink: _End, data: memoryview) -> memoryview:
        """Send what there is room for; what is left."""
        try:
            return data[sink.socket.send(data) :]
        except OSError as error:
            if error.errno in _DELAYS:
                return data
            sink.deaf = sink.peer.lost = True
            return _NOTHING

    def _settle(self, source: _End) -> None:
        """Tell the peer of an end that sends nothing more; close the pair when both do not."""
        sink = source.peer
        if source.mute and not sink.deaf:
            sink.deaf = True
            if not sink.lost:  # a reset is no reset after an orderly end
                with contextlib.suppress(OSError):
                    sink.socket.shutdown(socket.SHUT_WR)
        if source.deaf and sink.deaf:
            self.pairs -= 1
            for end in (source, sink):
                end.readable = False
                del self._ends[end.socket.fileno()]
                _close(end)


def _close(end: _End) -> None:
    if end.lost and not _on_the_way(end.socket):
        end.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    end.socket.close()


def _on_the_way(one: socket.socket) -> int:
    """Bytes that were sent and have not arrived; a reset would lose them."""
    answer = fcntl.ioctl(one, termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
