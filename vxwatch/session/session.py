"""The owner of every lifetime: nursery, sandbox runtime, servers, and what is known so far.

A session outlives its cycles. Every way it can end goes through its block's end: Ctrl-C,
SIGTERM, SIGHUP, a failed run, an internal fault, the end of a normal run. When the block is
left no process that a task started is alive. A signal starts the end; a second one hurries it
by setting `hurry`, for which every grace period waits as well. Nothing interrupts it.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vxwatch.errors import UserError
from vxwatch.events import Emit, Notice, Outcome
from vxwatch.graph.affected import LOCKFILES
from vxwatch.masking import SHORTEST, Masker, maskable
from vxwatch.process import suspension
from vxwatch.process.environment import secret_values
from vxwatch.process.nursery import Nursery
from vxwatch.process.programs import resolve
from vxwatch.sandbox.runtime import SandboxRuntime, load
from vxwatch.session.caching import Caching
from vxwatch.session.denied import tell_refusal
from vxwatch.session.foreground import Foreground, terminal_for
from vxwatch.session.masked import MaskedEvents
from vxwatch.session.means import Means
from vxwatch.session.recording import Recording
from vxwatch.session.reloading import Reloads
from vxwatch.session.undone import Undone
from vxwatch.workspace.ports import host_ports

if TYPE_CHECKING:
    from vxwatch.cache.files import FileIndex
    from vxwatch.graph.affected import Affected
    from vxwatch.model import Task, TaskId, Workspace
    from vxwatch.session.keys import KeyRing
    from vxwatch.session.knowledge import Knowledge
    from vxwatch.session.planning import Options, Plan
    from vxwatch.session.servers import Server
    from vxwatch.workspace.git import Ignores


class Memory:
    """What the session knows about its tasks.

    `outcomes` holds the last real outcome of each task, `broken` those of them whose outcome
    blocks what depends on them; `settled` the key under which a task
    last succeeded, dropped before it runs again, so that a crash or a failure half-way never
    leaves a task looking fresh; `overtaken` the tasks whose inputs moved while they ran, or that
    used the work of such a one: what they made belongs to no key; `undone` what may have changed
    and changed back while they ran; `again` the tasks that are to be looked at once more, for that
    or because their work is gone.
    """

    def __init__(self) -> None:
        self.outcomes: dict[TaskId, Outcome] = {}
        self.broken: set[TaskId] = set()
        self.settled: dict[TaskId, str] = {}
        self.overtaken: set[TaskId] = set()
        self.undone = Undone()
        self.again: set[TaskId] = set()

    def record(self, outcome: Outcome) -> None:
        """Remember how a task ended; `kept` and `fresh` say that the earlier outcome stands."""
        if outcome.status not in ("kept", "fresh") or outcome.task not in self.outcomes:
            self.outcomes[outcome.task] = outcome
        (self.broken.discard if outcome.ok else self.broken.add)(outcome.task)

    def keep(self, tasks: "Collection[TaskId]") -> None:
        """These are the tasks from now on; the work of others may go, and its place come back."""
        self.broken.intersection_update(tasks)
        for task in self.settled.keys() - tasks:
            del self.settled[task]


class Session:
    """`async with Session(...)`: what lives from the first cycle to the end of vx."""

    def __init__(
        self,
        plan: "Plan",
        options: "Options",
        emit: Emit,
        environ: Mapping[str, str],
        masker: Masker,
        known: "Knowledge",
    ) -> None:
        """The masker learns the values of the secrets, for whoever speaks of the session after it.

        `cycling`: a cycle runs. `look` gives what has changed by now, where somebody watches;
        `late` says that this may not tell of what came and went. What is `known` stays the
        caller's to close.
        """
        self.plan = plan
        self.options = options
        self.masker = masker
        self.reloads = Reloads(self, emit)
        self.recording = Recording(MaskedEvents(self.reloads, masker), masker)
        self.emit: Emit = self.recording
        self.environ = environ
        self.memory = Memory()
        self.live: dict[TaskId, asyncio.Event] = {}
        self.pids: dict[TaskId, int] = {}
        self.servers: dict[TaskId, Server] = {}
        self.hurry = asyncio.Event()
        self.stopping = asyncio.Event()
        self.stop_signal: int | None = None
        self._fault: Exception | None = None
        self.server_exited = asyncio.Event()
        self.server_came_up = asyncio.Event()
        self.group = asyncio.TaskGroup()
        self._told: set[str] = set()
        self.begun: set[TaskId] = set()
        self.cycling = False
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self.look: Callable[[], frozenset[str]] = frozenset
        self.shifted: Callable[[], Collection[str]] = lambda: ()
        self.late: Callable[[], bool] = lambda: False
        self.overwritten: Callable[[Iterable[str]], list[str]] = lambda _: []
        self.known = known
        self.means = Means(self)
        self.caching: Caching
        self.nursery: Nursery
        self.sandbox: SandboxRuntime
        self.foreground: Foreground
        self._up = False
        self._stack = AsyncExitStack()
        self.shell = _shell(environ, plan.workspace.root)

    async def __aenter__(self) -> Self:
        self._know_secrets(self.workspace)
        async with AsyncExitStack() as stack:
            self.caching = stack.enter_context(Caching(self))
            terminal = stack.enter_context(terminal_for(self.plan))
            async with self._loading():
                self.nursery = await stack.enter_async_context(Nursery.open(terminal=terminal))
            self.foreground = Foreground(self.nursery, terminal, self.emit)
            runtime = SandboxRuntime(self.nursery, self.workspace, self.environ)
            runtime.on_refusal = partial(tell_refusal, self)
            self.sandbox = await stack.enter_async_context(runtime)
            await stack.enter_async_context(self.group)
            stack.push_async_callback(self.stop_servers)
            self._stack = stack.pop_all()
        self._up = True
        return self

    @asynccontextmanager
    async def _loading(self) -> AsyncIterator[None]:
        """Load what sandboxed tasks need, where there are any, while the nursery starts."""
        planned = map(self.workspace.task, self.plan.graph.order)
        if all(task.sandbox is None or task.id in self.known.fresh for task in planned):
            yield
            return
        loading = asyncio.get_running_loop().run_in_executor(None, load)
        try:
            yield
        finally:
            await loading

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._stack.__aexit__(kind, fault, trace)
        finally:
            self._up = False
        if self._fault is not None and fault is None:
            raise self._fault

    @property
    def workspace(self) -> "Workspace":
        """The workspace as it was last loaded."""
        return self.plan.workspace

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The last outcome of each task of the plan that has a command and was looked at."""
        known = self.memory.outcomes
        return tuple(
            known[task]
            for task in self.plan.graph.order
            if task in known and self.workspace.task(task).command is not None
        )

    def polite_signal(self, task: "Task") -> int:
        """The signal that asks the task's tree to end: its own, the one vx got, else SIGTERM."""
        server = self._as_it_is_now(task).persistent
        if server is not None and server.stop_signal is not None:
            return signal.Signals[server.stop_signal]
        return self.stop_signal or signal.SIGTERM

    def learn(self) -> None:
        """List the files of the plan's tasks; the first keys can be made then."""
        self.known.learn()
        self.caching.open()

    @property
    def affected(self) -> "Affected":
        """What files mean to the tasks of the plan."""
        return self.known.affected

    @property
    def index(self) -> "FileIndex":
        """The files of the plan's tasks, once they were learned."""
        return self.known.index

    @property
    def ignores(self) -> "Ignores":
        """What git leaves out."""
        return self.known.ignores

    @property
    def keys(self) -> "KeyRing":
        """The keys of the plan's tasks, once their files were learned."""
        return self.known.keys

    def settle(self, tasks: "Iterable[TaskId]") -> None:
        """These had nothing to do, which was known before the first cycle: no event tells of them."""
        outcomes = [Outcome(task, "fresh") for task in tasks]
        for outcome in outcomes:
            self.memory.record(outcome)
            self.memory.settled[outcome.task] = self.keys.key(outcome.task)
        self.caching.unchanged(outcomes)

    def look_again(self, task: "Task") -> frozenset[str]:
        """Look at all that the task takes, whatever was told of it; gives what changed, and tells it."""
        own, wide = self.affected.roots(task.id)
        changed = self.index.refresh({*own, *wide, *LOCKFILES})
        if changed:
            self.found(changed)
        return changed

    def found(self, changed: Collection[str]) -> None:
        """These files were seen to change, by who looked at them when no event had told yet."""
        for tell in self.listeners:
            tell(frozenset(changed))

    async def replace(self, plan: "Plan") -> None:
        """Take up another plan of the same workspace.

        Servers that are not in it are ended, and those that hold a port which is another's now.
        """
        self._know_secrets(plan.workspace)
        gone = self.servers.keys() - plan.servers
        up = [task for task in sorted(gone) if self.servers[task].alive]
        await self.stop_servers(gone | self._in_the_way(plan))
        for task in gone:
            del self.servers[task]
        for task in up:
            self.emit(Notice(f"{task} was ended: nothing asks for that server any more"))
        self.plan = plan
        self.sandbox.reload(plan.workspace)
        self.known.replace(plan)
        self.caching.load(plan.workspace)
        self.memory.keep(plan.graph.dependencies)

    def _in_the_way(self, plan: "Plan") -> "set[TaskId]":
        claimed = {
            port: task for task in plan.servers for port, _ in host_ports(plan.workspace.task(task))
        }
        return {
            task
            for task, server in self.servers.items()
            if any(claimed.get(port, task) != task for port, _ in host_ports(server.task))
        }

    def directory(self, task: "Task") -> str:
        """The absolute directory of the task's project."""
        return os.path.join(self.workspace.root, self.workspace.projects[task.project].dir).rstrip(
            "/"
        )

    def arguments(self, task: "Task") -> tuple[str, ...]:
        """What was given after `--`, for requested tasks only."""
        given = self.options.arguments
        return given if given and task.id in self.plan.requested else ()

    def grace(self, task: "Task") -> float:
        """Seconds this task gets between the polite signal and SIGKILL."""
        grace = self._as_it_is_now(task).grace
        return self.options.grace if grace is None else grace

    def _as_it_is_now(self, task: "Task") -> "Task":
        """The task as the config has it: a server that was started before an edit lives on."""
        project = self.workspace.projects.get(task.project)
        return project.tasks.get(task.name, task) if project else task

    def _know_secrets(self, workspace: "Workspace") -> None:
        """Mask the values of these from now on, and name those that cannot be."""
        values = secret_values(self.environ, workspace)
        self.masker.learn(values.values())
        for name, value in values.items():
            if value and not maskable(value) and name not in self._told:
                self._told.add(name)
                self.emit(
                    Notice(
                        f"the value of {name} cannot be masked: it has less than {SHORTEST} bytes",
                        "it is shown wherever a task prints it",
                        "warning",
                    )
                )

    def suspend(self) -> None:
        """Stop with all trees, as a job of the shell, until continued."""
        if self._up:
            self.foreground.stop()
        else:
            suspension.stop()

    def interrupt(self, number: int) -> None:
        """Begin the end because signal `number` came; hurry it if it has begun.

        A hang-up hurries nothing: a terminal that is closed says so more than once (the kernel,
        the shell, and its end itself), and nobody there is impatient.
        """
        if self.stopping.is_set():
            if number != signal.SIGHUP:
                self.hurry.set()
            return
        self.stop_signal = number
        self.stopping.set()

    def fail(self, fault: Exception) -> None:
        """Begin the end because of a fault of ours; it is raised when all is gone."""
        self._fault = self._fault or fault
        self.stopping.set()

    def server(self, task: "Task") -> "Server":
        """The session's server for this task, up or not."""
        if task.id not in self.servers:
            from vxwatch.session.servers import Server  # noqa: PLC0415 - few runs have one

            self.servers[task.id] = Server(self, task)
        return self.servers[task.id]

    def server_ready(self, task: "TaskId") -> None:
        """A server is up, in a cycle or by itself: what waited for it may go on."""
        self.memory.record(Outcome(task, "ready"))
        self.server_came_up.set()

    def server_ended(self, task: "TaskId", code: int, *, for_good: bool) -> None:
        """A server that was ready ended by itself; `for_good`: nothing starts it by itself."""
        outcome = Outcome(task, "failed" if code else "ran", code, detail="ended by itself")
        self.memory.record(outcome)
        self.caching.ended(outcome, time.time_ns())
        if for_good:
            self.server_exited.set()

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work until it is done, or a signal or a fault asks for the end.

        Then the tasks in flight and the servers are ended together, each as soon as
        what depends on it is gone.
        """
        async with asyncio.TaskGroup() as group:
            job = group.create_task(work)
            stop = group.create_task(self.stopping.wait())
            await asyncio.wait({job, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if not job.done():
                job.cancel()
                await self.stop_servers()

    async def stop_servers(self, only: "Collection[TaskId] | None" = None) -> None:
        """End these servers (None: all, while all that runs is ended) for good.

        Each ends after those that depend on it and are ended with it are gone.
        """
        ending = self.live.keys() | self.servers.keys() if only is None else only
        async with asyncio.TaskGroup() as group:
            for task_id in self.servers.keys() & set(ending):
                group.create_task(self._stop_server(task_id, ending))

    async def _stop_server(self, task_id: "TaskId", ending: "Collection[TaskId]") -> None:
        for dependent in self.plan.graph.downstream([task_id]) - {task_id}:
            if dependent not in ending:
                continue
            if dependent in self.servers:
                await self.servers[dependent].gone()
            elif dependent in self.live:
                await self.live[dependent].wait()
        await self.servers[task_id].end(for_good=True)


def _shell(environ: Mapping[str, str], root: str) -> str:
    found = _program("sh", environ, root)
    if found is None:
        raise UserError("no-shell", "no `sh` on PATH", "install a POSIX shell, or put it on PATH")
    return found


def _program(name: str, environ: Mapping[str, str], root: str) -> str | None:
    return resolve(name, environ.get("PATH", os.defpath), root)
