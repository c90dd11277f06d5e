"""One process that carries all connections of some ports through the wall of a box.

A forked child of the nursery runs this. It stands in the network that the connections lead to
and holds listeners of the one they come from. Nobody is accepted before the connection to
their server stands, so who is not served yet waits in the kernel's backlog, and a client that was
accepted has reached its server. It ends with the last connection once its box is gone, and at
once when nobody holds the other end of its channel.
"""

import contextlib
import ctypes
import errno
import marshal
import os
import resource
import socket
import time

from vxwatch.process.netns import LOOPBACK
from vxwatch.process.pump import RESET_ON_CLOSE, Pump

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from collections.abc import Sequence

SETTLE = 0.03
"""Seconds that a server gets to go on with a connection it has accepted, before it is stopped."""
REACH = 2.0
"""Seconds that it gets to accept what has reached it, before it is stopped all the same."""
_LOOK = 0.002  # seconds between looks at whether it has
_PATIENCE = 0.04  # seconds until a dial that was neither taken nor refused is made anew
_FIRST_PAUSE, _LONGEST_PAUSE = 0.004, 0.04
_REST = 0.1  # seconds of rest when out of descriptors or memory
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LISTENING = "0A"
_NEVER = float("inf")
_PR_SET_NAME = 15


def carry(
    channel: int,
    box: int | None,
    ports: "Sequence[tuple[int, Sequence[socket.socket]]]",
    *,
    patient: bool,
) -> None:
    """Carry from the listeners to the port of this network that each group of them stands for.

    `box` is a pidfd of its init; without one the end of the channel is the only end. `patient`: a
    server that refuses is dialled until it does not; otherwise its client is reset.
    """
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"vx-carrier")  # for who looks at a list of processes
    _take_all_descriptors()
    pump = Pump()
    doors = [Door(pump, port, listeners, patient=patient) for port, listeners in ports]
    _Carrier(channel, box, pump, doors).run()


class _Carrier:
    """What happens to the doors: `hold` on the channel, and the end of the box."""

    def __init__(self, channel: int, box: int | None, pump: Pump, doors: "list[Door]") -> None:
        self._channel = channel
        self._pump = pump
        self._doors = doors
        self._over = False  # nobody comes any more
        self._ended = False  # nobody waits for us
        self._settling = _NEVER  # when to say at last that all clients have arrived
        pump.watch(channel, self._on_channel)
        if box is not None:
            pump.watch(box, lambda: self._on_box(box))

    def run(self) -> None:
        """Carry until there is nothing left to carry, or nobody who waits for it."""
        while not self._ended and (self._pump.pairs or not self._over):
            now = time.monotonic()
            due = min(door.due for door in self._doors)
            if self._settling != _NEVER:
                due = min(due, now + _LOOK)
            self._pump.turn(-1 if due == _NEVER else max(due - now, 0))
            now = time.monotonic()
            for door in self._doors:
                if door.due <= now:
                    door.go_on()
            if self._settling != _NEVER and self._settled(now):
                self._settling = _NEVER
                os.write(self._channel, marshal.dumps(0))

    def _on_channel(self) -> None:
        if os.read(self._channel, 64):
            self._close()
            self._settling = time.monotonic() + REACH
        else:
            self._ended = True

    def _on_box(self, box: int) -> None:
        self._pump.unwatch(box)
        self._close()
        self._over = True

    def _close(self) -> None:
        for door in self._doors:
            door.close()

    def _settled(self, now: float) -> bool:
        """Whether each client that was accepted has been accepted by its server, too."""
        if now < max(door.last for door in self._doors) + SETTLE:
            return False
        return now > self._settling or not _unaccepted({door.port for door in self._doors})


