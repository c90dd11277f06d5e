"""Makes boxes: a bubblewrap command line with the descriptors that it binds.

What a box needed outside of itself (descriptors, placeholders, ports) is taken back by its
`close`. Whether this host can hold a box at all is not asked here (`probe` does).
"""

import errno
import os
import platform
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from vxwatch.model import Task, Workspace
from vxwatch.process.launching import Launch, Stdin
from vxwatch.sandbox import births, budget
from vxwatch.sandbox.bwrap import (
    ARGS_FD,
    BLOCK_FD,
    FILTER_FD,
    FIRST_BIND_FD,
    LOG_FD,
    Programs,
    Shape,
    arguments,
    command_line,
)
from vxwatch.sandbox.entrance import Entrance, entrance
from vxwatch.sandbox.grants import Place, no_file_there, not_made, not_opened
from vxwatch.sandbox.host import describe, home, other_owner, reachable, scratch_room, tools
from vxwatch.sandbox.opening import Placeholders, in_memory, open_real
from vxwatch.sandbox.policy import Mount, decide, shows
from vxwatch.sandbox.seccomp import filter_program
from vxwatch.sandbox.survey import Survey, survey
from vxwatch.sandbox.trace import Report, Trace
from vxwatch.sandbox.tracing import Tracing

if TYPE_CHECKING:
    from vxwatch.hosts import Refusal
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.tree import Tree
    from vxwatch.sandbox.saving import Saving

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
"""The path is no longer what it was when it was looked at."""
_NOT_STARTED = frozenset({126, 127})
"""Exit codes of a shell whose command could not be executed, or was not found."""
_GIT = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
"""A repository that is mounted into a box lies on another file system than the files around it."""
_LASTING = frozenset({"read", "write"})
_BOUND = frozenset({"read", "write", "blank", "desk"})


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found when a box was made, and is asked for when it has ended.

    `closed` are toolchains its user may not enter, `bound` identities of what it shows, `saving`
    the files that it may save one by one.
    """

    closed: tuple[str, ...]
    bound: Mapping[str, tuple[int, int]]
    before: births.Births
    saving: "Saving | None" = None


class Box:
    """One box: launch its `launch`, `open` it, and `close` it when its tree is gone.

    `close` is needed in any case, also when the launch failed.
    """

    def __init__(
        self,
        launch: Launch,
        sent: ExitStack,
        lent: AsyncExitStack,
        entrance: Entrance | None,
        seen: _Seen,
        trace: Trace | None = None,
    ) -> None:
        self.launch = launch
        self._trace = trace
        self._saving = seen.saving
        self._seen = seen
        self._sent = sent
        self._lent = lent
        self._entrance = entrance

    async def open(self, tree: "Tree") -> None:
        """Let the command start once its network is there; call it after the launch.

        Raises `UserError`.
        """
        self._sent.close()
        if self._entrance is not None and tree.init is not None:
            await self._entrance.open(tree.init)

    def explain(self, code: int) -> str:
        """What the box has to do with this exit code of its command; "" if nothing."""
        if code not in _NOT_STARTED or not self._seen.closed:
            return ""
        return (
            "vx runs as root and the task as the owner of the workspace, "
            f"who may not use the programs in {self._seen.closed[0]}"
        )

    async def report(self, code: int) -> Report:
        """What its command, which ended with this code, was denied, as far as it is told.

        Raises `UserError` when its network failed, or when a file could not be saved.
        """
        strays = self._saving.settle() if self._saving is not None else ()
        refused = () if self._entrance is None else await self._entrance.finish()
        if self._trace is not None:
            report = await self._trace.report(code, strays, refused)
        else:
            report = self._saving.told(strays) if self._saving is not None else Report()
        return report if self._entrance is None else self._entrance.complete(report, refused)

    def replaced(self) -> str | None:
        """A path that the box shows as it was: another file or directory is there by now.

        A bind stays with what it bound, so what is saved by a rename, or removed and made again,
        is not seen inside. What is in a directory that is bound is, whatever becomes of it.
        """
        for path, identity in self._seen.bound.items():
            try:
                found = os.lstat(path)
            except OSError:
                continue  # perhaps it comes again
            if (found.st_dev, found.st_ino) != identity:
                return path
        return self._saving.replaced() if self._saving is not None else None

    def left(self) -> Report:
        """What a server that has ended left beside its files. Raises `UserError`."""
        return Report() if self._saving is None else self._saving.told(self._saving.settle())

    def born(self) -> tuple[str, ...]:
        """Absolute paths of what vx or other tools obey and that appeared where the task may write."""
        return self._seen.before.found()

    def when_closed(self, tell: Callable[[], None]) -> None:
        """Call this when the box is closed, before anything is taken back."""
        self._lent.callback(tell)

    async def close(self) -> None:
        """Take back what the box needed: its tree is gone, or never was."""
        await self._lent.aclose()


class BoxMaker:
    """Makes the boxes of one session.

    `tracing` says whose commands are traced. `on_refusal` hears of the connections that servers are
    refused.
    """

    def __init__(
        self,
        nursery: "Nursery",
        workspace: Workspace,
        environ: Mapping[str, str],
        programs: Programs,
    ) -> None:
        self.workspace = workspace
        self.on_refusal: Callable[[Task, Refusal], None] | None = None
        self._nursery = nursery
        self._environ = environ
        self._programs = programs
        self._owner = other_owner(workspace.root)
        self._placeholders = Placeholders(nursery, self._owner)
        machine = platform.machine()
        self._filters = {unix: filter_program(machine, unix=unix) for unix in (False, True)}
        self._room = scratch_room()
        self._numbers = count(1)
        # Toolchains do not come and go in a session, and a PATH has many places to look at.
        self._shown: dict[tuple[str, tuple[str, ...]], tuple[Place, ...]] = {}
        users = (os.geteuid(), *(self._owner or ())[:1])
        self._host = describe(environ, session=nursery.directory, users=users)
        self._temp = next(iter(self._host.scratch), "/tmp")  # noqa: S108 - the box's private one
        self._home = home(environ)
        self.tracing = Tracing(self._host, self._home)

    async def make(
        self,
        task: Task,
        command: str,
        environment: Mapping[str, str],
        stdin: Stdin,
        *,
        folded: AbstractSet[str] | None = None,
        own_proc: bool = True,
    ) -> Box:
        """The box in which the command of this task will run. Raises `UserError`.

        PWD and TMPDIR of the environment are set here; a TMPDIR that the task sets stays.
        `folded` names the projects whose keys the task's key folds, None if that does not count.
        """
        assert task.sandbox is not None
        if own_proc and (expected := self.tracing.expected(task)):
            self._nursery.reserve(expected)
        temp = f"{self._temp}/vx-{next(self._numbers)}"
        own_temp = dict(task.env_set).get("TMPDIR", temp)
        async with AsyncExitStack() as stack:
            sent = stack.enter_context(ExitStack())
            found = survey(task, self.workspace, home=self._home, temp=temp, folded=folded)
            await self._make_missing(found, stack)
            shown, closed = self._tools(found, environment.get("PATH", ""))
            mounts = self._mounts(found, shown)
            # Of a server nobody asks for a report.
            told = self.on_refusal if task.persistent else None
            tell = partial(told, task) if told else None
            ways = entrance(self._nursery, task, tell)
            if ways is not None:
                sent.callback(ways.let_go)
                stack.push_async_callback(ways.close)
                await ways.begin()
            as_root = os.geteuid() == 0 and self._owner is None
            directory = found.ground.directory
            shape = Shape(directory, self._room, root_user=as_root, own_proc=own_proc)
            saving = await self._saving(task, mounts, stack)
            descriptors, bound = self._bind(_there(mounts, found), shape, sent, saving)
            allowed = self._filters[task.sandbox.unix_sockets is not None]
            descriptors[FILTER_FD] = in_memory(allowed, sent)
            trace = None
            if own_proc and self.tracing.wants(task):
                trace = self.tracing.begin(self.workspace, task, found, mounts)
                stack.callback(trace.close)
                sent.callback(os.close, trace.descriptor)
                if not trace.supervised:
                    descriptors[LOG_FD] = self._lent_log(trace)
            launch = self._launch(command, found, environment, stdin, ways, trace)
            launch = launch._replace(
                env={**launch.env, "PWD": directory, "TMPDIR": own_temp},
                fds=descriptors | ({BLOCK_FD: ways.waits} if ways else {}),
            )
            lent = stack.pop_all()
            seen = _Seen(closed, bound, _before(found, mounts), saving)
        return Box(launch, sent, lent, ways, seen, trace)

    def _launch(
        self,
        command: str,
        found: Survey,
        environment: Mapping[str, str],
        stdin: Stdin,
        ways: Entrance | None,
        trace: Trace | None,
    ) -> Launch:
        """How the box is started, but for what is lent to it and where its files are."""
        return Launch(
            argv=command_line(
                self._programs,
                command,
                blocked=ways is not None,
                tracer=self.tracing.words(trace),
                on_terminal=stdin == "terminal",
            ),
            cwd=found.ground.directory if self._owner is None else "/",
            env={
                **environment,
                **(_GIT if found.names_git else {}),
                **(ways.variables(environment) if ways else {}),
            },
            stdin=stdin,
            owner=self._owner,
            boxed=True,
            supervision=trace.supervision() if trace else None,
        )

    def _lent_log(self, trace: Trace) -> int:
        if self._owner is not None:
            os.fchown(trace.descriptor, *self._owner)  # opened again by name, in the box
        return trace.descriptor

    async def _saving(
        self, task: Task, mounts: tuple[Mount, ...], stack: AsyncExitStack
    ) -> "Saving | None":
        if not any(mount.kind == "desk" for mount in mounts):
            return None
        from vxwatch.sandbox.desks import Keep  # noqa: PLC0415 - few tasks save single files
        from vxwatch.sandbox.saving import saving  # noqa: PLC0415

        keep = Keep(self.workspace.root, self._placeholders, self._nursery, self._owner)
        scene = partial(self.tracing.scene, self.workspace, task, mounts)
        return await saving(mounts, task, scene, keep, stack)

    async def _make_missing(self, found: Survey, stack: AsyncExitStack) -> None:
        for missing in found.missing:
            try:
                held = await self._placeholders.hold(missing.path, missing.kind)
            except OSError as error:
                reason = error.strerror or str(error)
                raise not_made(missing.grant, missing.path, reason) from None
            stack.push_async_callback(self._placeholders.release, held)

    def _mounts(self, found: Survey, shown: tuple[Place, ...]) -> tuple[Mount, ...]:
        for parent in found.ground.siblings:
            if parent in self._host.scratch:
                raise no_file_there(parent)
        mounts = decide(replace(self._host, tools=shown), found.ground)
        budget.check(mounts, found.sizes)
        return mounts

    def _tools(self, found: Survey, search: str) -> tuple[tuple[Place, ...], tuple[str, ...]]:
        """The toolchains to show, and the paths of those that the box's user may not enter."""
        wanted = (search, found.interpreters)
        shown = self._shown.get(wanted)
        if shown is None:
            shown = self._shown[wanted] = tools(self._host, *wanted)
        closed = {place.path for place in shown if not self._may_enter(place.path)}
        return tuple(place for place in shown if place.path not in closed), tuple(sorted(closed))

    def _may_enter(self, path: str) -> bool:
        return self._owner is None or reachable(path, *self._owner)

    def _bind(
        self,
        mounts: tuple[Mount, ...],
        shape: Shape,
        sent: ExitStack,
        saving: "Saving | None",
    ) -> tuple[dict[int, int], dict[str, tuple[int, int]]]:
        """Open what the box binds: descriptors by number in the child, identities by path.

        The identities are those of what belongs to the workspace.
        """
        bound: dict[str, tuple[int, int]] = {}
        shown: list[Mount] = []
        numbers: dict[str, int] = {}
        given: dict[int, int] = {}
        for mount in mounts:
            if mount.kind in _BOUND:
                try:
                    descriptor = self._open(mount, saving)
                except OSError as error:
                    if mount.kind == "read" and error.errno in _GONE:
                        continue
                    raise not_opened(mount.path, error.strerror or str(error)) from None
                sent.callback(os.close, descriptor)
                numbers[mount.path] = FIRST_BIND_FD + len(numbers)
                given[numbers[mount.path]] = descriptor
                if mount.kind in _LASTING and mount.path.startswith(f"{self.workspace.root}/"):
                    status = os.fstat(descriptor)
                    bound[mount.path] = status.st_dev, status.st_ino
            shown.append(mount)
        given[ARGS_FD] = in_memory(arguments(shown, numbers, shape), sent)
        return given, bound

    def _open(self, mount: Mount, saving: "Saving | None") -> int:
        if mount.kind == "blank":
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if not self._may_enter(mount.path):
            raise PermissionError(errno.EACCES, "the owner of the workspace may not go there")
        if mount.kind == "desk" and saving is not None:
            return open_real(saving.path(mount.path))
        return open_real(mount.path)


def _there(mounts: tuple[Mount, ...], found: Survey) -> tuple[Mount, ...]:
    """All but the sockets of strangers that are gone by now: bubblewrap can cover none of those."""
    strangers = frozenset(found.ground.strangers)
    return tuple(m for m in mounts if m.path not in strangers or os.path.lexists(m.path))


def _before(found: Survey, mounts: tuple[Mount, ...]) -> births.Births:
    """What the places look like in which something may appear that is to be told.

    What is mounted read-only is watched where it has a second name, which may be writable.
    """
    fixed = frozenset(found.ground.protected)
    return births.before(
        (path for path in found.watched if path in fixed or shows(mounts, path) == "write"),
        (path for path in found.nurseries if shows(mounts, path) == "write"),
    )
