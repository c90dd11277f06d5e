"""What a running session answers to other commands of the same user, over its door.

A request is one line of JSON, and each line of the answer is one object:

    {"vx": 1, "verb": "ps"}                             {"session": {...}}
    {"vx": 1, "verb": "logs", "server": "api#dev",      {"output": BASE64} ..., {"lost": BYTES}
     "lines": 100, "follow": true, "directory": ""}     after {"server": "api#dev"}
    {"vx": 1, "verb": "restart", "servers": [...],      {"restarting": [...]}, {"outcome": {...}} ...
     "directory": ""}

or {"error": {"slug", "message", "hint"}}. The end of the connection is the end of the answer.

Who connects can only ask. One that is slow, silent, loud or gone holds up nobody, and costs a
bounded amount of memory: a reader that falls behind loses what the session no longer keeps.
"""

import asyncio
import contextlib
import json
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from vxwatch import __version__
from vxwatch.errors import UserError
from vxwatch.events import Notice
from vxwatch.session import door
from vxwatch.session.choosing import choose
from vxwatch.session.race import race
from vxwatch.session.restarting import restart, startable

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.board import Board
    from vxwatch.session.servers import Server
    from vxwatch.session.session import Session

LONGEST = 1 << 16
"""Bytes of a request."""

MOST = 32
"""Who can be answered at once."""

PATIENCE = 5.0
"""Seconds for a request to arrive, and for a short answer to be taken."""

LAST_WORDS = 0.5
"""Seconds at the session's end for those who read along to get what was said last."""

LOOK = 2.0
"""Seconds between two looks at whether the door is still there."""

_PIECE = 1 << 15

Answer = dict[str, Any]


@asynccontextmanager
async def reachable(session: "Session", board: "Board") -> AsyncIterator[None]:
    """Inside the block the session answers; at its end its door is gone."""
    path, listener = await _open(session)
    if listener is None:
        yield
        return
    control = Control(session, board, listener, path)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(control.serve())
            try:
                yield
            finally:
                await control.last_words()
                serving.cancel()
    finally:
        control.close()
        door.take_away(path)
        await session.nursery.forget(path)


async def _open(session: "Session") -> tuple[str, socket.socket | None]:
    root = session.workspace.root
    door.clear(root, session.environ)
    refusal: OSError | None = None
    for home in door.homes(root, session.environ):
        path = door.path_in(home, root)
        # Registered first: should vx be killed in between, there is nothing to remove.
        await session.nursery.register(path)
        try:
            return path, door.hang(path)
        except OSError as error:
            await session.nursery.forget(path)
            refusal = refusal or error
    why = f": {refusal.strerror}" if refusal else ""
    text = f"vx ps, vx logs and vx restart cannot reach this session{why}"
    session.emit(Notice(text, "make the workspace or /tmp writable, if you need them", "warning"))
    return "", None


