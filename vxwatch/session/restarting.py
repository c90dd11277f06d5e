"""Restarting a server because somebody asks for it, beside whatever cycle runs."""

from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.events import Outcome, TaskEnded

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.servers import Server
    from vxwatch.session.session import Session


def startable(session: "Session", task: "TaskId") -> "Server":
    """The server, if it can be restarted. Raises `UserError` if not."""
    if session.stopping.is_set():
        raise UserError("not-started", f"{task} is not restarted: the session is ending")
    server = session.servers.get(task)
    if server is None:
        raise UserError(
            "not-started",
            f"{task} cannot be restarted: it is not started yet",
            "it starts as soon as what it depends on has succeeded; `vx ps` shows what runs",
        )
    return server


async def restart(session: "Session", server: "Server") -> Outcome:
    """End it and start it again; a failure is told in the session, too, as no cycle knows of it.

    What depends on it is left alone.
    """
    outcome = await server.restart()
    session.memory.record(outcome)
    if outcome.status == "failed":
        session.emit(TaskEnded(outcome))
        if not server.returning:
            session.server_exited.set()
    return outcome
