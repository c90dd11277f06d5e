"""Which server of a running session somebody means. Pure."""

from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.nearest import nearest
from vxwatch.workspace.select import project_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vxwatch.model import TaskId, Workspace


def choose(
    workspace: "Workspace", servers: "Iterable[TaskId]", name: str, directory: str
) -> "TaskId":
    """The server of this name: its id, or its task or project where only one server is that.

    A task's name means first that of the project around the directory, which is relative to the
    root. Raises `UserError` that names the nearest, or those that there are.
    """
    known = sorted(servers)
    if name in known:
        return name
    project = project_at(workspace, directory)
    if project is not None and f"{project.name}#{name}" in known:
        return f"{project.name}#{name}"
    meant = [task for task in known if name in task.rpartition("#")[::2]]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UserError(
            "which-server",
            f"{name} may be {' or '.join(meant)}",
            f"name one of them in full: {meant[0]}",
        )
    raise UserError(
        "unknown-server", f"the running session has no server {name}", _hint(name, known)
    )


def _hint(name: str, known: "list[TaskId]") -> str:
    short = {part: task for task in known for part in task.rpartition("#")[::2]}
    near = nearest(name, [*known, *short])
    if near:
        return f"did you mean {short.get(near, near)}?"
    if not known:
        return "it has no server at all; `vx ps` shows what runs"
    return f"it has {', '.join(known)}"