class Door:
    """The listeners of one port, and the way to the server behind it.

    waiting --a client--> dialling --connected--> its client is accepted: waiting
                             '--refused--> patient: dialling again; else the client is reset
    """

    def __init__(
        self, pump: Pump, port: int, listeners: "Sequence[socket.socket]", *, patient: bool
    ) -> None:
        self.port = port
        self.due = _NEVER  # when to go on without an event
        self.last = 0.0  # when a client was accepted
        self._pump = pump
        self._listeners = listeners
        self._patient = patient
        self._addresses: Sequence[tuple[socket.AddressFamily, str]] = LOOPBACK
        self._pause = _FIRST_PAUSE
        self._dialled: socket.socket | None = None  # by a connect that is under way
        self._dialled_at = 0.0
        self._waiting = False
        for listener in listeners:
            listener.setblocking(False)
        self._wait(True)

    def close(self) -> None:
        """Take no more. Those who wait are refused only when all other copies are closed, too."""
        self._wait(False)
        self.due = _NEVER
        for listener in self._listeners:
            listener.close()
        self._listeners = ()
        self._forget()

    def go_on(self) -> None:
        """Do what is due."""
        self.due = _NEVER
        self._serve()

    def _wait(self, waiting: bool) -> None:
        if waiting != self._waiting:
            self._waiting = waiting
            for listener in self._listeners:
                if waiting:
                    self._pump.watch(listener.fileno(), self._serve)
                else:
                    self._pump.unwatch(listener.fileno())

    def _serve(self) -> None:
        """Serve one client, or begin to and say when to go on."""
        try:
            if server := self._dial():
                self._pause = _FIRST_PAUSE
                self._accept(server)
            elif self._patient or self._dialled is not None:
                self.due = time.monotonic() + self._pause
                self._pause = min(self._pause * 1.25, _LONGEST_PAUSE)
            else:
                self._refuse()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self.due = time.monotonic() + _REST
        self._wait(self.due == _NEVER)

    def _accept(self, server: socket.socket) -> None:
        try:
            client = self._client()
        except OSError:
            server.close()
            raise
        if client is None:
            server.close()  # the client has gone again
        else:
            self.last = time.monotonic()
            self._pump.add(client, server)

    def _refuse(self) -> None:
        """Close a connection so that its client sees a reset, not an empty answer."""
        if client := self._client():
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()

    def _client(self) -> socket.socket | None:
        for listener in self._listeners:
            try:
                return listener.accept()[0]
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                if error.errno == errno.EINVAL:  # it was shut down: for good
                    self.close()
        return None

    def _dial(self) -> socket.socket | None:
        """A connection to the server, if there is one by now."""
        if self._dialled is not None and time.monotonic() < self._dialled_at + _PATIENCE:
            state = _state(self._dialled)
            if state == errno.ENOTCONN:
                return None
            if state == 0:
                dialled, self._dialled = self._dialled, None
                return dialled
        self._forget()
        for family, host in self._addresses:
            if connection := self._connect(family, host):
                self._forget()
                self._addresses = sorted(LOOPBACK, key=lambda one: one[0] != family)
                return connection
        return None

    def _connect(self, family: socket.AddressFamily, host: str) -> socket.socket | None:
        try:
            connection = socket.socket(family)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            return None
        connection.setblocking(False)
        connection.connect_ex((host, self.port))
        state = _state(connection)
        if state == 0:
            return connection
        # On loopback a connection stands at once, unless the server has too many to accept.
        if state == errno.ENOTCONN and self._dialled is None:
            self._dialled, self._dialled_at = connection, time.monotonic()
        else:
            connection.close()
        return None

    def _forget(self) -> None:
        if self._dialled is not None:
            self._dialled.close()
            self._dialled = None


def _state(connection: socket.socket) -> int:
    """0 when it is connected, ENOTCONN while it may yet be, else the error."""
    if code := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return code
    try:
        # Dialling an ephemeral port on which nobody listens can connect a socket to itself.
        itself = connection.getsockname() == connection.getpeername()
    except OSError as error:
        return error.errno or errno.EIO
    return errno.ECONNREFUSED if itself else 0


def _unaccepted(ports: set[int]) -> int:
    """How many connections to these ports of this network wait for their server to accept them."""
    waiting = 0
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{name}", encoding="ascii") as rows:
            for row in rows:
                _, local, _, state, queues, *_ = row.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) in ports:
                    waiting += int(queues.rpartition(":")[2], 16)
    return waiting


def _take_all_descriptors() -> None:
    """Allow as many as the system does: two for each connection are soon more than the usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
