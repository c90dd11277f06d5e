"""Vx's side of the nursery: launch trees, reach into their boxes, and be sure that all of it ends.

`async with Nursery.open() as nursery:` starts the nursery process; when the block is left,
whatever the way, everything that was launched is dead and reaped and the session's directory is
removed. Should vx be killed, the nursery does that alone. Should the nursery be killed, vx does
it, the block is cancelled, and leaving it raises `NurseryLostError`.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from vxwatch.errors import UserError
from vxwatch.process import ahead, kin
from vxwatch.process.helper import HelperProcess, no_process
from vxwatch.process.launching import (
    INFO_FD,
    STATUS_FD,
    Birth,
    Launch,
    body_of,
    child_pid,
    launch_error,
    refused,
)
from vxwatch.process.leftovers import UNBORN, Identity, identity_of, remove
from vxwatch.process.link import Link
from vxwatch.process.pipes import OnOutput, Pump, Report
from vxwatch.process.relay import Channel, Relay
from vxwatch.process.terminal import Modes, Terminal
from vxwatch.process.tree import NurseryLostError, Tree, finished

__all__ = ["Launch", "Nursery", "OnOutput"]

_END = 2.0  # seconds for the nursery to end, before vx takes over from it
_WRITE_OUT = 60.0  # seconds for a relay to end after the box it leads into


class Nursery:
    """The processes of one session. Enter it once; see the module."""

    def __init__(self, terminal: Terminal | None) -> None:
        self._terminal = terminal
        self.directory = ""
        self._session = os.urandom(8).hex()
        self._count = 0
        self._trees: dict[int, Tree] = {}
        self._relays: dict[int, Relay] = {}
        self._registered: dict[str, Identity | None] = {}
        self._closing = False
        self._lost = False
        self._before: frozenset[int] = frozenset()
        self._helper: HelperProcess
        self._link: Link
        self._body: asyncio.Task[object] | None

    @classmethod
    def open(cls, *, terminal: Terminal | None = None) -> Self:
        """A nursery to enter.

        `terminal` is what trees may borrow, one at a time; the nursery stays in our session then.
        """
        return cls(terminal)

    async def __aenter__(self) -> Self:
        self._body = asyncio.current_task()
        self.directory = os.path.join(_temp_directory(), f"vx-{self._session}")
        self._start()
        # Registered first: should vx be killed in between, there is nothing to remove.
        await self.register(self.directory)
        try:
            os.mkdir(self.directory, 0o700)
        except OSError as error:
            await self._close()
            raise _no_directory(f"{self.directory} cannot be made: {error.strerror}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        closing = asyncio.get_running_loop().create_task(self._close())
        try:
            await finished(closing)
        except asyncio.CancelledError:
            if not self._lost:
                raise
        if self._lost:
            if self._body is not None:
                self._body.uncancel()
            raise NurseryLostError from fault

    def reserve(self, program: bytes) -> None:
        """Somebody is about to launch a box that is supervised by this filter."""
        self._post("reserve", program)

    async def launch(self, launch: Launch, on_output: OnOutput) -> Tree:
        """Start a tree. Its output goes to `on_output`, which is awaited before more is read.

        Raises `LaunchError`. When it raises, also when cancelled, nothing is left of the tree.
        """
        try:
            birth = self._spawn(launch, on_output)
        except OSError as error:
            raise refused("cannot start a process", error.errno or 0) from error
        try:
            await self._born(launch, birth)
        except BaseException:
            await birth.tree.stop(signal.SIGKILL, 0, asyncio.Event())
            raise
        finally:
            if birth.info is not None:
                birth.info.close()
        return birth.tree

    @property
    def pid(self) -> int:
        """The pid of the nursery's process, of which all that was launched descends."""
        return self._helper.pid

    def pause(self) -> None:
        """Stop all trees, but for who left the groups that they began in."""
        self._link.post("pause", 0)

    def resume(self) -> None:
        """Let them go on."""
        self._link.post("resume", 0)

    def keep_modes(self, terminal: int, before: Modes, ours: Modes) -> None:
        """Have the modes of before set again should vx be killed while the terminal has ours."""
        self._post("modes", self._next(), before, ours, descriptors=(terminal,))

    async def register(self, path: str, *, untouched: bool = False) -> None:
        """Have the path removed, with all that is in it, at the end or should vx be killed.

        `untouched`: an empty file or directory that exists; it is removed only if it is then
        still empty and the same.
        """
        await self._register(path, identity_of(path) if untouched else None)

    async def announce(self, path: str) -> None:
        """Say that an empty file or directory is about to be made here, where there is nothing.

        Should vx be killed before it is registered, it is removed if it is empty. `register` it
        when it is made, or `forget` it.
        """
        await self._register(path, UNBORN)

    async def forget(self, path: str) -> None:
        """Take a `register` back."""
        if path in self._registered:
            del self._registered[path]
            self._link.post("forget", os.fsencode(path))

    async def listen_in(self, init: int, port: int) -> list[socket.socket]:
        """Listeners on 127.0.0.1 and, where there is one, ::1 of this init's network.

        Raises OSError, as when the port is taken there or the box is gone.
        """
        return await self._ask("listen", init, port)

    async def dial(self, init: int | None, port: int) -> None:
        """Wait until the port accepts on 127.0.0.1 or ::1 of this init's network (None: the host's).

        Raises OSError when the box ends first.
        """
        await self._ask("dial", init or 0, port)

    def relay(
        self,
        doors: Sequence[tuple[int, Sequence[socket.socket]]],
        init: int | None,
        *,
        patient: bool,
    ) -> Relay:
        """Carry whoever comes to these listeners to the ports of this init's network (None: the host's).

        The relay has copies of the listeners. `patient`: clients wait until their server listens,
        and nobody is accepted before; otherwise they are reset. Raises OSError when the kernel
        refuses to send so many.
        """
        number = self._next()
        channel = Channel()
        ports = tuple((port, len(listeners)) for port, listeners in doors)
        sent = [one.fileno() for _, listeners in doors for one in listeners]
        try:
            theirs = channel.theirs.fileno()
            self._post("relay", number, init or 0, ports, patient, descriptors=(theirs, *sent))
        except BaseException:
            channel.close()
            raise
        channel.theirs.close()
        relay = self._relays[number] = Relay(self._link, number, channel, init)
        return relay

    async def _register(self, path: str, identity: Identity | None) -> None:
        self._registered[path] = identity
        self._link.post("register", os.fsencode(path), identity)
        await self._link.sent()

    async def _born(self, launch: Launch, birth: Birth) -> None:
        if failure := await birth.tree.born:
            raise launch_error(launch, *failure)
        if birth.info is not None:
            birth.tree.name_init(child_pid(await birth.info.read(until=b"}")))

    async def _ask(self, verb: str, init: int, port: int) -> list[socket.socket]:
        with contextlib.closing(Channel()) as channel:
            theirs = channel.theirs.fileno()
            self._post(verb, self._next(), init, port, descriptors=(theirs,))
            return await channel.answer()

    def _spawn(self, launch: Launch, on_output: OnOutput) -> Birth:
        number = self._next()
        mark = f"{self._session}.{number}"
        given = dict(launch.fds)
        read = {}
        inherits = launch.stdin in ("inherited", "terminal")
        if inherits:
            given |= {0: 0, 1: 1, 2: 2}
        piped = (*(() if inherits else (1, 2)), *((INFO_FD, STATUS_FD) if launch.boxed else ()))
        theirs: list[int] = []
        try:
            for target in piped:
                read[target], given[target] = os.pipe()
                os.set_blocking(read[target], False)
                theirs.append(given[target])
            body = os.memfd_create("vx-launch")
            theirs.append(body)
            _write_all(body, body_of(launch, mark, tuple(given), self._terminal))
            log = (launch.supervision.log,) if launch.supervision else ()
            self._post("spawn", number, descriptors=(body, *given.values(), *log))
        except BaseException:
            _close_all(read.values())
            raise
        finally:
            _close_all(theirs)
        pumps = []
        if not inherits:
            pumps = [Pump(read[1], "stdout", on_output), Pump(read[2], "stderr", on_output)]
        tree = Tree(self._link, number, mark, pumps, read.get(STATUS_FD))
        self._trees[number] = tree
        tree.gone.add_done_callback(lambda _: self._forget(number, tree))
        info = Report(read[INFO_FD]) if launch.boxed else None
        return Birth(tree, info)

    def _forget(self, number: int, tree: Tree) -> None:
        """The tree is gone. Who carries into its box may write out what is left, but not forever."""
        del self._trees[number]
        for relay in self._relays.values():
            if relay.init is not None and relay.init == tree.init:
                asyncio.get_running_loop().call_later(_WRITE_OUT, relay.end)

    def _post(self, *message: object, descriptors: Sequence[int] = ()) -> None:
        if self._lost:
            raise NurseryLostError
        self._link.post(*message, descriptors=descriptors)

    def _next(self) -> int:
        self._count += 1
        return self._count

    # The nursery process

    def _start(self) -> None:
        try:
            begun = ahead.begin(own_session=self._terminal is None)
        except OSError as error:
            raise no_process(error) from error
        self._before = begun.before
        with contextlib.ExitStack() as kept:
            kept.enter_context(begun.pair)
            self._helper = HelperProcess(begun.process, self._on_end)
            kept.pop_all()
        self._link = Link(begun.pair, self._hear, self._helper)

    def _hear(self, verb: str, number: int, *rest: object) -> None:
        if relay := self._relays.get(number):
            if verb in ("exit", "failed"):
                del self._relays[number]
                relay.on_end()
        elif tree := self._trees.get(number):
            getattr(tree, f"on_{verb}")(*rest)

    def _on_end(self, code: int) -> None:
        """The nursery process has ended: as it should, or it was killed."""
        if code != 0:
            self._stand_in()
        self._link.drain()
        for tree in list(self._trees.values()):
            tree.on_lost()
        self._end_relays()
        if not self._closing:
            self._lost = True
            if self._body is not None:
                self._body.cancel()

    def _stand_in(self) -> None:
        """Do what the nursery can no longer do."""
        # Its children are ours now, as we are a subreaper above it. Our own helpers (git) share
        # our session; whatever was born in the nursery has left that, unless it was to use our
        # terminal: then all are taken, for the session is lost anyway. Who was our child before
        # is the business of whoever started us.
        session = os.getsid(0) if self._terminal is None else -1
        kin.sweep(
            lambda pid: pid not in self._before and kin.session_of(pid) != session, within=5.0
        )
        # What lies in a registered directory was registered after it.
        for path, untouched in reversed(self._registered.items()):
            remove(path, untouched)

    def _end_relays(self) -> None:
        for relay in self._relays.values():
            relay.on_end()
        self._relays.clear()

    async def _close(self) -> None:
        self._closing = True
        hurry = asyncio.Event()
        stops = [tree.stop(signal.SIGKILL, 0, hurry) for tree in self._trees.values()]
        ends = await asyncio.gather(*stops, return_exceptions=True)
        self._link.close()
        try:
            await self._helper.end(_END)
        finally:
            self._helper.close()
            self._end_relays()
        for end in ends:
            # Should the nursery have been lost meanwhile, all is dead nonetheless.
            if isinstance(end, UserError) and not isinstance(end, NurseryLostError):
                raise end


def _close_all(numbers: Iterable[int]) -> None:
    for number in numbers:
        os.close(number)


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def _temp_directory() -> str:
    """The real path of the first usable temp directory, as the standard library chooses it.

    `tempfile` itself is not imported: it is slow to load and writes a trial file.
    """
    for name in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):  # noqa: S108  # only looked at
        if name and os.path.isdir(name) and os.access(name, os.W_OK | os.X_OK):
            return os.path.realpath(name)
    raise _no_directory("no directory for temporary files can be written")


def _no_directory(message: str) -> UserError:
    hint = "make /tmp writable, or set TMPDIR to a directory that is"
    return UserError("no-temp-directory", message, hint)
