"""What a session needs for its sandboxed tasks: the check of the host, and boxes.

Nothing ever runs unconfined: when this host cannot hold a task, or a grant is refused, there is no
box and the caller gets a `UserError`. What makes boxes is loaded for the first sandboxed task:
most sessions have none, and it is a quarter of what there is to load.
"""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vxwatch.errors import UserError

if TYPE_CHECKING:
    from vxwatch.hosts import Refusal
    from vxwatch.model import Task, TaskId, Workspace
    from vxwatch.process.launching import Stdin
    from vxwatch.process.nursery import Nursery
    from vxwatch.sandbox.births import Mark
    from vxwatch.sandbox.boxes import Box, BoxMaker
    from vxwatch.sandbox.diagnosis import Verdict
    from vxwatch.sandbox.trace import Tracer


def load() -> None:
    """Load what the first sandboxed task needs, which takes about as long as a nursery to start."""
    import vxwatch.sandbox.boxes  # noqa: PLC0415
    import vxwatch.sandbox.findings  # noqa: PLC0415
    import vxwatch.sandbox.probe  # noqa: PLC0415
    import vxwatch.sandbox.trace  # noqa: F401, PLC0415


class SandboxRuntime:
    """The sandbox of one session: boxes are made and closed inside its block.

    `on_refusal`, set before the first box, hears of the connections that servers are refused.
    """

    def __init__(
        self, nursery: "Nursery", workspace: "Workspace", environ: Mapping[str, str]
    ) -> None:
        self._nursery = nursery
        self._workspace = workspace
        self._environ = environ
        self._asking = asyncio.Lock()
        self._verdict: Verdict | None = None
        self._maker: BoxMaker | None = None
        self._tracer: Tracer | None = None
        self._looked = False
        self.on_refusal: Callable[[Task, Refusal], None] | None = None
        self._remarks: list[tuple[str, str]] = []
        self._live: dict[Box, TaskId] = {}
        self._born: dict[str, tuple[TaskId, Mark]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._maker = None

    def reload(self, workspace: "Workspace") -> None:
        """Make further boxes by what the workspace says now. Its root stays."""
        self._workspace = workspace
        if self._maker is not None:
            self._maker.workspace = workspace

    async def ensure(self, *, weaker: bool = False) -> None:
        """Find out, once, whether this host can hold a sandbox; if `weaker`, at least such a one.

        Raises `UserError` with the reason and the remedy if it cannot, each time it is asked.
        """
        async with self._asking:
            if self._verdict is None:
                from vxwatch.sandbox.probe import probe  # noqa: PLC0415

                # What the first task needs besides is looked for while the box of the probe runs.
                looking = asyncio.get_running_loop().run_in_executor(None, self._look)
                try:
                    root = self._workspace.root
                    self._verdict = await probe(self._nursery, self._environ, root)
                finally:
                    await looking
        if not self._verdict.ok and not (weaker and self._verdict.weaker):
            raise UserError(
                "sandbox-unavailable",
                f"sandboxed tasks cannot run here: {self._verdict.reason}",
                self._verdict.fix,
            )

    async def box(
        self,
        task: "Task",
        command: str,
        environment: Mapping[str, str],
        stdin: "Stdin",
        *,
        folded: AbstractSet[str] | None = None,
    ) -> "Box":
        """The box in which this task's command will run; `ensure` has returned before.

        `folded` names the projects whose keys the task's key folds, None if that does not count.
        Raises `UserError` for a grant that is refused.
        """
        maker = self._the_maker()
        if not self._looked:
            await asyncio.to_thread(self._look)
        maker.tracing.tracer = self._tracer
        maker.tracing.supervises = self._supervises()
        own_proc = self._verdict is None or self._verdict.ok
        box = await maker.make(task, command, environment, stdin, folded=folded, own_proc=own_proc)
        self._live[box] = task.id
        box.when_closed(lambda: self._end(box))
        return box

    def _the_maker(self) -> "BoxMaker":
        if self._maker is None:
            from vxwatch.sandbox.boxes import BoxMaker  # noqa: PLC0415
            from vxwatch.sandbox.diagnosis import Verdict  # noqa: PLC0415
            from vxwatch.sandbox.probe import find_programs  # noqa: PLC0415

            programs = find_programs(self._environ, self._workspace.root)
            assert not isinstance(programs, Verdict)
            self._maker = BoxMaker(self._nursery, self._workspace, self._environ, programs)
            self._maker.on_refusal = self.on_refusal
        return self._maker

    def _look(self) -> None:
        """Find the tracer, and load what makes boxes and what judges what is traced in them."""
        load()
        from vxwatch.sandbox.trace import find_tracer, remark  # noqa: PLC0415

        self._tracer = find_tracer(self._environ, self._workspace.root)
        self._remarks = remark(self._tracer)
        self._looked = True

    async def learn(self, task: "Task") -> None:
        """Learn from now on what the task needs. Raises `UserError` if this host cannot."""
        await self.ensure()
        if self._tracer is None:
            from vxwatch.sandbox.trace import MISSING  # noqa: PLC0415

            raise UserError("no-strace", f"--learn needs strace: {MISSING[0]}", MISSING[1])
        self._the_maker().tracing.learning.add(task.id)

    def distrust_tracer(self, task: "Task") -> None:
        """Run the command of this task without a tracer from now on: it failed."""
        if self._maker is not None:
            self._maker.tracing.untraced.add(task.id)

    def _supervises(self) -> bool:
        return self._verdict is not None and self._verdict.supervises

    def remarks(self) -> list[tuple[str, str]]:
        """What the user should know of the tracing, each time only what is new."""
        if self._supervises():
            return []
        said, self._remarks = self._remarks, []
        return said

    def _end(self, box: "Box") -> None:
        from vxwatch.sandbox.births import mark  # noqa: PLC0415

        task = self._live.pop(box)
        self._born.update((path, (task, mark(path))) for path in box.born())

    def held(self) -> "dict[str, TaskId]":
        """What tasks made that vx and other tools would obey, by absolute path, and who made it.

        As long as the task runs, that is whatever appears there; afterwards, until it is changed
        or removed.
        """
        if not self._born and not self._live:
            return {}
        from vxwatch.sandbox.births import mark  # noqa: PLC0415

        held = {path: task for path, (task, seen) in self._born.items() if mark(path) == seen}
        for box, task in self._live.items():
            held.update(dict.fromkeys(box.born(), task))
        return held
