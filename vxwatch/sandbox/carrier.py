"""Ports through the wall of a box: of its servers to the host, and of the host into it.

vx holds the listening sockets; one process for each life of a server accepts and carries all of
its connections, so load on a server is no load on vx. While no server is up nothing is accepted
and clients wait in the kernel's backlog, so a restart loses nobody. Nothing is ever bound to
another address than loopback.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.model import Port
from vxwatch.process.ports import holder
from vxwatch.process.tree import NurseryLostError
from vxwatch.sandbox.listeners import listen

if TYPE_CHECKING:
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.relay import Relay

_Doors = Sequence[tuple[int, Sequence[socket.socket]]]

_AGAIN = 0.1
"""Seconds until there is another relay for one that ended by an accident."""


class Bridge:
    """The host ports of one server; they outlive each of its boxes.

        closed --open--> waiting --attach--> taking --pause, box gone, detach--> waiting
                            '--close--> closed

    `close` must be awaited at the end: it ends every relay of the bridge.
    """

    def __init__(self, nursery: "Nursery", ports: tuple[Port, ...]) -> None:
        self._nursery = nursery
        self._ports = ports
        self._doors: list[tuple[int, list[socket.socket]]] = []
        self._carriage: _Carriage | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    def open(self) -> None:
        """Take the ports on 127.0.0.1, and on ::1 where the host has it.

        Raises `UserError`, and then holds none of them.
        """
        for port in self._ports:
            try:
                self._doors.append((port.inside, self._listen(port.host)))
            except OSError as error:
                self._shut()
                raise _not_taken(port, error) from None

    def attach(self, init: int) -> None:
        """Let clients into the box whose first process this is, once a server listens there."""
        self._carriage = _Carriage(self._nursery, self._doors, init, patient=True)

    async def pause(self) -> None:
        """Take no more; returns when what was taken has had the time to reach the server."""
        if self._carriage is not None:
            self._carriage.hold()
            await self._carriage.relay.settled()

    def detach(self, grace: float) -> Coroutine[None, None, None]:
        """The box is gone: let its connections be written out for `grace` seconds, then cut them.

        From the call on the bridge is free for the next box; what is returned is to be awaited.
        """
        carriage, self._carriage = self._carriage, None
        return self._drain(carriage, grace)

    async def _drain(self, carriage: "_Carriage | None", grace: float) -> None:
        if carriage is None:
            return
        self._drained.clear()
        try:
            carriage.hold()
            await asyncio.wait((carriage.relay.done,), timeout=grace)
        finally:
            self._drained.set()
            await carriage.end()

    async def close(self) -> None:
        """The server is gone for good: refuse clients from now on; a running `detach` ends first."""
        if self._carriage is not None:
            self._carriage.hold()
        self._shut()
        await self._drained.wait()
        if self._carriage is not None:
            await self._carriage.end()

    def _listen(self, port: int) -> list[socket.socket]:
        """Where clients of this host port come from."""
        return listen(port)

    def _shut(self) -> None:
        for _, listeners in self._doors:
            for listener in listeners:
                listener.shutdown(socket.SHUT_RDWR)  # the relay has a copy
                listener.close()
        self._doors.clear()


class Inlets:
    """Ports of the host's loopback, at the same numbers of the loopback inside one box.

    `close` must be awaited at the end.
    """

    def __init__(self, nursery: "Nursery", ports: tuple[int, ...]) -> None:
        self._nursery = nursery
        self._ports = ports
        self._doors: list[tuple[int, list[socket.socket]]] = []
        self._carriage: _Carriage | None = None

    async def open(self, init: int) -> None:
        """Listen in the box whose first process this is. Raises `OSError`."""
        for port in self._ports:
            self._doors.append((port, await self._nursery.listen_in(init, port)))
        self._carriage = _Carriage(self._nursery, self._doors, None, patient=False)

    async def close(self) -> None:
        """The box is gone, and with it all that came from it."""
        for _, listeners in self._doors:
            for listener in listeners:
                listener.close()
        if self._carriage is not None:
            await self._carriage.end()


class _Carriage:
    """The relay of one box, and the next one should it fall. `end` must be awaited."""

    def __init__(
        self, nursery: "Nursery", doors: _Doors, init: int | None, *, patient: bool
    ) -> None:
        self._start = partial(nursery.relay, doors, init, patient=patient)
        self._held = False
        self._timer: asyncio.TimerHandle | None = None
        self.relay: Relay = self._begin()

    def hold(self) -> None:
        """Take no more."""
        self._held = True
        if self._timer is not None:
            self._timer.cancel()
        self.relay.hold()

    async def end(self) -> None:
        """Cut what is left."""
        self.hold()
        self.relay.end()
        await self.relay.done

    def _begin(self) -> "Relay":
        try:
            relay = self._start()
        except OSError as error:
            raise UserError(
                "sandbox-port", f"the ports of the sandbox cannot be carried: {error.strerror}"
            ) from None
        relay.done.add_done_callback(self._on_done)
        return relay

    def _on_done(self, _: object) -> None:
        if not self._held:
            self._timer = asyncio.get_running_loop().call_later(_AGAIN, self._again)

    def _again(self) -> None:
        with contextlib.suppress(NurseryLostError):  # which ends the session
            self.relay = self._begin()


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
