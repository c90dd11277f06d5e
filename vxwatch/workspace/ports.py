"""Refuses a run in which two tasks would take the same port of the host."""

from collections.abc import Iterable

from vxwatch.config.kinds import Faults
from vxwatch.config.load import Reader
from vxwatch.errors import ConfigError
from vxwatch.model import Task, TaskId, Workspace
from vxwatch.workspace.manifests import place_in


def refuse_shared_ports(workspace: Workspace, tasks: Iterable[TaskId]) -> None:
    """`ConfigError` if two of the tasks, which are to run together, bridge one host port.

    Tasks of one workspace that never run together may share a port.
    """
    reader = Reader(workspace.root)
    holders: dict[int, Task] = {}
    for task in map(workspace.task, tasks):
        for i, port in enumerate(task.sandbox.local_binding if task.sandbox else ()):
            holder = holders.setdefault(port.host, task)
            if holder is not task:
                _note(reader, workspace, task, i, f"{holder.id} bridges port {port.host} too")
    if reader.problems:
        raise ConfigError(tuple(reader.problems))


def _note(reader: Reader, workspace: Workspace, task: Task, index: int, message: str) -> None:
    """Add a problem with its line; the config was loaded just now, so it is read once more."""
    file = workspace.projects[task.project].config
    document = reader.toml(file, place_in(file)) if file else None
    if document:
        faults = Faults()
        at = ("tasks", task.name, "sandbox", "allow", "local_binding", index)
        hint = "give one of them another host port: { port = ..., host = ... }"
        faults.add(at, message, hint)
        reader.note(document, faults)
