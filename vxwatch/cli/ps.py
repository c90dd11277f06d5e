"""`vx ps`: the sessions of the workspace, with their servers and running tasks."""

from typing import Any

from vxwatch.cli.control import Here, described, sessions
from vxwatch.errors import UserError
from vxwatch.output import diagnostics, running, tables


def show_sessions(*, as_json: bool) -> int:
    """Print what runs; what does not answer is told on standard error, and counts as a failure."""
    found: list[dict[str, Any]] = []
    silent: list[UserError] = []
    try:
        doors = sessions(Here.find())
    except UserError as error:
        if not as_json or error.slug != "no-session":
            raise
        doors = []
    for door in doors:
        try:
            found.append(described(door))
        except UserError as error:
            silent.append(error)
    if as_json:
        tables.write_json({"sessions": found})
    for one in () if as_json else found:
        tables.line(running.head(one))
        if rows := running.rows(one):
            tables.columns(rows)
    for one_silent in silent:
        diagnostics.report(one_silent)
    return 1 if silent else 0