class Control:
    """Answers those who come to the listener, whose door is at the path.

    A door that is gone is hung again: `git clean -dx`, for one, takes it away.
    """

    def __init__(
        self, session: "Session", board: "Board", listener: socket.socket, path: str
    ) -> None:
        self._session = session
        self._board = board
        self._listener = listener
        self._path = path
        self._talks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def serve(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                if not await self._somebody_came():
                    self._hang_again()
                    continue
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:  # who came has left
                    continue
                except OSError:  # no descriptor left: whoever came waits
                    await asyncio.sleep(PATIENCE)
                    continue
                connection.setblocking(False)
                if len(self._talks) >= MOST:
                    _send_away(connection)
                    continue
                talk = group.create_task(self._talk(connection))
                self._talks.add(talk)
                talk.add_done_callback(self._talks.discard)

    def close(self) -> None:
        """Let nobody come any more."""
        self._listener.close()

    async def _somebody_came(self) -> bool:
        """Wait for somebody, or until it is time to look at the door."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener, came.set)
        try:
            return await race(came.wait(), within=LOOK) is not None
        finally:
            loop.remove_reader(self._listener)

    def _hang_again(self) -> None:
        if door.is_there(self._path) or not os.path.isdir(self._session.workspace.root):
            return
        door.take_away(self._path)
        with contextlib.suppress(OSError):  # it is tried again
            listener = door.hang(self._path)
            self._listener.close()
            self._listener = listener

    async def last_words(self) -> None:
        """Nothing more will happen: let those who read along have the rest."""
        self._over.set()
        if self._talks:
            await race(asyncio.wait(self._talks), self._session.hurry.wait(), within=LAST_WORDS)

    async def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, TimeoutError):
            if door.peer(connection) != os.geteuid():
                return
            async with asyncio.timeout(PATIENCE):
                request = await _request(connection)
            try:
                await self._answer(connection, request)
            except UserError as error:
                await _say(connection, _refusal(error))

    async def _answer(self, connection: socket.socket, request: Answer) -> None:
        if request.get("vx") != door.VERSION:
            raise UserError(
                "other-version",
                f"the running session is of vx {__version__}, which is asked in another way",
                "start that session anew, or use the vx that it was started with",
            )
        match request:
            case {"verb": "ps"}:
                await _say(connection, {"session": self._all()})
            case {"verb": "logs", "server": str(name), "lines": int(lines), "follow": bool(follow)}:
                server = self._choose(name, request)
                await self._logs(connection, server, lines, follow=follow)
            case {"verb": "restart", "servers": [*names]} if all(isinstance(n, str) for n in names):
                chosen = [self._choose(n, request) for n in names]
                await self._restart(connection, list(dict.fromkeys(chosen)))
            case _:
                raise UserError("other-version", "the running session does not know that request")

    def _choose(self, name: str, request: Answer) -> "TaskId":
        directory = request.get("directory")
        here = directory if isinstance(directory, str) else ""
        return choose(self._session.workspace, self._board.servers, name, here)

    def _all(self) -> Answer:
        board, session = self._board, self._session
        now = board.clock()
        return {
            "pid": os.getpid(),
            "vx": __version__,
            "command": session.masker.text(session.options.command),
            "uptime": now - board.begun,
            "cycle": board.cycle,
            "state": "ending" if session.stopping.is_set() else "idle" if board.idle else "busy",
            "servers": [
                {
                    "task": task,
                    "state": one.state,
                    "pid": session.pids.get(task) if one.up else None,
                    "uptime": now - one.since if one.up else None,
                    "restarts": max(0, one.starts - 1),
                    "code": one.code,
                    "urls": list(one.urls),
                }
                for task, one in board.servers.items()
            ],
            "tasks": [
                {"task": task, "pid": session.pids.get(task), "seconds": now - since}
                for task, since in sorted(board.running.items())
            ],
        }

    async def _logs(
        self, connection: socket.socket, server: str, lines: int, *, follow: bool
    ) -> None:
        tail = self._board.servers[server].tail
        more = asyncio.Event()
        await _say(connection, {"server": server})
        tail.heard.add(more.set)
        try:
            at = max(tail.start, tail.last(lines))
            end = tail.end
            while True:
                more.clear()
                if at < tail.start:
                    await _send(connection, {"lost": tail.start - at})
                    at = tail.start
                piece = tail.read(at, _PIECE if follow else max(0, min(_PIECE, end - at)))
                at += len(piece)
                if piece:
                    await _send(connection, {"output": b64encode(piece).decode()})
                elif not (follow and await self._more(connection, more)):
                    return
        finally:
            tail.heard.discard(more.set)

    async def _more(self, connection: socket.socket, more: asyncio.Event) -> bool:
        """Wait for more; False when nothing more comes, or nobody is there to read it."""
        if self._over.is_set():
            return False
        return await race(_hung_up(connection), more.wait(), self._over.wait()) != 0

    async def _restart(self, connection: socket.socket, servers: list[str]) -> None:
        known = [startable(self._session, task) for task in servers]
        await _say(connection, {"restarting": servers})
        said = asyncio.Lock()

        async def one(server: "Server") -> None:
            task, outcome = server.task.id, await restart(self._session, server)
            standing = self._board.servers.get(task)
            urls = list(standing.urls) if standing else []
            async with said:
                with contextlib.suppress(OSError, TimeoutError):  # it is restarted all the same
                    await _say(connection, {"outcome": outcome._asdict(), "urls": urls})

        async with asyncio.TaskGroup() as group:
            for server in known:
                group.create_task(one(server))


def _refusal(error: UserError) -> Answer:
    return {"error": {"slug": error.slug, "message": error.message, "hint": error.hint}}


def _send_away(connection: socket.socket) -> None:
    busy = UserError(
        "silent-session",
        f"the session of pid {os.getpid()} is asked by {MOST} others already",
        "end a `vx logs -f` that nobody reads",
    )
    with connection, contextlib.suppress(OSError):  # it never waits
        connection.send(_line(_refusal(busy)))


async def _request(connection: socket.socket) -> Answer:
    """Raises OSError for what is no request."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = await loop.sock_recv(connection, LONGEST)
        if not piece or len(data) > LONGEST:
            raise ConnectionError
        data += piece
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ConnectionError from None
    if not isinstance(value, dict):
        raise ConnectionError
    return value


async def _say(connection: socket.socket, answer: Answer) -> None:
    async with asyncio.timeout(PATIENCE):
        await _send(connection, answer)


async def _send(connection: socket.socket, answer: Answer) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, _line(answer))


def _line(answer: Answer) -> bytes:
    return json.dumps(answer).encode() + b"\n"


async def _hung_up(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while await loop.sock_recv(connection, 4096):
            pass
