"""One life of a server, from its launch until its tree is gone.

    launching --> starting --ready--> up --asked to end, or by itself--> gone
                     '--exit, timeout, asked to end--> gone

It starts nothing after itself and knows nothing of lives before: what a server does when a life
of it ends is the server's business.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal

from vxwatch.durations import format_duration
from vxwatch.errors import UserError
from vxwatch.events import Outcome, TaskOutput, TaskStarted
from vxwatch.process.nursery import OnOutput
from vxwatch.process.tree import LaunchError, NurseryLostError
from vxwatch.session.execute import command_line
from vxwatch.session.race import race
from vxwatch.session.ready import ReadyLine
from vxwatch.session.unit import Unit, stop, unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from vxwatch.model import Task
    from vxwatch.sandbox.carrier import Bridge
    from vxwatch.session.session import Session


class Life:
    """`await life.run(...)`, once.

    `settled` is set when the start succeeded or failed, `gone` when nothing lives any more. `asked`
    says that we end it ourselves, `began` that its command ran; `up_since` and `ended` are
    readings of the loop's clock.
    """

    def __init__(self, session: "Session", task: "Task", fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.settled = asyncio.Event()
        self.gone = asyncio.Event()
        self.ready = False
        self.asked = False
        self.began = False
        self.up_since = 0.0
        self.exit_code: int | None = None
        self.outcome = Outcome(task.id, "aborted")
        self._session = session
        self._task = task
        self._stop = asyncio.Event()
        self._printed_ready = asyncio.Event()
        self._unit: Unit | None = None
        assert task.persistent is not None
        self._persistent = task.persistent
        pattern = task.persistent.ready_when
        self._line = ReadyLine(pattern) if pattern else None

    @property
    def up(self) -> bool:
        """Whether it is ready and lives."""
        return self.ready and not self.gone.is_set()

    @property
    def over(self) -> bool:
        """Whether it is gone, or is being ended."""
        return self.asked or self.gone.is_set()

    def end(self) -> None:
        """Have it ended; `gone` follows."""
        self.asked = True
        self._stop.set()

    def replaced(self) -> str | None:
        """A path that its box shows as it was, while there is something else; None if all is well."""
        return self._unit.replaced() if self._unit and self.up else None

    async def run(self, bridge: "Bridge | None", on_ready: "Callable[[], None]") -> None:
        """Launch it, wait until it is ready, then until it ends or is to end; `gone` is not set."""
        session, task = self._session, self._task
        command = command_line(task, session.arguments(task))
        session.emit(TaskStarted(task.id, command))
        try:
            async with unit(session, task, command, self._reader(), stdin="held") as live:
                self._unit = live
                self.began = True
                if bridge is not None and live.tree.init is not None:
                    bridge.attach(live.tree.init)
                self.outcome = await self._until_ready(live)
                if self.ready:
                    self.up_since = asyncio.get_running_loop().time()
                    on_ready()
                    self.settled.set()
                    await race(live.tree.wait(), self._stop.wait())
                self.exit_code = (await stop(session, task, live.tree)).code
        except LaunchError as error:
            self.outcome = Outcome(
                task.id, "failed", error.code, detail=error.message, hint=error.hint
            )
        except NurseryLostError:
            self.asked = True  # vx ends all, and says why
        except UserError as error:
            self.outcome = Outcome(task.id, "failed", detail=error.message, hint=error.hint)
        except Exception as fault:  # noqa: BLE001 - raised when everything has ended in its turn
            self.asked = True
            if not self.ready:
                self.outcome = Outcome(task.id, "failed", detail="internal error")
            session.fail(fault)

    async def _until_ready(self, live: Unit) -> Outcome:
        first = await race(
            self._answers(live),
            live.tree.wait(),
            self._stop.wait(),
            within=self._persistent.ready_timeout,
        )
        if first == 0:
            self.ready = True
            return Outcome(self._task.id, "ready")
        end = await stop(self._session, self._task, live.tree)
        if first is None:
            limit = format_duration(self._persistent.ready_timeout)
            detail = f"not ready after {limit} (ready_timeout), so it was ended"
            return Outcome(self._task.id, "failed", end.code or 1, detail=detail)
        if self.asked:
            return Outcome(self._task.id, "aborted", end.code)
        return Outcome(self._task.id, "failed", end.code or 1, detail="ended before it was ready")

    async def _answers(self, live: Unit) -> None:
        """Return when the server says or shows that it is ready; at once when it need not."""
        if self._line is not None:
            await self._printed_ready.wait()
        elif self._persistent.ready_port is not None:
            try:
                await self._session.nursery.dial(live.tree.init, self._persistent.ready_port)
            except OSError:
                await self.gone.wait()  # the box has ended, which is told by its exit

    def _reader(self) -> OnOutput:
        emit, task = self._session.emit, self._task.id

        def on_output(stream: Literal["stdout", "stderr"], data: bytes) -> Awaitable[None] | None:
            emit(TaskOutput(task, stream, data))
            if self._line is not None and not self.ready and self._line.feed(stream, data):
                self._printed_ready.set()
            return emit.drained()

        return on_output
