"""Refuses a run in which two tasks would take the same port of the host."""

from collections.abc import Iterable, Iterator

from vxwatch.config.faults import At, Faults
from vxwatch.config.load import Reader
from vxwatch.errors import ConfigError
from vxwatch.model import Task, TaskId, Workspace
from vxwatch.workspace.manifests import place_in


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
    reader = Reader(workspace.root)
    holders: dict[int, Task] = {}
    for task in map(workspace.task, tasks):
        for port, at in host_ports(task):
            holder = holders.setdefault(port, task)
            if holder is not task:
                _note(reader, workspace, task, at, f"{holder.id} takes port {port} too")
    if reader.problems:
        raise ConfigError(tuple(reader.problems))


def _note(reader: Reader, workspace: Workspace, task: Task, at: At, message: str) -> None:
    """Add a problem with its line; the config was loaded just now, so it is read once more."""
    file = workspace.projects[task.project].config
    document = reader.toml(file, place_in(file)) if file else None
    if document:
        faults = Faults()
        hint = "give one of them another port"
        if "local_binding" in at:
            hint = "give one of them another host port: { port = ..., host = ... }"
        faults.add(("tasks", task.name, *at), message, hint)
        reader.note(document, faults)
