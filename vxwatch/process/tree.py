"""One tree of processes: how it ends, by itself or by us.

A tree is dead when its leader is reaped, its process group is empty and no orphan carries its
mark. `stop` brings that about whatever the tree does, and nothing interrupts it: cancelling the
caller does not, a second call joins the first. Waiting never ends anything.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from vxwatch.errors import UserError
from vxwatch.process.helper import stuck
from vxwatch.process.link import Link
from vxwatch.process.pipes import Pump

_T = TypeVar("_T")

_LOOK_AGAIN = 0.01  # seconds between looks at a group whose leader is gone
_ANSWER = 2.0  # seconds for the nursery to hear that it is to kill
_FOLLOW = 2.0  # seconds for a bwrap to follow its init
_DIE = 8.0  # seconds for SIGKILL to work
_DELIVER = 2.0  # seconds for the consumer to take the last output of a tree that we ended


class Exit(NamedTuple):
    """How a leader ended.

    `code` is its exit code, 128 + n after signal n. `cpu` (seconds) and `peak_rss` (bytes) are
    its own and those of the descendants it waited for. `output_cut` says that something it left
    behind still held its output open when reading ended. `started` is False when its box could
    not be built, so that the command never ran.
    """

    code: int
    cpu: float
    peak_rss: int
    output_cut: bool
    started: bool = True


class LaunchError(Exception):
    """A process could not be started: exit code 127 (missing) or 126 (refused), why, and a hint."""

    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class NurseryLostError(UserError):
    """The nursery was killed. What it had started is dead, and the session cannot go on."""

    def __init__(self) -> None:
        super().__init__(
            "nursery-lost",
            "vx's helper process, which starts and ends all others, was killed",
            "everything that it had started is ended; when nobody killed it, memory ran out: `dmesg` says so",
            exit_code=70,
        )


class Tree:
    """A live tree, made by `Nursery.launch`.

    `born` resolves to None, or to the step that failed and its errno; then there is no tree.
    `pid` is its leader's; `init` the first process inside its box, as the host sees it; `mark`
    the value of VX_TREE in its environment.
    """

    def __init__(
        self, link: Link, number: int, mark: str, pumps: Sequence[Pump], box: int | None
    ) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.init: int | None = None
        self.mark = mark
        self.born: asyncio.Future[tuple[str, int] | None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._link = link
        self._number = number
        self._pumps = pumps
        self._box = box  # where bwrap says whether the command ran; ours to close
        self._exited: asyncio.Future[tuple[int, float, int]] = loop.create_future()
        self._answer: asyncio.Future[bool] = loop.create_future()
        self._told: asyncio.Future[None] = loop.create_future()
        self._rest = True
        self._on_stop: Callable[[int], None] | None = None
        self._stopped_by: int | None = None
        self._life: asyncio.Future[Exit] = loop.create_future()
        self._parts: tuple[asyncio.Future[Any], ...] = (
            self._exited,
            *(pump.task for pump in pumps),
        )
        for part in self._parts:
            part.add_done_callback(self._on_part)
        self._ending: asyncio.Task[None] | None = None

    async def wait(self) -> Exit:
        """Wait until the leader has ended and its output is delivered, or cut after the drain.

        Raises what the consumer of the output raised, and `NurseryLostError`.
        """
        if self._life.done():
            return self._life.result()
        return await asyncio.shield(self._life)

    async def stop(self, sig: int, grace: float, hurry: asyncio.Event) -> Exit:
        """End the tree: `sig` once, then SIGKILL when `grace` seconds are over or `hurry` is set.

        It returns as soon as the tree is dead, so at once when nothing of it was left. A caller
        that is cancelled hears of it when the tree is dead. Raises as `wait` does, and
        `UserError` when the kernel cannot end a process.
        """
        if self._life.done() and self._gone_by_itself():
            return self._life.result()
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.create_task(self._take_down(sig, grace, hurry))
        await finished(self._ending)
        return await self.wait()

    def name_init(self, init: int | None) -> None:
        """Make known which process is the first inside its box."""
        self.init = init
        if init is not None:
            self._link.post("init", self._number, init)

    def when_stopped(self, call: Callable[[int], None]) -> None:
        """Call with the signal when it, which borrows the terminal, is stopped; or was already."""
        self._on_stop = call
        if self._stopped_by is not None:
            call(self._stopped_by)

    def hang_up(self) -> None:
        """Tell its group that the terminal is gone."""
        self._link.post("signal", self._number, int(signal.SIGHUP))

    # What the nursery says

    def on_stopped(self, signum: int) -> None:
        """The leader was stopped."""
        self._stopped_by = signum
        if self._on_stop is not None:
            self._on_stop(signum)

    def on_born(self, pid: int) -> None:
        """It was forked."""
        self.pid = pid
        _resolve(self.born, None)

    def on_failed(self, step: str, number: int) -> None:
        """Nothing was started: this step failed with this errno."""
        _resolve(self.born, (step, number))
        _resolve(self._exited, (126, 0.0, 0))
        _resolve(self.gone, None)

    def on_exit(self, code: int, cpu: float, peak_rss: int, rest: bool, gone: bool) -> None:
        """The leader was reaped; `rest`: its group may have members; `gone`: nothing is left."""
        self._rest = rest
        _resolve(self._exited, (code if code >= 0 else 128 - code, cpu, peak_rss))
        if self._ending is None:
            # What waits in its pipes, and mostly their end, is read in this turn of the loop.
            asyncio.get_running_loop().call_soon(self._drain)
        if gone:
            self.on_gone()

    def on_alive(self, yes: bool) -> None:
        """The answer to `alive`."""
        _resolve(self._answer, yes)

    def on_gone(self) -> None:
        """Nothing of it is left."""
        _resolve(self.gone, None)
        _resolve(self._answer, False)

    def on_ending(self) -> None:
        """The nursery has heard that it is to kill."""
        _resolve(self._told, None)

    def on_lost(self) -> None:
        """The nursery is gone; there will be no further answer."""
        for future in (self.born, self._exited, self._answer, self.gone):
            _fail(future, NurseryLostError())
        for pump in self._pumps:
            pump.abandon()

    # Its life and its end

    def _on_part(self, part: "asyncio.Future[Any]") -> None:
        """The leader was reaped or a pipe is at its end; its life is over with the last of them."""
        if self._life.done():
            return
        fault = _fault_of(part)
        if fault is None:
            if not all(one.done() for one in self._parts):
                return
            # Another part may have failed before this call came.
            fault = next(filter(None, map(_fault_of, self._parts)), None)
        started = self._command_ran()
        if fault is not None:
            _fail(self._life, fault)
            return
        code, cpu, peak_rss = self._exited.result()
        cut = any(pump.was_cut for pump in self._pumps)
        self._life.set_result(Exit(code, cpu, peak_rss, output_cut=cut, started=started))

    def _gone_by_itself(self) -> bool:
        return self._ending is None and self.gone.done() and self.gone.exception() is None

    def _command_ran(self) -> bool:
        if self._box is None:
            return True
        try:
            return b'"exit-code"' in os.read(self._box, 65536) or self._ending is not None
        except BlockingIOError:
            return False
        finally:
            os.close(self._box)

    def _drain(self) -> None:
        for pump in self._pumps:
            pump.leave()

    async def _take_down(self, sig: int, grace: float, hurry: asyncio.Event) -> None:
        self._link.helper.resume()
        try:
            if sig != signal.SIGKILL and not (self._exited.done() and not self._rest):
                self._link.post("signal", self._number, int(sig))
                await self._patience(grace, hurry)
            await self._kill()
        finally:
            self._drain()
        await asyncio.wait((self._life,), timeout=_DELIVER)
        for pump in self._pumps:
            pump.abandon()
        await asyncio.wait((self._life,))

    async def _patience(self, grace: float, hurry: asyncio.Event) -> None:
        """Wait until the group is empty, the grace is over or somebody is in a hurry."""
        loop = asyncio.get_running_loop()
        waits = (loop.create_task(self._emptied()), loop.create_task(hurry.wait()))
        await asyncio.wait(waits, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def _emptied(self) -> None:
        await asyncio.shield(self._exited)
        while self._rest and not self.gone.done():
            self._answer = asyncio.get_running_loop().create_future()
            self._link.post("alive", self._number)
            self._rest = await self._answer
            await asyncio.sleep(_LOOK_AGAIN if self._rest else 0)

    async def _kill(self) -> None:
        for patience in (_FOLLOW, _DIE):
            if not self.gone.done():
                await self._have_it_killed()
                await asyncio.wait((self.gone,), timeout=patience)
            if self.gone.done():
                return self.gone.result()
        raise stuck(self.pid)

    async def _have_it_killed(self) -> None:
        """Have the nursery do it, or end a nursery that does not answer: then it is done for it."""
        self._told = asyncio.get_running_loop().create_future()
        self._link.post("end", self._number)
        waits = (self.gone, self._told)
        done, _ = await asyncio.wait(waits, timeout=_ANSWER, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self._link.helper.kill()


async def finished(task: "asyncio.Task[None]") -> None:
    """Wait for the task's end even when cancelled meanwhile; then raise as it or the cancel does."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        _heard(task)
        raise cancelled
    task.result()


def _fault_of(ended: "asyncio.Future[Any]") -> BaseException | None:
    return asyncio.CancelledError() if ended.cancelled() else ended.exception()


def _resolve(future: "asyncio.Future[_T]", value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        _heard(future)


def _heard(future: "asyncio.Future[Any]") -> None:
    """Keep asyncio from reporting an exception that nobody happened to wait for."""
    if not future.cancelled():
        future.exception()
