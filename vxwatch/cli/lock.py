"""`vx lock`: write down what the programs among the configs evaluate to."""

from vxwatch.cli.directory import working_directory
from vxwatch.errors import UserError
from vxwatch.output import tables
from vxwatch.workspace.discover import find_root
from vxwatch.workspace.lock import lock
from vxwatch.workspace.manifests import LOCK


def write_lock() -> int:
    """Write `vx.lock`, or remove it where there is nothing to lock, and say so."""
    root = find_root(working_directory())
    try:
        count, changed = lock(root)
    except OSError as error:
        message = f"{root}/{LOCK} cannot be written: {error.strerror}"
        raise UserError("lock", message, "let vx write in the root of the workspace") from None
    if not count:
        gone = f", and {LOCK} is gone" if changed else ""
        tables.line(f"nothing to lock: no config is a program{gone}")
    else:
        what = "program" if count == 1 else "programs"
        tables.line(f"{LOCK}: {count} {what}" + ("" if changed else ", as before"))
    return 0
