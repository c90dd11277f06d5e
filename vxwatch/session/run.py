"""`vx run`: one cycle in which everything may have changed, then the servers that were asked for.

Servers that were only dependencies end when nothing needs them any more. The first exit of a
server that is held in the foreground ends the session.
"""

from typing import TYPE_CHECKING

from vxwatch.graph.names import counts
from vxwatch.session.cycle import Cycle

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.session import Session


async def run(session: "Session") -> None:
    """Bring the plan up to date; return when it is done and no held server is left to wait for."""
    session.learn()
    session.listeners.append(lambda changed: _forget(session, changed))
    plan = session.plan
    # What is left out may be stale, and what builds on it then is nobody's to use again.
    session.memory.overtaken |= plan.left_out
    fresh = session.known.fresh - _uncertain(session)
    session.settle(task for task in plan.graph.order if task in fresh)
    done = plan.left_out | fresh
    running = [task for task in plan.graph.order if task not in done]
    cycle = Cycle(session, 1, running, ())
    await cycle.run()
    ended = cycle.end()
    held = [task for task in session.plan.requested if task in session.plan.servers]
    if not all(outcome.ok for outcome in ended.outcomes):
        return
    await session.stop_servers(session.plan.servers - _needed(session, held))
    if held:
        await session.server_exited.wait()


def _uncertain(session: "Session") -> "set[TaskId]":
    """Those found fresh that may not be so any more when their turn comes.

    Before them runs a task that their keys do not fold, and that may write what they take.
    """
    graph, workspace, fresh = session.plan.graph, session.plan.workspace, session.known.fresh
    uncertain: set[TaskId] = set()
    if not fresh or all(workspace.task(task).input_tasks is None for task in graph.order):
        return uncertain
    at_work: set[TaskId] = set()  # something runs there or before it
    for task in graph.order:
        below = graph.dependencies[task]
        if task not in fresh or not at_work.isdisjoint(below):
            at_work.add(task)
        unfolded = {other for other in below if not counts(workspace.task(task), other)}
        if not (unfolded.isdisjoint(at_work) and uncertain.isdisjoint(below)):
            uncertain.add(task)
    return uncertain


def _forget(session: "Session", changed: frozenset[str]) -> None:
    """What takes a file that changed and has not begun is made of what it holds now.

    What builds on tasks that are done goes by what these were made of.
    """
    touched = session.affected.touched(changed, session.index.ignored)
    affected = session.plan.graph.downstream(touched.inputs | touched.uncached)
    session.keys.forget(affected - session.begun)


def _needed(session: "Session", held: "list[TaskId]") -> "set[TaskId]":
    """The held servers and all that they depend on."""
    needed, waiting = set(held), list(held)
    while waiting:
        for dependency in session.plan.graph.dependencies[waiting.pop()]:
            if dependency not in needed:
                needed.add(dependency)
                waiting.append(dependency)
    return needed
