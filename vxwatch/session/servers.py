"""Live persistent tasks: started when a cycle needs them, kept through all cycles.

    down --ensure--> starting --ready--> up --ensure, same fingerprint--> up (kept)
      ^                 |                 |--ensure, moved--> stopping --> starting
      |                 |                 '--exit by itself--.
      |                 '--exit, timeout---------------------+--> pausing --> starting
      '------------------------------------------------------'

`ensure` and `restart` may be called at any time, by several at once: they take their turns, what
was asked for last holds, and all of them hear how that ended. A start that it overtakes is given
up. Between two lives that need nobody's edit there is a pause (`restart = "on-crash"`).

A server's host ports belong to the server, not to one life of it: while a next life is certain
they stay open and connections wait; otherwise clients are refused. Nothing here decides whether a
server must restart; that is its fingerprint's business.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from vxwatch.durations import format_duration
from vxwatch.errors import UserError
from vxwatch.events import Notice, Outcome, ServerExited, ServerReady, TaskEnded
from vxwatch.session.backoff import LONGEST, Backoff
from vxwatch.session.life import Life
from vxwatch.session.ports import HostPorts, urls
from vxwatch.session.race import race

if TYPE_CHECKING:
    from vxwatch.model import Task
    from vxwatch.session.session import Session


@dataclass(frozen=True, slots=True)
class _Wish:
    """What somebody wants a server to be; `anew` numbers those for another process than there is."""

    task: "Task"
    fingerprint: str
    anew: int = 0


class Server:
    """One persistent task of the session."""

    def __init__(self, session: "Session", task: "Task") -> None:
        self.task = task
        self._session = session
        self._turn = asyncio.Lock()
        self._wish: _Wish | None = None
        self._current: _Wish | None = None
        self._granted: _Wish | None = None
        self._outcome = Outcome(task.id, "aborted")
        self._life: Life | None = None
        self._restarts = 0
        self._was_up = False
        self._told_kept = False
        self._ports = HostPorts(session)
        self._backoff = Backoff()
        self._pausing: asyncio.Task[None] | None = None
        self._patience = 0.0

    @property
    def alive(self) -> bool:
        """Whether it is up and ready."""
        return self._life is not None and self._life.up

    @property
    def startable(self) -> bool:
        """Whether it is down, and what touches it may start it."""
        return not self.alive and not (self._was_up and self.restarts == "never")

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint it was started with, None while it is down."""
        return self._life.fingerprint if self._life and self.alive else None

    @property
    def restarts(self) -> str:
        """What starts it again: "never", "on-change" or "on-crash"."""
        assert self.task.persistent is not None
        return self.task.persistent.restart

    @property
    def returning(self) -> bool:
        """Whether it is down, and starts again by itself."""
        return self._pausing is not None

    async def ensure(self, task: "Task", fingerprint: str) -> Outcome:
        """Bring it up under this fingerprint: keep it, restart it or start it."""
        return await self._grant(_Wish(task, fingerprint))

    def give_up(self, fingerprint: str) -> bool:
        """Give up a start that is under way with another fingerprint; whether there is one.

        Who waits for it hears that it was aborted.
        """
        wish = self._wish
        if wish is None or wish is self._granted or wish.fingerprint == fingerprint:
            return False
        self._wish = None
        if self._life is not None and not self._life.settled.is_set():
            self._life.end()
        return True

    async def restart(self) -> Outcome:
        """Start it, after what there is of it has ended, whatever its `restart` says.

        While a cycle runs, what it depends on may be half-way to another state, and back to this
        one before the cycle ends: it fits no fingerprint then, and a cycle that wants it starts it
        once more.
        """
        session, last = self._session, self._current
        task = session.workspace.task(self.task.id)
        self._restarts += 1
        fingerprint = last.fingerprint if last else session.keys.fingerprint(task.id)
        if session.cycling:
            fingerprint = ""
        return await self._grant(_Wish(task, fingerprint, self._restarts))

    def replaced(self) -> str | None:
        """A path that its box shows as it was, while there is something else; None if all is well."""
        return self._life.replaced() if self._life else None

    def distrust(self) -> None:
        """Restart it when it is next wanted, whatever its fingerprint is then."""
        if self._life is not None:
            self._life.fingerprint = ""

    async def end(self, *, for_good: bool = True) -> None:
        """End its tree; `for_good`: until it is wanted again, and close its host ports too."""
        self._stop_pausing()
        if for_good:
            self._wish = None
        life = self._life
        if life is not None and not life.gone.is_set():
            life.asked = True
            await self._ports.pause()
            life.end()
            await life.gone.wait()
        if for_good:
            await self._ports.give_back()

    async def gone(self) -> None:
        """Wait until nothing of it lives."""
        if self._life is not None:
            await self._life.gone.wait()

    async def _grant(self, wish: _Wish) -> Outcome:
        """Make the last wish come true, which is this one or one that overtakes it meanwhile."""
        if self._wish is self._granted or wish != self._wish:
            self._wish = wish
        self._stop_pausing()
        self._backoff.reset()
        life = self._life
        if life is not None and not life.settled.is_set() and not _fits(life, wish):
            life.end()
        async with self._turn:
            while (latest := self._latest()) is not None:
                if self._granted is not latest:
                    self._outcome = await self._meet(latest)
                    self._granted = latest
                if self._latest() is latest:
                    return self._outcome
        return Outcome(wish.task.id, "aborted")

    def _latest(self) -> _Wish | None:
        """What is wished for now; None after the end."""
        return self._wish

    async def _meet(self, wish: _Wish) -> Outcome:
        self._current, life = wish, self._life
        assert wish.task.persistent is not None
        never = wish.task.persistent.restart == "never" and self._was_up and not wish.anew
        if life is not None and not life.over and (_fits(life, wish) or (never and life.up)):
            return await self._keep(life, wish)
        if never:
            detail = 'it ended, and restart = "never"'
            code = life.exit_code if life else None
            return Outcome(wish.task.id, "failed", code, detail=detail)
        self._patience = asyncio.get_running_loop().time() + wish.task.persistent.ready_timeout
        await self.end(for_good=False)
        if self._latest() is not wish:
            return Outcome(wish.task.id, "aborted")
        self.task = wish.task
        return await self._start(wish, alone=False)

    async def _keep(self, life: Life, wish: _Wish) -> Outcome:
        """It is what it is wished to be, or is becoming that, or is to stay what it is."""
        if _fits(life, wish):
            self.task = wish.task
            if life.up:
                return Outcome(wish.task.id, "kept")
            await life.settled.wait()
            return life.outcome
        self.task = self.task._replace(persistent=wish.task.persistent)
        if not self._told_kept:
            self._told_kept = True
            config = self._session.workspace.projects[wish.task.project].config
            self._session.emit(
                Notice(f'{wish.task.id} keeps running as it was (restart = "never" in {config})')
            )
        return Outcome(wish.task.id, "kept")

    async def _start(self, wish: _Wish, *, alone: bool) -> Outcome:
        """Begin a life; `alone`: no cycle is there that tells how it comes up."""
        begun = asyncio.get_running_loop().time()
        try:
            await self._ports.take(wish.task)
        except UserError as error:
            return Outcome(wish.task.id, "failed", detail=error.message, hint=error.hint)
        if self._latest() is not wish:
            if self._latest() is None:
                await self._ports.give_back()
            return Outcome(wish.task.id, "aborted")
        life = self._life = Life(self._session, self.task, wish.fingerprint)
        self._session.group.create_task(self._live(life, alone=alone))
        try:
            await life.settled.wait()
        except asyncio.CancelledError:
            # Whoever ends the session ends this life too, in its turn.
            life.asked = life.asked or self._session.stopping.is_set()
            raise
        seconds = asyncio.get_running_loop().time() - begun
        return life.outcome._replace(seconds=seconds)

    async def _live(self, life: Life, *, alone: bool) -> None:
        """Own one life."""
        try:
            await life.run(self._ports.bridge, partial(self._on_ready, restarted=self._was_up))
        finally:
            await self._gone(life, alone=alone)

    def _on_ready(self, *, restarted: bool) -> None:
        self._was_up = True
        self._session.emit(ServerReady(self.task.id, urls(self.task), restarted))
        self._session.server_ready(self.task.id)

    async def _gone(self, life: Life, *, alone: bool) -> None:
        pause = self._pause_after(life)
        out = self._ports.detach(self._session.grace(self.task))
        if not life.asked and pause is None and self._wish is self._current:
            self._session.reloads.down(self.task.id, _how(life))
            # Nothing is being written out yet, so this does not wait.
            await self._ports.give_back()
        if pause is not None and not life.ready:
            life.outcome = life.outcome._replace(hint=_again(pause))
        life.gone.set()
        life.settled.set()
        self._tell(life, pause, alone=alone)
        if pause is not None:
            self._pausing = self._session.group.create_task(self._come_back(pause))
        if out:
            # After `gone`: the next life may start while old answers are still written out.
            await race(out, self._session.hurry.wait())

    def _pause_after(self, life: Life) -> float | None:
        """Seconds until it starts again by itself, None if it does not."""
        persistent, session = self.task.persistent, self._session
        assert persistent is not None
        if life.asked or not life.began or persistent.restart != "on-crash":
            return None
        if session.stopping.is_set() or not (self._was_up or session.options.verb == "watch"):
            return None
        now = asyncio.get_running_loop().time()
        if life.ready:
            self._patience = now + persistent.ready_timeout
        return self._backoff.ended(now - life.up_since if life.ready else 0.0)

    def _tell(self, life: Life, pause: float | None, *, alone: bool) -> None:
        """Say how it ended, unless a cycle does."""
        session, task = self._session, self.task.id
        code = life.exit_code or life.outcome.code or 0
        if life.ready:
            session.emit(ServerExited(task, code, life.asked, again=pause))
            if not life.asked:
                session.server_ended(task, code, for_good=pause is None)
        elif alone and pause is not None:
            session.emit(ServerExited(task, code, life.asked, life.outcome.detail, pause))
        if pause is not None and self._backoff.begins_to_loop:
            most = format_duration(LONGEST)
            session.emit(
                Notice(
                    f"{task} ends again and again: vx goes on trying, every {most} in the end",
                    "save what mends it, and it starts at once",
                    "warning",
                )
            )

    async def _come_back(self, pause: float) -> None:
        """Start it once more, after the pause; clients wait for that as long as is bearable."""
        wish, session = self._wish, self._session
        if asyncio.get_running_loop().time() + pause > self._patience:
            await self._ports.give_back()
        await asyncio.sleep(pause)
        self._pausing, started = None, time.time_ns()
        async with self._turn:
            if wish is None or self._wish is not wish:
                return
            outcome = await self._start(wish, alone=True)
        session.memory.record(outcome)
        session.caching.ended(outcome, started)
        if outcome.status == "failed" and self._pausing is None:
            session.emit(TaskEnded(outcome))
            session.server_exited.set()

    def _stop_pausing(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None


def _fits(life: Life, wish: _Wish) -> bool:
    return not wish.anew and life.fingerprint == wish.fingerprint


def _again(pause: float) -> str:
    return f"it starts again in {format_duration(pause)}"


def _how(life: Life) -> str:
    return f"ended with exit {life.exit_code}" if life.ready else f"failed: {life.outcome.detail}"
