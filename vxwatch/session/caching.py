"""Whether a one-shot task must run: alone among all vx processes, and with the cache.

    lock -> fresh or restored
        '-> clean -> run -> capture -> no input moved? -> save

A watch does not clean, so that servers can go on with what was made before. It saves only what is
new from end to end, because of anything else it is not sure where that came from.

The work on files is done in a thread, so that servers and signals are heard meanwhile; but it is
never left behind. Keys and the index of files are looked at on the event loop only.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from vxwatch.cache.history import STARTED, Recorder, flaky
from vxwatch.cache.locks import Held, TaskLocks
from vxwatch.cache.prune import due, prune
from vxwatch.cache.results import Reused, is_kept
from vxwatch.cache.reuse import Cache
from vxwatch.errors import UserError
from vxwatch.events import Notice, Outcome, TaskOutput
from vxwatch.graph.names import counts
from vxwatch.workspace.home import has_session

if TYPE_CHECKING:
    from vxwatch.cache.key import Key
    from vxwatch.cache.store import Store
    from vxwatch.model import Task, TaskId, Workspace
    from vxwatch.session.session import Session

_T = TypeVar("_T")
Execute = Callable[["Task"], Awaitable[Outcome]]
Moved = Callable[["Task"], str | None]

LOOK = 0.05
"""Seconds between two looks at a lock that somebody else holds."""


class Caching:
    """What a session has of the cache."""

    def __init__(self, session: "Session") -> None:
        """Nothing is touched before `open`."""
        self._session = session
        self._cache: Cache | None = None
        self._recorder: Recorder | None = None
        self._tried: dict[TaskId, str] = {}
        self._saved: dict[TaskId, str] = {}
        self._locks = TaskLocks(session.workspace.root)
        self._locks_fail = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._locks.close()
        if self._cache is None:
            return
        with self._cache.trouble("the history of this run is not whole"):
            self._end(self._cache)
        self._cache.close()

    def open(self) -> None:
        """Open the cache of the workspace, if it is to be used."""
        session = self._session
        self._cache = session.known.open_cache()
        if self._cache is None:
            return
        session.known.hear(lambda text, hint: session.emit(Notice(text, hint, "warning")))
        self._record(self._cache)

    def _record(self, cache: Cache) -> None:
        self._recorder = None
        store, session = cache.store, self._session
        if store is not None and not store.read_only:
            with cache.trouble("no history is kept"):
                command = session.masker.text(session.options.command)
                self._recorder = Recorder(store, session.workspace.root, command)

    def renew(self) -> None:
        """Begin a new cache where somebody has removed it, while no task runs."""
        if self._cache is not None and self._cache.renew():
            self._record(self._cache)

    def load(self, workspace: "Workspace") -> None:
        """Take up the workspace as it is now; the cache stays where it is."""
        if self._cache is not None:
            self._cache.outputs.load(workspace.projects)
            self._cache.outputs.share(workspace)

    def ended(self, outcome: Outcome, started: int) -> None:
        """Write down how a task ended, which was started at this time of the wall clock."""
        session = self._session
        if self._cache is None or self._recorder is None:
            return
        looked_at = outcome.status not in ("skipped", "aborted")
        key = session.keys.key(outcome.task) if looked_at else None
        detail = outcome.detail
        if outcome.blocked_by is not None:
            detail = f"{outcome.blocked_by} did not succeed"
        detail = session.masker.text(detail)
        shown = outcome if detail == outcome.detail else outcome._replace(detail=detail)
        made: list[Key] = []
        if key is not None and outcome.status in STARTED:
            made = [session.keys.made(outcome.task), *session.keys.groups(outcome.task)]
            self._tried[outcome.task] = key
        with self._cache.trouble("the history of this run is not whole"):
            self._recorder.ended(shown, key, started, made)

    def unchanged(self, outcomes: Iterable[Outcome]) -> None:
        """Write down that these tasks were fresh."""
        if self._cache is None or self._recorder is None:
            return
        now, keys = time.time_ns(), self._session.keys
        with self._cache.trouble("the history of this run is not whole"):
            for outcome in outcomes:
                self._recorder.ended(outcome, keys.key(outcome.task), now)

    def cycle(self, number: int, started: int, seconds: float, paths: "Collection[str]") -> None:
        """Write down a cycle that began at this time of the wall clock, and what came of it."""
        if self._cache is None or self._recorder is None:
            return
        self._cache.write_notes()
        named = map(self._session.masker.text, paths)
        with self._cache.trouble("the history of this run is not whole"):
            self._recorder.cycle(number, started, seconds, named)

    def _end(self, cache: Cache) -> None:
        if self._recorder is not None and cache.store is not None:
            self._take_back(cache, cache.store)
            self._recorder.end(self._session.stop_signal)
            self._tell_flaky(cache.store)
            retention = self._session.workspace.cache_retention
            if due(cache.store, retention.older_than, retention.max_size):
                prune(cache.store, retention.older_than, retention.max_size)

    def _tell_flaky(self, store: "Store") -> None:
        session = self._session
        if session.options.verb == "watch" or session.stop_signal is not None:
            return
        sure = {
            task: key
            for task, key in self._tried.items()
            if task not in session.memory.overtaken and session.keys.decides(task)
        }
        for task in sorted(flaky(store, sure)):
            session.emit(Notice(f"{task} is flaky: it failed and passed with the same inputs"))

    @property
    def store_is_open(self) -> bool:
        """Whether anything can be found or kept."""
        return self._cache is not None and self._cache.store is not None

    def keeps(self, task: "Task") -> bool:
        """Whether the result of the task can be kept and used again."""
        return self.store_is_open and is_kept(task) and self._session.keys.vouched(task.id)

    def stands(self, task: "Task", key: str) -> bool:
        """Whether what the task made under this key is known to be on disk still."""
        cache = self._cache
        return cache is not None and self.keeps(task) and cache.standing(task, key) is not None

    async def settle(self, task: "Task", execute: Execute, moved: Moved) -> Outcome:
        """Bring the task up to date.

        `execute` runs it, and `moved` names an input of it that changed while it ran.
        """
        async with self._alone(task):
            if not self.keeps(task):
                return await execute(task)
            if self._is_unsure(task):
                self._make_sure(task)
            reused = await self._reuse(task)
            if reused is not None:
                self._replay(task, reused)
                return Outcome(task.id, reused.status)
            return await self._run(task, execute, moved)

    def _is_unsure(self, task: "Task") -> bool:
        """Whether what the task takes may be another than when its key was made.

        A watch may have made it anew meanwhile, or a task whose work is none of its key's business.
        """
        session = self._session
        if session.options.verb != "run":
            return False
        below = session.plan.graph.dependencies[task.id]
        return has_session(session.workspace.root) or not all(counts(task, o) for o in below)

    def _make_sure(self, task: "Task") -> None:
        """Have the key be that of what the task takes now: nothing older is to come over that."""
        session = self._session
        if not session.index.stands(task.id) and session.look_again(task):
            session.keys.forget([task.id])

    async def _reuse(self, task: "Task") -> Reused | None:
        cache, key = self._cache, self._session.keys.key(task.id)
        if cache is None or self._session.options.cache == "renew":
            return None
        if not cache.knows(task, key):
            return None
        return await _in_thread(cache, lambda: cache.reuse(task, key))

    @property
    def _runs_over(self) -> bool:
        """Whether tasks run over what they made before: in a watch somebody may be using it."""
        return self._session.options.verb == "watch"

    async def clear(self, task: "Task") -> None:
        """Remove what a failed attempt of the task made, before the next one."""
        cache = self._cache
        if cache is not None and self.keeps(task) and not self._runs_over:
            # A link that stands in the way now was made by the attempt; what it leads to stays.
            with suppress(UserError):
                await _in_thread(cache, lambda: cache.prepare(task))

    async def _run(self, task: "Task", execute: Execute, moved: Moved) -> Outcome:
        session, cache = self._session, self._cache
        assert cache is not None
        key = session.keys.key(task.id)
        begun = time.time_ns()
        over = self._runs_over
        try:
            work = cache.expire if over else cache.prepare
            await _do(cache, lambda: work(task), beside=cache.outputs.has_files(task))
        except UserError as error:
            return Outcome(task.id, "failed", detail=error.message, hint=error.hint)
        session.recording.begin(task.id)
        try:
            outcome = await execute(task)
        finally:
            log = session.recording.end(task.id)
        if outcome.faults and cache.outputs.is_blocked(task):
            outcome = outcome._replace(faults=0)
        # A task that answers the end of vx with success did not end by itself.
        if outcome.status != "ran" or session.stopping.is_set():
            return outcome
        if task.id in session.memory.overtaken:
            return outcome
        with ExitStack() as stack:
            capture = cache.capture(task)
            made = await _do(
                cache, lambda: stack.enter_context(capture), beside=cache.outputs.has_places(task)
            )
            if made is None or (over and not made.presence.is_new(begun)):
                return outcome
            path = moved(task)
            if path is not None:
                self._say_moved(task, path)
            elif task.id not in session.memory.overtaken:
                if (other := self._disturbed(task.id)) is not None:
                    session.memory.overtaken.add(task.id)
                    self._say_moved(task, f"what {other} made")
                    return outcome
                cache.keep(made, task, key, log, outcome.seconds)
                self._saved[task.id] = key
        return outcome

    def _disturbed(self, task_id: "TaskId") -> "TaskId | None":
        """A task that this one builds on, and whose outputs are not as they were left, if any.

        Another vx or a person may have been there, between the two or while this one ran.
        """
        below = self._session.keys.builds_on(task_id)
        return next((other for other in below if not self._left_alone(other)), None)

    def _left_alone(self, task_id: "TaskId") -> bool:
        session, cache = self._session, self._cache
        task = session.workspace.task(task_id)
        if cache is None or not self.keeps(task) or not cache.outputs.has_places(task):
            return True
        shared = not session.workspace.rules.exclusive_outputs
        return cache.was_left_alone(task, session.keys.key(task_id), shared=shared)

    def _take_back(self, cache: Cache, store: "Store") -> None:
        """Keep nothing of this run that may have built on what somebody changed meanwhile.

        A task may have read what one wrote on which it builds by way of others only.
        """
        session = self._session
        if session.options.verb == "watch" or not self._saved:
            return
        above: set[TaskId] = set()  # whoever builds on them is suspect
        for task_id in session.plan.graph.order:
            suspect = not above.isdisjoint(session.plan.graph.dependencies[task_id])
            if suspect or not self._left_alone(task_id):
                above.add(task_id)
            if suspect and task_id in self._saved:
                cache.expire(session.workspace.task(task_id))
                store.drop(self._saved.pop(task_id))
                self._say_moved(session.workspace.task(task_id), "what it builds on")

    def _replay(self, task: "Task", reused: Reused) -> None:
        for stream, data in reused.log:
            self._session.emit(TaskOutput(task.id, stream, data))

    def _say_moved(self, task: "Task", path: str) -> None:
        # A watch runs it again, and needs no word about it.
        if self._session.options.verb == "run":
            self._session.emit(Notice(f"{task.id} is not saved: {path} changed while it ran"))

    @asynccontextmanager
    async def _alone(self, task: "Task") -> AsyncIterator[None]:
        """Keep every other vx from doing the same task of this workspace meanwhile."""
        told = False
        while True:
            try:
                taken = self._locks.take(task.id)
            except OSError as error:
                self._say_unlocked(error)
                yield
                return
            if not isinstance(taken, Held):
                break
            if not told:
                told = True
                self._session.emit(Notice(_waiting(task, taken)))
            await asyncio.sleep(LOOK)
        try:
            yield
        finally:
            taken.release()

    def _say_unlocked(self, error: OSError) -> None:
        if not self._locks_fail:
            self._locks_fail = True
            self._session.emit(
                Notice(
                    f"tasks cannot be locked ({error}): run one vx at a time here", "", "warning"
                )
            )


def _waiting(task: "Task", held: Held) -> str:
    who = f"pid {held.pid}" if held.pid else "one outside of this container"
    return f"{task.id} waits since {time.strftime('%H:%M:%S')}: another vx is at it ({who})"


async def _do(cache: Cache, work: Callable[[], _T], *, beside: bool) -> _T:
    """Have the cache do the work, in a thread if it may be much."""
    return await _in_thread(cache, work) if beside else work()


async def _in_thread(cache: Cache, work: Callable[[], _T]) -> _T:
    """Have the cache do the work in a thread. It has ended when this returns, however it does.

    Where this is cancelled the session ends, and the work is left unfinished.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cache.stop()
        await asyncio.wait([future])
        raise
