"""Ports through the wall of a box: of its servers to the host, and of the host into it.

vx holds the listening sockets and only accepts; each connection is carried by a relay process of
the nursery, so load on a server is no load on vx. While no server is up nothing is accepted and
clients wait in the kernel's backlog, so a restart loses nobody. Nothing is ever bound to another
address than loopback.
"""

import asyncio
import contextlib
import errno
import socket
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.model import Port
from vxwatch.process.ports import holder
from vxwatch.process.tree import NurseryLostError
from vxwatch.sandbox.door import Door, listen, refuse, somebody_listens

if TYPE_CHECKING:
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.relay import Relay

SETTLE = 0.03
"""Seconds that a server gets to accept a connection that has reached it, before it is stopped.

On a busy machine it gets more: twice the time that the connection itself took to get there.
"""
REACH = 2.0
"""Seconds that a connection gets to reach its server before that is stopped all the same."""


class Bridge:
    """The host ports of one server; they outlive each of its boxes.

        closed --open--> waiting --attach--> taking --pause, box gone, detach--> waiting
                            '--close--> closed

    `close` must be awaited at the end: it ends every relay and task of the bridge.
    """

    def __init__(self, nursery: "Nursery", ports: tuple[Port, ...]) -> None:
        self._nursery = nursery
        self._ports = ports
        self._relays = _Relays(nursery)
        self._doors: list[tuple[Port, Door]] = []

    def open(self) -> None:
        """Take the ports on 127.0.0.1, and on ::1 where the host has it.

        Raises `UserError`, and then holds none of them.
        """
        for port in self._ports:
            try:
                self._doors.append((port, Door(listen(port.host))))
            except OSError as error:
                self._shut()
                raise _not_taken(port, error) from None

    def attach(self, init: int) -> None:
        """Let clients into the box whose first process this is, once a server listens there."""
        for port, door in self._doors:
            self._let_in(door, init, port.inside)

    def _let_in(self, door: Door, init: int, port: int) -> None:
        door.open(
            lambda connection: self._relays.carry(connection, init, port),
            lambda: self._nursery.dial(init, port),
        )

    async def pause(self) -> None:
        """Take no more; returns when what was taken has had the time to reach the server."""
        self._hold()
        await self._relays.settle()

    async def detach(self, grace: float) -> None:
        """The box is gone: let its connections be written out for `grace` seconds, then cut them."""
        self._hold()
        await self._relays.drain(grace)

    async def close(self) -> None:
        """The server is gone for good: refuse clients from now on; a running `detach` ends first."""
        doors = [door for _, door in self._doors]
        self._shut()
        for door in doors:
            await door.closed()
        await self._relays.close()

    def _hold(self) -> None:
        for _, door in self._doors:
            door.hold()

    def _shut(self) -> None:
        for _, door in self._doors:
            door.close()
        self._doors.clear()


class Inlets:
    """Ports of the host's loopback, at the same numbers of the loopback inside one box.

    `close` must be awaited at the end.
    """

    def __init__(self, nursery: "Nursery", ports: tuple[int, ...]) -> None:
        self._nursery = nursery
        self._ports = ports
        self._relays = _Relays(nursery)
        self._doors: list[Door] = []

    async def open(self, init: int) -> None:
        """Listen in the box whose first process this is. Raises `OSError`."""
        for port in self._ports:
            door = Door(await self._nursery.listen_in(init, port))
            self._doors.append(door)
            self._let_out(door, port)

    def _let_out(self, door: Door, port: int) -> None:
        def take(connection: socket.socket) -> None:
            if somebody_listens(port):
                self._relays.carry(connection, None, port)
            else:
                refuse(connection)

        door.open(take)

    async def close(self) -> None:
        """The box is gone, and with it all that came from it."""
        for door in self._doors:
            door.close()
        await self._relays.close()


class _Relays:
    """The relays of one bridge, and the tasks that wait for each of them to end."""

    def __init__(self, nursery: "Nursery") -> None:
        self._nursery = nursery
        self._carried: dict[asyncio.Task[None], Relay | None] = {}
        self._settled = 0.0
        self._drained = asyncio.Event()
        self._drained.set()

    def carry(self, connection: socket.socket, init: int | None, port: int) -> None:
        """Have the connection carried to the port of that network (None: the host's)."""
        task = asyncio.get_running_loop().create_task(self._carry(connection, init, port))
        self._carried[task] = None
        task.add_done_callback(self._carried.pop)

    async def _carry(self, connection: socket.socket, init: int | None, port: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        begun = task.get_loop().time()
        # Without a process to carry it, the connection is closed, which is all its client can be told.
        with contextlib.suppress(OSError, NurseryLostError):
            relay = self._carried[task] = await self._nursery.relay(connection, init, port)
            await relay.connected
            now = task.get_loop().time()
            self._settled = max(self._settled, now + SETTLE + 2 * min(now - begun, 0.5))
            await relay.done

    async def settle(self) -> None:
        """Wait until each connection has reached its server, and had time to be accepted."""
        await asyncio.sleep(0)  # what was taken in this very moment has its relay now
        on_the_way = [relay.connected for relay in self._carried.values() if relay is not None]
        if on_the_way:
            await asyncio.wait(on_the_way, timeout=REACH)
            await asyncio.sleep(0)
        await asyncio.sleep(self._settled - asyncio.get_running_loop().time())

    async def drain(self, grace: float) -> None:
        """Wait for the connections of now to end, then cut them; later ones are left alone."""
        tasks = set(self._carried)
        if not tasks:
            return
        self._drained.clear()
        try:
            await asyncio.wait(tasks, timeout=grace)
        finally:
            self._drained.set()
            for task in tasks:
                if relay := self._carried.get(task):
                    relay.end()
        await asyncio.gather(*tasks)

    async def close(self) -> None:
        """End what is left, after the grace of a running `drain`."""
        await self._drained.wait()
        await self.drain(0)


def _not_taken(port: Port, error: OSError) -> UserError:
    if error.errno == errno.EACCES:
        return UserError(
            "port-denied",
            f"port {port.host} of this machine needs root",
            f"choose a higher one: {{ port = {port.inside}, host = {port.host + 8000} }}",
        )
    who = holder(port.host) if error.errno == errno.EADDRINUSE else None
    by = f" by {who[1]} (pid {who[0]})" if who else ""
    what = (
        f"is in use{by}"
        if error.errno == errno.EADDRINUSE
        else f"cannot be taken: {error.strerror}"
    )
    return UserError(
        "port-taken",
        f"port {port.host} of this machine {what}",
        f"end what holds it, or choose another: {{ port = {port.inside}, host = {port.host + 1} }}",
    )
