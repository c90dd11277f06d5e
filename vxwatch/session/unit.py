"""One live tree of one task, boxed or not: what a one-shot task and a server have in common.

`unit()` owns the tree, its box and its place among the session's live units; when the block
is left, whatever the way, the tree is dead and its box is taken back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from vxwatch.process.environment import task_environment
from vxwatch.process.nursery import Launch, OnOutput
from vxwatch.session.denied import tell_left
from vxwatch.session.race import race

if TYPE_CHECKING:
    from vxwatch.model import Task
    from vxwatch.process.launching import Stdin
    from vxwatch.process.tree import Exit, Tree
    from vxwatch.sandbox.trace import Report
    from vxwatch.session.session import Session


class Unit(NamedTuple):
    """A task whose tree is alive, in a box or not.

    `explain` says what its box has to do with an exit code, `replaced` names a path that the
    box shows as it was before something else came to its place, and `born` what appeared in it
    that a write grant does not open. `report` says what its command, which has ended with this
    code, was denied.
    """

    task: "Task"
    tree: "Tree"
    explain: Callable[[int], str] = lambda _: ""
    replaced: Callable[[], str | None] = lambda: None
    born: Callable[[], tuple[str, ...]] = lambda: ()
    report: "Callable[[int], Awaitable[Report]] | None" = None


@asynccontextmanager
async def unit(
    session: "Session",
    task: "Task",
    command: str,
    on_output: OnOutput,
    stdin: "Stdin" = "null",
) -> AsyncIterator[Unit]:
    """Start the task's tree and own it.

    Raises `LaunchError` when the command's shell cannot be started and `UserError` when its
    sandbox refuses to be built.
    """
    environment = task_environment(session.environ, task=task, workspace=session.workspace)
    gone = session.live.setdefault(task.id, asyncio.Event())
    gone.clear()
    try:
        if task.sandbox is None:
            launch = Launch(
                argv=(session.shell, "-c", command),
                cwd=session.directory(task),
                env=environment,
                stdin=stdin,
            )
            async with _tree(session, task, launch, on_output) as tree:
                yield Unit(task, tree)
        else:
            await session.sandbox.ensure(weaker=task.sandbox.weaker_when_nested)
            box = await session.sandbox.box(
                task, command, environment, stdin, folded=session.keys.folded(task)
            )
            try:
                async with _tree(session, task, box.launch, on_output) as tree:
                    await box.open(tree)
                    yield Unit(task, tree, box.explain, box.replaced, box.born, box.report)
                if task.persistent is not None:
                    tell_left(session, task, box)
            finally:
                await box.close()
    finally:
        del session.live[task.id]
        gone.set()


@asynccontextmanager
async def _tree(
    session: "Session", task: "Task", launch: Launch, on_output: OnOutput
) -> AsyncIterator["Tree"]:
    tree = await session.nursery.launch(launch, on_output)
    session.pids[task.id] = tree.init or tree.pid
    try:
        yield tree
    finally:
        session.pids.pop(task.id, None)
        await stop(session, task, tree)


async def stop(session: "Session", task: "Task", tree: "Tree") -> "Exit":
    """End the tree politely, then surely; at once when it has ended already."""
    return await tree.stop(session.polite_signal(task), session.grace(task), session.hurry)


async def bounded(tree: "Tree", limit: float | None) -> "Exit | None":
    """The tree's exit, or None when `limit` seconds passed first."""
    if limit is None:
        return await tree.wait()
    late = await race(tree.wait(), within=limit) is None
    return None if late else await tree.wait()
