"""Traces the commands of boxes, and tells what they were denied.

Where the kernel can, by a supervisor outside of the box (`supervision`); else, and to learn what a
task needs, with strace. That runs inside the box, as a process beside the command, and writes into
a pipe that only the first process of the box holds; the command inherits nothing of it, and its
exit code, signals and output are its own. What cannot be traced runs all the same: its walls do not
depend on this.
"""

import asyncio
import fcntl
import os
import re
import socket
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vxwatch.process.command import capture
from vxwatch.process.programs import resolve
from vxwatch.sandbox.bwrap import LOG_FD
from vxwatch.sandbox.paths import inside
from vxwatch.sandbox.policy import shows
from vxwatch.sandbox.supervision import SupervisorLog, supervision
from vxwatch.sandbox.tracelog import Attempt, TraceLog, traced_calls

if TYPE_CHECKING:
    from vxwatch.hosts import Refusal
    from vxwatch.model import Task, Workspace
    from vxwatch.process.launching import Supervision
    from vxwatch.sandbox.findings import Scene
    from vxwatch.sandbox.policy import Mount

_ROOM = 1 << 20
"""Bytes that the pipe holds, so that strace seldom waits for us."""
_PAUSE = 0.01
"""Seconds between two reads: strace writes line by line, and to wake up for each would cost."""
_DRAIN = 2.0
"""Seconds for the log of a box that has ended to end, too."""
_FILTERS_SINCE, _APART_SINCE = (5, 3), (5, 6)
_GRANTED = frozenset({"read", "write", "saved"})
_THERE = _GRANTED | {"link", "scratch", "blank"}
"""Kinds of mounts of which a look at their path finds something."""

MISSING = (
    "strace is not installed, so what sandboxed tasks are denied is not told",
    "sudo apt-get install strace",
)
SLOW = (
    "strace {} is old: tracing sandboxed tasks takes many times longer than with 5.6 or later",
    "update strace",
)


@dataclass(frozen=True, slots=True)
class Tracer:
    """An strace of this host: where it is, and which of its options it has."""

    program: str
    version: tuple[int, int]

    @property
    def slow(self) -> bool:
        """Whether it stops at every system call, and not only at those it is asked for."""
        return self.version < _FILTERS_SINCE

    def words(self, *, looks: bool) -> tuple[str, ...]:
        """The words to put before a command; `looks` traces the calls that only look at names."""
        return (
            *(self.program, "-o", f"/proc/1/fd/{LOG_FD}", "-I", "3", "-f", "-q", "-y", "-s", "0"),
            "-DD" if self.version >= _APART_SINCE else "-D",
            *(() if self.slow else ("--seccomp-bpf",)),
            *("-e", "signal=SEGV", "-e", "verbose=connect,?openat2,?clone3"),
            *("-e", f"trace={traced_calls(looks=looks)}", "--"),
        )


def find_tracer(environ: Mapping[str, str], root: str) -> Tracer | None:
    """The strace on PATH; None if there is none, or none that says its version."""
    program = resolve("strace", environ.get("PATH", os.defpath), root)
    if program is None:
        return None
    said = capture((program, "-V"), cwd="/", env={"PATH": os.defpath}).out
    found = re.search(rb"version (\d+)\.(\d+)", said)
    return Tracer(program, (int(found[1]), int(found[2]))) if found else None


def remark(tracer: Tracer | None) -> list[tuple[str, str]]:
    """What the user should know about it once: a text and a hint each."""
    if tracer is None:
        return [MISSING]
    if tracer.slow:
        return [(SLOW[0].format(".".join(map(str, tracer.version))), SLOW[1])]
    return []


@dataclass(frozen=True, slots=True)
class Report:
    """What came of tracing a command.

    `findings` say what it did that was denied, `remedies` what to write into the config. `first`
    is its working directory, if the command failed and nothing in there is granted.
    `lost`: the tracer itself failed, so there is nothing to be said about the command. `cut`: it
    was denied, or just did, more than was looked at. `learned` are the lines of the table that
    would let it pass.
    """

    findings: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    first: str = ""
    lost: bool = False
    cut: bool = False
    learned: tuple[str, ...] = ()


