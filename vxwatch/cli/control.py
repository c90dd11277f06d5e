"""Talking to the sessions that run in this workspace, from another terminal. Changes nothing here."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from vxwatch.cli.directory import working_directory
from vxwatch.errors import UserError
from vxwatch.session import door
from vxwatch.workspace.discover import find_root

PATIENCE = 5.0
"""Seconds that a session may take for the first word of an answer."""

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Here:
    """Where vx was called: the workspace's root, and the directory below it ("" for the root)."""

    root: str
    directory: str

    @classmethod
    def find(cls) -> "Here":
        """Raises `UserError` outside of a workspace."""
        directory = working_directory()
        root = find_root(directory)
        below = os.path.relpath(directory, root)
        return cls(root, "" if below == "." else below)


def sessions(here: Here, pid: int | None = None) -> list[door.Door]:
    """The sessions of this user that run here, only the one of the pid if that is given."""
    alive, others = [], []
    for one in door.found(here.root, os.environ):
        if one.user != os.geteuid():
            others.append(one)
        elif _runs(one):
            alive.append(one)
    chosen = [one for one in alive if pid in (None, one.pid)]
    if chosen:
        return sorted(chosen, key=lambda one: one.pid)
    if alive:
        pids = " and ".join(str(one.pid) for one in alive)
        raise UserError(
            "no-session", f"no session of vx with pid {pid} runs here", f"there is {pids}"
        )
    if theirs := [one for one in others if os.path.exists(f"/proc/{one.pid}")]:
        raise _of_another(theirs[0])
    raise UserError(
        "no-session",
        f"no session of vx runs in {here.root}",
        "start one in another terminal: vx watch TASK",
    )


def ask(session: door.Door, request: Answer) -> Iterator[Answer]:
    """What the session answers, one object after the other, as it comes.

    Raises `UserError` for what it refuses, and where it does not answer.
    """
    data = json.dumps({"vx": door.VERSION, **request}).encode() + b"\n"
    try:
        with door.knock(session, PATIENCE) as connection:
            with contextlib.suppress(BrokenPipeError):  # it may have refused to hear anything
                connection.sendall(data)
            yield from _answers(connection)
    except PermissionError:
        raise _of_another(session) from None
    except (TimeoutError, BlockingIOError):
        raise _silent(session) from None
    except OSError:
        raise UserError("no-session", f"the session of pid {session.pid} has ended") from None


def the_one(here: Here, pid: int | None, servers: list[str]) -> door.Door:
    """The session that is meant: the only one, or the only one that knows all of these servers."""
    running = sessions(here, pid)
    if len(running) == 1:
        return running[0]
    knowing = [one for one in running if _knows(one, servers)]
    if len(knowing) == 1:
        return knowing[0]
    pids = " or ".join(f"--session {one.pid}" for one in running)
    raise UserError(
        "which-session", f"{len(running)} sessions of vx run here", f"say which one: {pids}"
    )


def _knows(session: door.Door, names: list[str]) -> bool:
    try:
        tasks = [one["task"] for one in described(session)["servers"]]
    except UserError:
        return True  # it may
    return all(any(n == t or n in t.rpartition("#")[::2] for t in tasks) for n in names)


def described(session: door.Door) -> Answer:
    """What the session tells of itself."""
    answers = ask(session, {"verb": "ps"})
    with contextlib.closing(answers):  # type: ignore[type-var]  # a generator has a close
        for answer in answers:
            told: Answer = answer["session"]
            return told
    raise _silent(session)


def _answers(connection: socket.socket) -> Iterator[Answer]:
    """Raises OSError where there is no answer at all."""
    with connection.makefile("rb") as lines:
        line = b""
        for line in lines:
            connection.settimeout(None)
            if not line.endswith(b"\n"):  # the session ended while it spoke
                yield {"cut": True}
                return
            answer = json.loads(line)
            if error := answer.get("error"):
                said = SimpleNamespace(**error)
                raise UserError(said.slug, said.message, said.hint)
            yield answer
        if not line:
            raise ConnectionError


def _runs(session: door.Door) -> bool:
    try:
        door.knock(session, PATIENCE).close()
    except BlockingIOError:  # so many wait that it seems to be stopped
        return True
    except OSError:
        return False
    return True


def _silent(session: door.Door) -> UserError:
    hint = "it may be busy; `vx ps` asks again"
    if _state(session.pid) in ("T", "t"):
        hint = f"it is stopped: `fg` in its terminal or `kill -CONT {session.pid}` lets it go on"
    return UserError("silent-session", f"the session of pid {session.pid} does not answer", hint)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(") ")[2][:1]
    except OSError:
        return ""


def _of_another(session: door.Door) -> UserError:
    import pwd

    try:
        name = pwd.getpwuid(session.user).pw_name
    except KeyError:
        name = str(session.user)
    return UserError(
        "other-user",
        f"the session of vx that runs here (pid {session.pid}) belongs to {name}",
        "only that user can ask it",
    )
