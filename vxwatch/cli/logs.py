"""`vx logs`: what a server of a running session printed last, byte for byte, and what it prints next."""

from base64 import b64decode

from vxwatch.cli.control import Here, ask, the_one
from vxwatch.errors import UserError
from vxwatch.output.diagnostics import report, to_descriptor, unwritable


def show_log(server: str, lines: int, pid: int | None, *, follow: bool) -> int:
    """Write the last lines to standard output; with `follow`, all that comes until the session ends."""
    here = Here.find()
    request = {"verb": "logs", "server": server, "lines": lines, "follow": follow}
    session = the_one(here, pid, [server])
    for answer in ask(session, {**request, "directory": here.directory}):
        if answer.get("cut"):
            report(
                UserError("lost-output", "the end is lost: the session ended before it was read")
            )
        if lost := answer.get("lost"):
            text = f"{lost} bytes are lost: they came faster than they were read"
            report(UserError("lost-output", text))
        try:
            to_descriptor(1, b64decode(answer.get("output", "")))
        except BrokenPipeError:  # a reader that has seen enough
            return 0
        except OSError as error:
            raise unwritable(error) from None
    return 0
