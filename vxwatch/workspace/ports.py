"""Refuses a run in which two tasks would take the same port of the host."""

from collections.abc import Iterable, Iterator

from vxwatch.config.faults import At
from vxwatch.errors import ConfigError
from vxwatch.model import Task, TaskId, Workspace


def host_ports(task: Task) -> Iterator[tuple[int, At]]:
    """The ports of the host that a task takes, as far as its config tells, and where it does."""
    if task.sandbox is not None:
        for i, port in enumerate(task.sandbox.local_binding):
            yield port.host, ("sandbox", "allow", "local_binding", i)
    elif task.persistent is not None and task.persistent.ready_port is not None:
        yield task.persistent.ready_port, ("persistent", "ready_port")


def refuse_shared_ports(workspace: Workspace, tasks: Iterable[TaskId]) -> None:
    """`ConfigError` if two of the tasks, which are to run together, take one host port.

    Tasks of one workspace that never run together may share a port.
    """
    faults = []
    holders: dict[int, Task] = {}
    for task in map(workspace.task, tasks):
        for port, at in host_ports(task):
            holder = holders.setdefault(port, task)
            if holder is not task:
                faults.append((task, at, f"{holder.id} takes port {port} too", _hint(at)))
    if faults:
        from vxwatch.workspace.loading import located  # noqa: PLC0415 - only a fault reads configs

        raise ConfigError(located(workspace, faults))


def _hint(at: At) -> str:
    if "local_binding" in at:
        return "give one of them another host port: { port = ..., host = ... }"
    return "give one of them another port"
