"""Live persistent tasks: started when a cycle needs them, kept through all cycles.

    down --ensure--> starting --ready--> up --ensure, same fingerprint--> up (kept)
                        |                 |--ensure, moved--> stopping --> starting
                        |                 |--exit by itself--> down (crashed)
                        '--exit, timeout--> down (failed)

A server's host ports belong to the server, not to one life of it: they stay open across a
restart, when connections wait, and are closed when it is gone for good. Nothing here decides
whether a server must restart; that is its fingerprint's business.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vxwatch.durations import format_duration
from vxwatch.errors import UserError
from vxwatch.events import Outcome, ServerExited, ServerReady, TaskOutput, TaskStarted
from vxwatch.process.nursery import OnOutput
from vxwatch.process.ports import holder
from vxwatch.process.tree import LaunchError
from vxwatch.sandbox.carrier import Bridge
from vxwatch.sandbox.listeners import somebody_listens
from vxwatch.session.execute import command_line
from vxwatch.session.race import race
from vxwatch.session.ready import ReadyLine
from vxwatch.session.unit import Unit, stop, unit
from vxwatch.workspace.ports import host_ports

if TYPE_CHECKING:
    from vxwatch.model import Port, Task
    from vxwatch.session.session import Session


@dataclass(slots=True)
class Life:
    """One life of a server, from its launch until its tree is gone.

    `settled` is set when the start succeeded or failed; `asked` when we end it ourselves.
    """

    fingerprint: str
    line: ReadyLine | None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    printed_ready: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = False
    asked: bool = False
    outcome: Outcome | None = None
    unit: Unit | None = None


class Server:
    """One persistent task of the session."""

    def __init__(self, session: "Session", task: "Task") -> None:
        self.task = task
        self.exit_code: int | None = None
        self._session = session
        self._life: Life | None = None
        self._bridge: Bridge | None = None

    @property
    def alive(self) -> bool:
        """Whether it is up and ready."""
        return self._life is not None and self._life.ready and not self._life.gone.is_set()

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint it was started with, None while it is down."""
        return self._life.fingerprint if self._life and self.alive else None

    async def ensure(self, task: "Task", fingerprint: str) -> Outcome:
        """Bring it up under this fingerprint: keep it, restart it or start it."""
        if self.fingerprint == fingerprint:
            self.task = task
            return Outcome(task.id, "kept")
        restarted = self._life is not None
        await self.end(for_good=_bindings(task) != _bindings(self.task))
        self.task = task
        return await self._start(fingerprint, restarted=restarted)

    def replaced(self) -> str | None:
        """A path that its box shows as it was, while there is something else; None if all is well."""
        life = self._life
        return life.unit.replaced() if life and life.unit and self.alive else None

    def distrust(self) -> None:
        """Restart it when it is next wanted, whatever its fingerprint is then."""
        if self._life is not None:
            self._life.fingerprint = ""

    async def end(self, *, for_good: bool) -> None:
        """End its tree; `for_good` closes its host ports too."""
        life = self._life
        if life is not None and not life.gone.is_set():
            life.asked = True
            if self._bridge is not None:
                await self._bridge.pause()
            life.stop.set()
            await life.gone.wait()
        if for_good:
            await self._close_bridge()

    async def gone(self) -> None:
        """Wait until nothing of it lives."""
        if self._life is not None:
            await self._life.gone.wait()

    async def _start(self, fingerprint: str, *, restarted: bool) -> Outcome:
        persistent = self.task.persistent
        assert persistent is not None
        begun = asyncio.get_running_loop().time()
        try:
            self._refuse_a_stranger()
            self._open_bridge()
        except UserError as error:
            return Outcome(self.task.id, "failed", detail=error.message, hint=error.hint)
        pattern = persistent.ready_when
        life = self._life = Life(fingerprint, ReadyLine(pattern) if pattern else None)
        self._session.group.create_task(self._live(life, restarted=restarted))
        try:
            await life.settled.wait()
        except asyncio.CancelledError:
            # Whoever ends the session ends this life too, in its turn.
            life.asked = True
            raise
        assert life.outcome is not None
        if not life.ready:
            await life.gone.wait()
            await self._close_bridge()
        seconds = asyncio.get_running_loop().time() - begun
        return replace(life.outcome, seconds=seconds)

    async def _live(self, life: Life, *, restarted: bool) -> None:
        """Own one life: launch, wait until ready, then until it ends or is to end."""
        session, task = self._session, self.task
        command = command_line(task, session.arguments(task))
        session.emit(TaskStarted(task.id, command))
        try:
            async with unit(session, task, command, self._reader(life), stdin="held") as live:
                life.unit = live
                if self._bridge is not None and live.tree.init is not None:
                    self._bridge.attach(live.tree.init)
                life.outcome = await self._until_ready(life, live)
                if life.ready:
                    session.emit(ServerReady(task.id, self.urls(), restarted))
                    life.settled.set()
                    await race(live.tree.wait(), life.stop.wait())
                end = await stop(session, self.task, live.tree)
                self.exit_code = end.code
        except LaunchError as error:
            life.outcome = Outcome(
                task.id, "failed", error.code, detail=error.message, hint=error.hint
            )
        except UserError as error:
            life.outcome = Outcome(task.id, "failed", detail=error.message, hint=error.hint)
        except Exception as fault:  # noqa: BLE001 - raised when everything has ended in its turn
            life.asked = True
            life.outcome = life.outcome or Outcome(task.id, "failed", detail="internal error")
            session.fail(fault)
        finally:
            await self._gone(life)

    async def _gone(self, life: Life) -> None:
        life.gone.set()
        life.settled.set()
        crashed = life.ready and not life.asked
        if life.ready:
            code = self.exit_code or 0
            self._session.emit(ServerExited(self.task.id, code, life.asked))
            if crashed:
                self._session.server_ended(self.task.id, code)
        if self._bridge is not None:
            # After `gone`: the next life may start while old answers are still written out.
            out = self._bridge.detach(self._session.grace(self.task))
            if crashed:
                await asyncio.gather(race(out, self._session.hurry.wait()), self._close_bridge())
            else:
                await race(out, self._session.hurry.wait())

    async def _until_ready(self, life: Life, live: Unit) -> Outcome:
        persistent = self.task.persistent
        assert persistent is not None
        first = await race(
            self._answers(life, live),
            live.tree.wait(),
            life.stop.wait(),
            within=persistent.ready_timeout,
        )
        if first == 0:
            life.ready = True
            return Outcome(self.task.id, "ready")
        end = await stop(self._session, self.task, live.tree)
        if first is None:
            limit = format_duration(persistent.ready_timeout)
            detail = f"not ready after {limit} (ready_timeout), so it was ended"
            return Outcome(self.task.id, "failed", end.code or 1, detail=detail)
        if life.asked:
            return Outcome(self.task.id, "aborted", end.code)
        return Outcome(self.task.id, "failed", end.code or 1, detail="ended before it was ready")

    async def _answers(self, life: Life, live: Unit) -> None:
        """Return when the server says or shows that it is ready; at once when it need not."""
        persistent = self.task.persistent
        assert persistent is not None
        if life.line is not None:
            await life.printed_ready.wait()
        elif persistent.ready_port is not None:
            try:
                await self._session.nursery.dial(live.tree.init, persistent.ready_port)
            except OSError:
                await life.gone.wait()  # the box has ended, which is told by its exit

    def _reader(self, life: Life) -> OnOutput:
        emit, task = self._session.emit, self.task.id

        def on_output(stream: Literal["stdout", "stderr"], data: bytes) -> Awaitable[None] | None:
            emit(TaskOutput(task, stream, data))
            if life.line is not None and not life.ready and life.line.feed(stream, data):
                life.printed_ready.set()
            return emit.drained()

        return on_output

    def urls(self) -> tuple[str, ...]:
        """Where a browser finds it."""
        return tuple(f"http://localhost:{port}" for port, _ in host_ports(self.task))

    def _refuse_a_stranger(self) -> None:
        """An unconfined server shares our ports: who listens there already would pass for it."""
        assert self.task.persistent is not None
        port = self.task.persistent.ready_port
        if self.task.sandbox is None and port is not None and somebody_listens(port):
            who = holder(port)
            by = f" by {who[1]} (pid {who[0]})" if who else ""
            raise UserError(
                "port-taken",
                f"port {port} is in use{by}",
                "end what holds it, or give the server another port",
            )

    def _open_bridge(self) -> None:
        sandbox = self.task.sandbox
        if self._bridge is None and sandbox is not None and sandbox.local_binding:
            bridge = Bridge(self._session.nursery, sandbox.local_binding)
            bridge.open()
            self._bridge = bridge

    async def _close_bridge(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            await bridge.close()


def _bindings(task: "Task") -> "tuple[Port, ...]":
    return task.sandbox.local_binding if task.sandbox else ()
