"""What the open pages of servers with live reload are told, and when.

Pages hear of the cycles that concern their server: those in which a task ran, or a server came up,
that lies in its project or that it depends on, however far; and of a change in its project that no
task takes up. After a good one they reload; what failed they show until it is mended. Nothing is
told before the cycle has ended, which is when its servers answer again.
"""

import os
import re
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Literal

from vxwatch.events import (
    Before,
    CycleEnded,
    CycleStarted,
    Emit,
    Event,
    Notice,
    Outcome,
    RunStarted,
    ServerExited,
    ServerReady,
    TaskEnded,
    TaskOutput,
    TaskRetried,
    TaskStarted,
)
from vxwatch.session.ready import ESCAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vxwatch.model import Task, TaskId
    from vxwatch.reload.front import ReloadingBridge
    from vxwatch.session.session import Session

MOST_SHOWN = 8
"""Failed tasks that a page shows."""
MOST_SAID = 1000
"""Characters about how a task ended."""
TAIL = 1 << 14
"""Bytes of the output of a task that may be shown."""
_MADE_NEW = frozenset({"ran", "restored", "ready"})
_CONTROLS = r"[^\n\r]*\r(?!\n)|[\x00-\x08\x0b-\x1f\x7f]"
"""What a terminal would have overwritten, and what it would not have shown."""


class _Site:
    """The pages of one server. `fresh`: it was not ready yet; `stale`: they are older than the rest."""

    def __init__(self, bridge: "ReloadingBridge", version: str) -> None:
        self.bridge = bridge
        self.version = version
        self.fresh = True
        self.stale = False
        self.servers = False
        self.told = b""


