"""The host ports of one server, which outlive each of its lives.

They are taken before a life begins and given back when no next one is certain. Those of a server
without a sandbox are its own: all that can be said is whether somebody else holds them.
"""

from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.process.ports import holder
from vxwatch.sandbox.carrier import Bridge
from vxwatch.sandbox.listeners import somebody_listens
from vxwatch.workspace.ports import host_ports

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from vxwatch.model import Port, Task
    from vxwatch.session.session import Session


def urls(task: "Task") -> tuple[str, ...]:
    """Where a browser finds the server."""
    return tuple(f"http://localhost:{port}" for port, _ in host_ports(task))


class HostPorts:
    """`bridge` is what carries them into a box; None while they are not held."""

    def __init__(self, session: "Session") -> None:
        self.bridge: Bridge | None = None
        self._session = session
        self._made_for: tuple[tuple[Port, ...], bool] | None = None

    async def take(self, task: "Task") -> None:
        """Have those that the task names, and only those; waits for nothing if it has them.

        Raises `UserError` where one is taken.
        """
        _refuse_a_stranger(task)
        if self.bridge is not None and self._made_for != _bindings(task):
            await self.give_back()
        if self.bridge is None and task.sandbox is not None and task.sandbox.local_binding:
            self._made_for = _bindings(task)
            self.bridge = await self._bridge(task)

    async def give_back(self) -> None:
        """Refuse clients from now on."""
        bridge, self.bridge = self.bridge, None
        if bridge is not None:
            await bridge.close()

    async def pause(self) -> None:
        """Take no more clients; returns when those that were taken have reached the server."""
        if self.bridge is not None:
            await self.bridge.pause()

    def detach(self, grace: float) -> "Coroutine[None, None, None] | None":
        """The box is gone: what is returned writes out what is left, for so many seconds."""
        return self.bridge.detach(grace) if self.bridge is not None else None

    async def _bridge(self, task: "Task") -> Bridge:
        if _reloads(task) and self._session.options.verb == "watch":
            return await self._session.reloads.bridge(task)
        assert task.sandbox is not None
        bridge = Bridge(self._session.nursery, task.sandbox.local_binding)
        bridge.open()
        return bridge


def _refuse_a_stranger(task: "Task") -> None:
    """An unconfined server shares our ports: who listens there already would pass for it."""
    assert task.persistent is not None
    port = task.persistent.ready_port
    if task.sandbox is None and port is not None and somebody_listens(port):
        who = holder(port)
        by = f" by {who[1]} (pid {who[0]})" if who else ""
        raise UserError(
            "port-taken",
            f"port {port} is in use{by}",
            "end what holds it, or give the server another port",
        )


def _bindings(task: "Task") -> "tuple[tuple[Port, ...], bool]":
    """What its bridge is made for."""
    return task.sandbox.local_binding if task.sandbox else (), _reloads(task)


def _reloads(task: "Task") -> bool:
    return task.persistent is not None and task.persistent.live_reload
