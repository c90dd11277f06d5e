"""What a box gets of the host's network: ports of its loopback, and granted hosts by a proxy.

Its command waits at a gate until all of that is there.
"""

import os
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.sandbox.carrier import Inlets
from vxwatch.sandbox.proxy_env import proxy_environment, proxy_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vxwatch.hosts import Refusal
    from vxwatch.model import Task
    from vxwatch.process.nursery import Nursery
    from vxwatch.sandbox.proxy import Proxy, Tell
    from vxwatch.sandbox.trace import Report


class Entrance:
    """The ways out of one box. `close` must be awaited when the box is gone, or never was.

    `waits` is the descriptor from which the box is to read a byte before its command starts.
    """

    def __init__(self, nursery: "Nursery", task: "Task", tell: "Tell | None") -> None:
        assert task.sandbox is not None
        self.waits, self._gate = os.pipe()
        self._task = task
        self._inlets = Inlets(nursery, task.sandbox.host_ports)
        self._proxy = _proxy(nursery, task, tell)

    async def begin(self) -> None:
        """Start what takes its time. Raises `UserError`."""
        if self._proxy is not None:
            await self._proxy.begin()

    def variables(self, environment: "Mapping[str, str]") -> dict[str, str]:
        """What to set beside this environment of the task's command."""
        if self._proxy is None:
            return {}
        return proxy_environment(self._proxy.port, environment, dict(self._task.env_set))

    def let_go(self) -> None:
        """The box has its own copy of `waits`."""
        os.close(self.waits)

    async def open(self, init: int) -> None:
        """Make all ways in the box whose first process this is, and let its command start.

        Raises `UserError`.
        """
        try:
            await self._inlets.open(init)
            if self._proxy is not None:
                await self._proxy.open(init)
            os.write(self._gate, b".")
        except (ConnectionAbortedError, BrokenPipeError):
            return  # the box has ended before its command began; the tree tells how
        except OSError as error:
            raise UserError(
                "sandbox-port",
                f"the network of the sandbox cannot be opened: {error.strerror}",
            ) from None

    async def finish(self) -> "tuple[Refusal, ...]":
        """The connections that the command, which has ended, was refused.

        Raises `UserError` when the proxy had ended before it.
        """
        return () if self._proxy is None else await self._proxy.finish()

    def complete(self, report: "Report", refused: "tuple[Refusal, ...]") -> "Report":
        """The report with these refusals; what was learned has them already."""
        if report.learned or not refused:
            return report
        from vxwatch.sandbox.proxy import with_refusals  # noqa: PLC0415 - loaded by now

        return with_refusals(report, refused, self._task)

    async def close(self) -> None:
        """Close all ways."""
        os.close(self._gate)
        if self._proxy is not None:
            await self._proxy.close()
        await self._inlets.close()


def entrance(nursery: "Nursery", task: "Task", tell: "Tell | None") -> Entrance | None:
    """The ways out of a task's box, if it is granted any; `tell` hears of what is refused."""
    assert task.sandbox is not None
    needed = task.sandbox.host_ports or task.sandbox.network
    return Entrance(nursery, task, tell) if needed else None


def _proxy(nursery: "Nursery", task: "Task", tell: "Tell | None") -> "Proxy | None":
    assert task.sandbox is not None
    if not task.sandbox.network:
        return None
    from vxwatch.sandbox.proxy import Proxy  # noqa: PLC0415 - tasks without one do not wait for it

    return Proxy(nursery, task.sandbox, _free(task), tell)


def _free(task: "Task") -> int:
    """A port for the proxy that the task does not need itself."""
    assert task.sandbox is not None
    own = {port.inside for port in task.sandbox.local_binding}
    if task.persistent is not None and task.persistent.ready_port is not None:
        own.add(task.persistent.ready_port)
    return proxy_port(frozenset(own.union(task.sandbox.host_ports)))