class Reloads(Before):
    """An `Emit` in front of another one, that hears events without the values of secrets."""

    def __init__(self, session: "Session", emit: Emit) -> None:
        self._session = session
        self._emit = emit
        self._run = os.urandom(4).hex()
        self._versions = count()
        self._wanted = False
        self._busy = False
        self._sites: dict[TaskId, _Site] = {}
        self._tails: dict[TaskId, bytearray] = {}
        self._failed: dict[TaskId, dict[str, str]] = {}
        self._concerns: dict[TaskId, frozenset[TaskId]] = {}

    def __call__(self, event: Event, /) -> None:
        """Pass the event on."""
        if isinstance(event, RunStarted):
            self._begin(event)
        if self._wanted:
            self._hear(event)
        self._emit(event)

    async def bridge(self, task: "Task") -> "ReloadingBridge":
        """An open bridge for this server. Raises `UserError`."""
        from vxwatch.reload.front import ReloadingBridge  # noqa: PLC0415 - few servers have it
        from vxwatch.reload.news import encode  # noqa: PLC0415 - the same

        assert task.sandbox is not None
        version = self._next()
        bridge = ReloadingBridge(
            self._session.nursery,
            task.sandbox.local_binding,
            self._path(task),
            encode(version, servers=False, failed=()),
            partial(self._tell, task.id),
        )
        bridge.open()
        await bridge.start()
        self._sites[task.id] = _Site(bridge, version)
        self._session.group.create_task(self._keep(task.id, bridge))
        return bridge

    def edited(self, concerned: "Callable[[TaskId], bool]") -> None:
        """Files changed, in the projects of these servers, that no task takes up."""
        for task, site in self._sites.items():
            site.stale = site.stale or concerned(task)

    def settle(self, only: "Collection[TaskId] | None" = None) -> None:
        """Tell the pages how things are, now that nothing is under way."""
        for task in self._sites.keys() if only is None else self._sites.keys() & set(only):
            self._settle(task, self._sites[task])

    def down(self, task: "TaskId", how: str) -> None:
        """A server is gone for good, by itself, and its ports are closed next."""
        if site := self._sites.get(task):
            self._failed[task] = self._failure(task, self._session.masker.text(how))
            self._settle(task, site)

    async def _keep(self, task: "TaskId", bridge: "ReloadingBridge") -> None:
        try:
            await bridge.run()
        finally:
            if task in self._sites and self._sites[task].bridge is bridge:
                del self._sites[task]

    def _path(self, task: "Task") -> str:
        """Where the reload channel lies: the same in each session, so that tabs find it again."""
        from hashlib import blake2b  # noqa: PLC0415 - few servers need it

        from vxwatch.cache.secretkey import secret_key  # noqa: PLC0415 - the same

        session = self._session
        place = f"{session.workspace.root}\0{task.id}".encode("utf-8", "surrogateescape")
        key = secret_key(session.environ)
        return (
            f"/__vx__/{blake2b(place, key=key, digest_size=20, person=b'live reload').hexdigest()}/"
        )

    def _next(self) -> str:
        return f"{self._run}.{next(self._versions)}"

    # What is heard

    def _begin(self, event: RunStarted) -> None:
        """Another plan: who concerns whom is found out anew."""
        self._concerns.clear()
        tasks = map(self._session.workspace.task, event.servers)
        self._wanted = event.verb == "watch" and any(
            task.persistent is not None and task.persistent.live_reload for task in tasks
        )

    def _hear(self, event: Event) -> None:
        match event:
            case TaskStarted(task) | TaskRetried(task):
                self._tails[task] = bytearray()
            case TaskOutput(task, _, data) if task in self._tails:
                tail = self._tails[task]
                tail += data
                if len(tail) > 2 * TAIL:
                    del tail[:-TAIL]
            case TaskEnded(outcome):
                self._on_task_ended(outcome)
            case CycleStarted():
                self._busy = True
            case CycleEnded():
                self._busy = False
                self._on_cycle_ended(event)
            case ServerReady(task):
                self._on_ready(task)
            case ServerExited(task, code, False, detail):
                self._failed[task] = self._failure(task, detail or f"ended with exit {code}")
                if not self._busy:
                    self.settle()
            case _:
                pass

    def _on_task_ended(self, outcome: Outcome) -> None:
        task = outcome.task
        if outcome.status == "failed":
            code = f"failed with exit {outcome.code}" if outcome.code is not None else "failed"
            self._failed[task] = self._failure(
                task, f"failed: {outcome.detail}" if outcome.detail else code, outcome.findings
            )
        elif outcome.ok:
            self._failed.pop(task, None)
        if outcome.status not in ("ready", "kept"):
            self._tails.pop(task, None)

    def _on_cycle_ended(self, event: CycleEnded) -> None:
        for task, site in self._sites.items():
            concerned = self._concerned(task)
            for outcome in event.outcomes:
                if outcome.status in _MADE_NEW and outcome.task in concerned:
                    site.stale = True
                    site.servers |= outcome.status == "ready" and outcome.task != task
        self.settle()

    def _on_ready(self, task: "TaskId") -> None:
        self._failed.pop(task, None)
        if self._busy:
            return
        for other, site in self._sites.items():
            if task in self._concerned(other):
                site.stale = True
                site.servers |= other != task
        self.settle()

    # What is told

    def _settle(self, task: "TaskId", site: _Site) -> None:
        from vxwatch.reload.news import encode  # noqa: PLC0415 - few servers have it

        concerned = self._concerned(task)
        failed = [told for one, told in self._failed.items() if one in concerned]
        if site.stale and not failed:
            if not site.fresh:
                site.version = self._next()
            site.stale = False
        elif failed:
            site.servers = False
        site.fresh = False
        news = encode(site.version, servers=site.servers, failed=failed[:MOST_SHOWN])
        if news != site.told:
            site.told = news
            site.bridge.publish(news)
        site.servers = False

    def _concerned(self, server: "TaskId") -> "frozenset[TaskId]":
        """The tasks in the server's project, and all that it depends on."""
        if server not in self._concerns:
            graph = self._session.plan.graph
            project = server.rpartition("#")[0]
            found = {task for task in graph.order if task.rpartition("#")[0] == project}
            ahead = [server]
            while ahead:
                task = ahead.pop()
                found.add(task)
                ahead += (one for one in graph.dependencies.get(task, ()) if one not in found)
            self._concerns[server] = frozenset(found)
        return self._concerns[server]

    def _failure(self, task: "TaskId", how: str, findings: tuple[str, ...] = ()) -> dict[str, str]:
        tail = bytes(self._tails.get(task, b""))
        cut = len(tail) > TAIL
        text = re.sub(ESCAPES, "", tail[-TAIL:].decode(errors="replace"))
        lines = [f"sandbox: {task} {finding}" for finding in findings]
        output = "\n".join(["...", text] if cut else [text])
        return {
            "task": task,
            "how": how[:MOST_SAID],
            "output": "\n".join([*lines, re.sub(_CONTROLS, "", output).strip("\n")]),
        }

    def _tell(self, task: "TaskId", text: str, hint: str) -> None:
        level: Literal["note", "warning"] = "warning"
        self._session.emit(Notice(f"{task}: {text}", hint, level))
