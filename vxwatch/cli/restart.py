"""`vx restart`: have a running session start servers anew, and wait until they are ready."""

from vxwatch.cli.control import Here, ask, the_one
from vxwatch.errors import UserError
from vxwatch.events import Outcome
from vxwatch.output import running, tables


def restart_servers(names: tuple[str, ...], pid: int | None) -> int:
    """Print how each restart went; 1 if one of them failed."""
    here = Here.find()
    session = the_one(here, pid, list(names))
    request = {"verb": "restart", "servers": list(names), "directory": here.directory}
    waiting = set(names)
    failed = False
    for answer in ask(session, request):
        waiting = set(answer.get("restarting", waiting))
        if told := answer.get("outcome"):
            outcome = Outcome(**{**told, "findings": tuple(told["findings"])})
            waiting.discard(outcome.task)
            failed = failed or not outcome.ok
            tables.lines(running.restarted(outcome, answer["urls"]))
    if waiting:
        raise UserError(
            "no-session", f"the session ended before {', '.join(sorted(waiting))} was restarted"
        )
    return 1 if failed else 0
