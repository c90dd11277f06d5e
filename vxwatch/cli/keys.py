"""The keys of a watch: what each one does, and what it says about it.

Decides nothing of its own: it hands requests to the watch, to servers and to the session, and
shows what they know. Where vx has no terminal, or is in its background, nothing is read.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.events import Notice, Shown
from vxwatch.process.keyboard import Keyboard
from vxwatch.process.terminal import Modes
from vxwatch.session.restarting import restart, startable

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.board import Board
    from vxwatch.session.servers import Server
    from vxwatch.session.session import Session
    from vxwatch.session.watching import Watch

HELP = (
    "r  run again what is selected",
    "f  the same, without the cache",
    "s  restart a server",
    "l  show what a server printed last",
    "c  clear the screen",
    "?  show the keys",
    "q  quit, as Ctrl-C does",
)
HINT = "keys: r run again, s restart a server, l its log, q quit, ? all of them"
HINT_WITHOUT_SERVERS = "keys: r run again, q quit, ? all of them"

LABELS = "123456789abcdefghijklmnopqrstuvwxyz"
"""By which key a server is chosen where there are several."""

LINES = 100
"""Of a log that are shown."""

Deed = Callable[["TaskId"], None]


@asynccontextmanager
async def listening(session: "Session", board: "Board", watch: "Watch") -> AsyncIterator[None]:
    """Inside the block the keys do what they say; at its end the terminal is as it was."""
    async with asyncio.TaskGroup() as group:
        keys = Keys(session, board, watch, group)
        keyboard = None if session.environ.get("CI") else Keyboard.open(keys.press, keys.listen)
        if keyboard is None:
            yield
            return
        session.foreground.keyboard = keyboard
        board.on_idle = lambda: keys.hint(heard=keyboard.listening)
        try:
            yield
        finally:
            board.on_idle = session.foreground.keyboard = None
            keyboard.close()


class Keys:
    """`press` does what a key says, and returns at once."""

    def __init__(
        self, session: "Session", board: "Board", watch: "Watch", group: asyncio.TaskGroup
    ) -> None:
        self._session = session
        self._board = board
        self._watch = watch
        self._group = group
        self._choice: tuple[Deed, dict[str, TaskId]] | None = None
        self._hinted = False

    def press(self, key: str) -> None:
        """Do it; a key that means nothing does nothing."""
        choice, self._choice = self._choice, None
        if choice is not None:
            deed, tasks = choice
            if key in tasks:
                deed(tasks[key])
                return
        match key:
            case "r" | "f":
                self._run_again(anew=key == "f")
            case "s":
                self._choose("restart", self._restart)
            case "l":
                self._choose("show the log of", self._show_log)
            case "c":
                self._session.emit(Shown(clear=True))
            case "?":
                self._say(*HELP)
            case "q":
                self._session.interrupt(signal.SIGINT)
            case _:
                pass

    def listen(self, terminal: int, before: Modes, ours: Modes) -> None:
        """The terminal has other modes from now on."""
        self._session.nursery.keep_modes(terminal, before, ours)
        if self._board.cycle and self._board.idle:
            self.hint(heard=True)

    def hint(self, *, heard: bool) -> None:
        """Say once that there are keys, if they are heard and nothing runs."""
        if heard and not self._hinted:
            self._hinted = True
            self._say(HINT if self._board.servers else HINT_WITHOUT_SERVERS)

    def _run_again(self, *, anew: bool) -> None:
        if not self._board.idle:
            self._say("runs again after this cycle")
        self._watch.request(anew=anew)

    def _choose(self, what: str, deed: Deed) -> None:
        """Do it to the only server, or to the one whose key is pressed next."""
        tasks = dict(zip(LABELS, self._board.servers, strict=False))
        if not tasks:
            self._say("there is no server")
        elif len(tasks) == 1:
            deed(tasks[LABELS[0]])
        else:
            self._choice = deed, tasks
            self._say(f"{what} which server?", *(f"{key}  {task}" for key, task in tasks.items()))

    def _restart(self, task: "TaskId") -> None:
        try:
            server = startable(self._session, task)
        except UserError as error:
            self._session.emit(Notice(error.message, error.hint))
            return
        self._say(f"restarting {task}")
        self._group.create_task(self._until_restarted(server))

    async def _until_restarted(self, server: "Server") -> None:
        await restart(self._session, server)

    def _show_log(self, task: "TaskId") -> None:
        tail = self._board.servers[task].tail
        at = tail.last(LINES)
        output = tail.read(at, tail.end - at)
        title = f"what {task} printed last:" if output else f"{task} printed nothing yet"
        self._session.emit(Shown((title,), output))

    def _say(self, *lines: str) -> None:
        self._session.emit(Shown(lines))