class Trace:
    """The log of one box: give `descriptor` to who traces, and `close` this when it has ended.

    With `bare`, which is what a box without grants would show, it learns what the task needs
    instead of telling what it was denied. `looks` says whether the calls that only look at names
    are to be traced as well: where some of the project is hidden, since they are many.
    `supervised`: a supervisor writes the log, else strace.
    """

    def __init__(
        self, task: "Task", scene: "Scene", bare: "Scene | None" = None, *, supervised: bool
    ) -> None:
        self._task = task
        self._scene = scene
        self._bare = bare
        self.supervised = supervised
        self.log = (
            SupervisorLog() if supervised else _strace_log(scene, everything=bare is not None)
        )
        self.looks = bare is not None or _hides(scene)
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._hurried = False
        self._read, self.descriptor = os.pipe()
        os.set_blocking(self._read, False)
        with suppress(OSError):  # the user may have used up what all his pipes may hold
            fcntl.fcntl(self._read, fcntl.F_SETPIPE_SZ, _ROOM)
        self._loop.add_reader(self._read, self._take)

    def supervision(self) -> "Supervision | None":
        """What a supervisor that writes this log is told."""
        if not self.supervised:
            return None
        return supervision(self._scene, self.descriptor, looks=self.looks)

    async def report(
        self, code: int, more: Iterable[Attempt] = (), refused: "Sequence[Refusal]" = ()
    ) -> Report:
        """What the command, which has ended with this code, was denied; `more` it was as well.

        `refused` are the connections that its proxy refused, which are not told here once more.
        """
        self._hurried = True
        self._go_on()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                await self._over.wait()
        if self.log.failed(code):
            return Report(lost=True)
        if self._bare is not None and isinstance(self.log, TraceLog):
            learned = await asyncio.to_thread(_learned, self.log, self._bare, self._task, refused)
            rest = ("# the task failed, so this may not be all",) if code else ()
            return Report(cut=self.log.cut, learned=(*learned, *rest))
        nothing = _unread(self._scene) if code else ""
        attempts = (*self.log.attempts, *more)
        if not attempts:
            return Report(cut=self.log.cut, first=nothing)
        targets = {one.target for one in refused}
        found = await asyncio.to_thread(judged, attempts, self._scene, self._task, targets)
        return replace(found, first=nothing, cut=self.log.cut)

    def close(self) -> None:
        """Read no more."""
        if self._read >= 0:
            self._loop.remove_reader(self._read)
            os.close(self._read)
            self._read = -1

    def _take(self) -> None:
        try:
            data = os.read(self._read, _ROOM)
        except BlockingIOError:
            return
        if not data:
            self.close()
            self._over.set()
            return
        self.log.feed(data)
        if not self._hurried:
            self._loop.remove_reader(self._read)
            self._loop.call_later(_PAUSE, self._go_on)

    def _go_on(self) -> None:
        if self._read >= 0:
            self._loop.add_reader(self._read, self._take)


def _strace_log(scene: "Scene", *, everything: bool) -> TraceLog:
    hidden = frozenset(m.path for m in scene.mounts if m.kind == "blank")
    return TraceLog(scene.directory, everything=everything, watched=_within(hidden, scene.root))


def scene_of(
    workspace: "Workspace",
    task: "Task",
    mounts: "tuple[Mount, ...]",
    directory: str,
    home: str,
    *,
    unfolded: frozenset[str] = frozenset(),
) -> "Scene":
    """What a box with these mounts shows of the workspace; `unfolded` are packages it withholds."""
    from vxwatch.sandbox.findings import Scene  # noqa: PLC0415

    others = {
        os.path.realpath(os.path.join(workspace.root, project.dir)): name
        for name, project in workspace.projects.items()
        if project.dir and name != task.project
    }
    return Scene(mounts, workspace.root, directory, os.path.realpath(home), others, unfolded)


def _within(paths: frozenset[str], root: str) -> frozenset[str]:
    return frozenset(path for path in paths if inside(path, root))


def judged(
    attempts: Iterable[Attempt], scene: "Scene", task: "Task", refused: Container[str] = ()
) -> Report:
    """What is said of a command of these attempts; nothing of the targets that are `refused`."""
    from vxwatch.sandbox.advice import remedies, sentences  # noqa: PLC0415
    from vxwatch.sandbox.findings import judge  # noqa: PLC0415
    from vxwatch.sandbox.places import follow  # noqa: PLC0415

    assert task.sandbox is not None
    found = judge(attempts, scene, task.sandbox, follow, refused)
    return Report(sentences(found), remedies(found, task.name, task.sandbox))


def _learned(
    log: TraceLog, bare: "Scene", task: "Task", refused: "Sequence[Refusal]"
) -> tuple[str, ...]:
    from vxwatch.sandbox.learning import Disk, Terms, table  # noqa: PLC0415
    from vxwatch.sandbox.places import files_below, follow, lies  # noqa: PLC0415

    def absolute(name: str) -> str:
        return os.path.join(bare.directory, bare.home + name[1:] if name[:1] == "~" else name)

    disk = Disk(
        files=lambda name: files_below(absolute(name)),
        lies=lambda name: lies(absolute(name)) or "",
        listens=_listens,
    )
    assert task.sandbox is not None
    terms = Terms(task.sandbox, refused)
    return table(log.attempts, bare, task.name, follow, disk, terms)


def _listens(port: int) -> bool:
    """Whether something on this machine answers at the port."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _hides(scene: "Scene") -> bool:
    """Whether something that lies in the directory of the command is not there in its box."""
    from vxwatch.sandbox.places import listing  # noqa: PLC0415

    if shows(scene.mounts, scene.directory) in {"read", "write"}:
        return False
    kinds = {mount.path: mount.kind for mount in scene.mounts}
    ahead = [scene.directory]
    while ahead:
        directory = ahead.pop()
        for name in listing(directory):
            path = os.path.join(directory, name)
            if path not in kinds:
                return True
            if kinds[path] not in _THERE:
                ahead.append(path)
    return False


def _unread(scene: "Scene") -> str:
    """Where nothing is granted of the directory that the command ran in: its name."""
    for mount in scene.mounts:
        if mount.kind in _GRANTED and inside(mount.path, scene.directory):
            if not mount.path.endswith("/node_modules"):
                return ""
        elif mount.kind in _GRANTED and inside(scene.directory, mount.path):
            return ""
    return scene.directory
