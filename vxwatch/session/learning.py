"""`vx run --learn`: a task runs with the workspace open to it, and what it needs is found out.

It reads the whole workspace and writes in its project, as it would without a sandbox; nothing
else of the machine is any more open to it than its config says, and its proxy names the hosts that
it then is refused.
"""

import os
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.hosts import NO_HOST
from vxwatch.model import Sandbox

if TYPE_CHECKING:
    from vxwatch.model import Task, Workspace
    from vxwatch.session.planning import Plan
    from vxwatch.session.session import Session


def check(plan: "Plan") -> None:
    """Refuse what cannot be learned. Raises `UserError`."""
    hint = "name one task that has a command and ends by itself"
    if len(plan.requested) != 1:
        raise UserError("learn", "--learn takes one task at a time", hint)
    task = plan.workspace.task(plan.requested[0])
    if task.command is None or task.persistent is not None or task.interactive:
        kind = (
            "group"
            if task.command is None
            else "interactive task"
            if task.interactive
            else "server"
        )
        raise UserError("learn", f"{task.id} is {_a(kind)}: what it needs cannot be learned", hint)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] == "i" else f"a {noun}"


async def learning(session: "Session", task: "Task") -> "Task":
    """The task as it is run to be learned from. Raises `UserError` where nothing can be learned."""
    await session.sandbox.learn(task)
    return opened(session.workspace, task)


def opened(workspace: "Workspace", task: "Task") -> "Task":
    """The task with the workspace open for reading and its project for writing."""
    own = workspace.projects[task.project].dir
    places = [project.dir for project in workspace.projects.values() if project.dir != own]
    sandbox = task.sandbox or Sandbox()
    reads = dict.fromkeys(os.path.join(workspace.root, place) for place in ("", *places))
    sandbox = sandbox._replace(
        read=(*sandbox.read, *reads),
        write=(*sandbox.write, "."),
        network=sandbox.network or (NO_HOST,),
    )
    return task._replace(sandbox=sandbox)
