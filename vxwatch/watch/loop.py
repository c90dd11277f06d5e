"""The feed of the watch loop: settled sets of paths that really changed.

A change of content in the scope, made at any time after the feed was entered, is in a set
given after it settled; none is lost between two calls, while a cycle runs, or when a call is
cancelled. A set waits for a git operation to end, and for the pause of a loop that tasks make
among themselves. The feed knows nothing of tasks.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Self

from vxwatch.watch.debounce import QUIET, Debounce
from vxwatch.watch.gitlock import GitLock
from vxwatch.watch.judge import SOON, LoopGuard, Origin, Verdict
from vxwatch.watch.ours import OwnOutput
from vxwatch.watch.scope import Scope
from vxwatch.watch.watcher import Batch, Watcher

_LOCK_BOUND = 10.0
_LOCK_LOOK = 0.02
_MOST_NAMED = 3


class ChangeFeed:
    """Entered, it watches; `next` gives what changed. Leaving ends the watcher.

    `refresh` looks at paths and `rescan` through a directory; both give the paths whose
    content, mode bit, link target or existence is another one than when they were last looked
    at. A path may name a directory that came or went. Both are called on the event loop. Have
    them see the files for the first time after the feed was entered.

    `shifted` are the directories that were moved to where they are since tasks run: they may have
    been away.
    """

    def __init__(
        self,
        watcher: Watcher,
        root: str,
        refresh: Callable[[Collection[str]], frozenset[str]],
        rescan: Callable[[str], frozenset[str]],
        notice: Callable[[str], None],
        *,
        quiet: float = QUIET,
    ) -> None:
        self._watcher = watcher
        self._refresh = refresh
        self._rescan = rescan
        self._notice = notice
        self._quiet = quiet
        self._root = root
        self._lock = GitLock(root)
        self._guard = LoopGuard()
        self._debounce = Debounce(quiet)
        self._paths: dict[str, Origin] = {}
        self._trees: dict[str, Origin] = {}
        self._found: set[str] = set()
        self._seen: frozenset[str] = frozenset()
        self._written: set[str] = set()
        self.shifted: set[str] = set()
        self._found_origin = Origin.OWN
        self._running = 0
        self._ended = float("-inf")
        self._ended_at = 0
        self._ours = OwnOutput()
        self._woken = asyncio.Event()
        self._collecting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Return once changes are seen."""
        await self._watcher.__aenter__()
        self._debounce = Debounce(max(0.0, self._quiet - self._watcher.settles))
        self._collecting = asyncio.get_running_loop().create_task(self._collect())
        self._collecting.add_done_callback(lambda _: self._woken.set())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """End the collecting, then the watcher."""
        try:
            if self._collecting is not None:
                self._collecting.cancel()
                await asyncio.wait([self._collecting])
        finally:
            await self._watcher.__aexit__(*exc_info)

    async def next(self) -> frozenset[str]:
        """Wait until something changed and settled, and give it. One call at a time."""
        while True:
            await self._settled(self._due)
            if changed := self._judge():
                return changed

    def add(self, changed: Collection[str]) -> None:
        """Give these with the next set: somebody else looked at them first, and they changed.

        They may be half-written, so this set settles as any other, and is looked at once more.
        """
        changed = self._ours.left_out(self._root, changed)
        if not changed:
            return
        self._doubt(changed)
        self._found |= changed
        self._paths = dict.fromkeys(changed, Origin.OWN) | self._paths
        self._debounce.event(asyncio.get_running_loop().time())
        self._woken.set()

    def read(self) -> None:
        """All of the root was looked at just now: what came meanwhile is known to that look alone."""
        self._watcher.doubt((), [""])

    def taken(self, paths: Collection[str]) -> None:
        """Give these no more: what `glance` gave of them was reacted to, as they are now."""
        self._found.difference_update(paths)

    async def glance(self) -> frozenset[str]:
        """While tasks run: wait until something settled, and give what changed.

        The next `next` gives it once more, even if it has changed back by then. Not to be called
        while `next` waits.
        """
        await self._settled(self._debounce.due)
        seen, self._seen = self._seen, frozenset()
        return self._look() | seen

    def look(self) -> frozenset[str]:
        """While tasks run: look at all that has happened by now, at rest or not, and give what changed.

        `glance` gives it once more when it has come to rest, and so does `next`.
        """
        self._gather(self._watcher.take())
        if not (self._paths or self._trees):
            return frozenset()
        changed = self._look()
        self._seen |= changed
        self._debounce.event(asyncio.get_running_loop().time())
        self._woken.set()
        return changed

    @property
    def late(self) -> bool:
        """Whether what came and went may be told late, or never."""
        return self._watcher.late

    def overwritten(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that may have been written or replaced since tasks run.

        Where that was what was there already, who read it meanwhile may have read a part. Where
        events are late nobody knows, so all of them.
        """
        return [path for path in paths if self.late or path in self._written]

    @contextlib.contextmanager
    def cycle(self) -> Iterator[None]:
        """Stands around a time in which tasks run: what changes in it may be their work."""
        if not self._running:
            self._written.clear()
            self.shifted.clear()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._ended = asyncio.get_running_loop().time()
            self._ended_at = time.time_ns()

    def replace(self, scope: Scope) -> None:
        """Watch this scope from now on, without losing a change in what both hold."""
        self._watcher.replace(scope)

    async def _collect(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._gather(await self._watcher.next())
            self._debounce.event(clock())
            self._woken.set()

    def _gather(self, batch: Batch) -> None:
        now = asyncio.get_running_loop().time()
        if self._running:
            self._written |= batch.written
            self.shifted |= batch.shifted
        for kept, told in ((self._paths, batch.paths), (self._trees, batch.rescan)):
            for path in told:
                kept[path] = max(kept.get(path, Origin.OWN), self._origin(path, now))

    def _origin(self, path: str, now: float) -> Origin:
        """When a change that is told now was made.

        Told soon after a cycle it may be the work of the cycle; then the time of the file's
        last change decides, which no program can set. A time that is still to come is another
        machine's clock, and tells nothing.
        """
        ago = now - self._ended
        lag = self._watcher.lag
        if self._running:
            return Origin.OWN
        if ago > lag + SOON:
            return Origin.FOREIGN
        with contextlib.suppress(OSError):
            made = os.lstat(os.path.join(self._root, path)).st_ctime_ns
            if self._ended_at < made <= time.time_ns():
                return Origin.ECHO if made <= self._ended_at + SOON * 1e9 else Origin.FOREIGN
        return Origin.ECHO if ago > lag else Origin.OWN

    def _due(self) -> float | None:
        """When there is something to judge, as far as that is known."""
        times = (self._debounce.due(), self._guard.due())
        at_once = asyncio.get_running_loop().time() if self._found else None
        return min(filter(None, times), default=at_once)

    async def _settled(self, when: Callable[[], float | None]) -> None:
        """Return when that time has come, and git is not at work."""
        clock = asyncio.get_running_loop().time
        git_until: float | None = None
        while True:
            self._woken.clear()
            if self._collecting is not None and self._collecting.done():
                self._collecting.result()
            due = when()
            if due is None or due > clock():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await self._woken.wait()
            elif not self._lock.held():
                return
            else:
                git_until = git_until or clock() + _LOCK_BOUND
                await self._git_done(git_until)

    async def _git_done(self, until: float) -> None:
        clock = asyncio.get_running_loop().time
        while self._lock.held():
            if clock() >= until:
                self._notice(f"{self._lock.path} has been there for long: not waiting for it")
                self._lock.give_up()
            else:
                await asyncio.sleep(_LOCK_LOOK)
        self._debounce.clear()
        self._debounce.event(clock())

    def _doubt(self, changed: Collection[str]) -> None:
        """Have the files among these told once more: a directory is told by what is in it."""
        full = ((path, os.path.join(self._root, path)) for path in changed)
        files = (p for p, at in full if os.path.islink(at) or not os.path.isdir(at))
        self._watcher.doubt(files)

    def _look(self) -> frozenset[str]:
        """Look at what was collected; what changed is found."""
        paths, trees = self._paths, self._trees
        self._paths, self._trees = {}, {}
        self._debounce.clear()
        changed = self._ours.left_out(self._root, self._refresh(paths) if paths else ())
        origins = [paths.get(path, Origin.FOREIGN) for path in changed]
        for tree in _outermost(trees):
            found = self._ours.left_out(self._root, self._rescan(tree))
            origins += [trees[tree]] if found else []
            changed |= found
        self._doubt(changed)
        self._found |= changed
        self._found_origin = max(self._found_origin, *origins, Origin.OWN)
        return frozenset(changed)

    def _judge(self) -> frozenset[str]:
        """Look at what was collected, and give what to react to now."""
        self._look()
        self._seen = frozenset()
        found, origin = frozenset(self._found), self._found_origin
        self._found, self._found_origin = set(), Origin.OWN
        now = asyncio.get_running_loop().time()
        verdict = self._guard.sift(found, origin, now)
        self._name(verdict)
        return verdict.react | self._guard.release(now)

    def _name(self, verdict: Verdict) -> None:
        if not verdict.named:
            return
        names = sorted(verdict.named)
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        self._notice(
            f"{', '.join(names[:_MOST_NAMED])}{more}: changed in every cycle it caused. If a task "
            "writes it, declare it in the task's cache.outputs or git-ignore it; "
            f"the next cycle it causes waits {verdict.pause:.0f} s, then longer"
        )


def _outermost(directories: Iterable[str]) -> list[str]:
    """Those that lie in no other one of them."""
    found: list[str] = []
    for path in sorted(directories, key=lambda path: path.split("/") if path else []):
        inside = found and (found[-1] == "" or path.startswith(found[-1] + "/"))
        if not inside or (found[-1] == "" and path.startswith("/")):
            found.append(path)
    return found
