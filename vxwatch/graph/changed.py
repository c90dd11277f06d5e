"""Which tasks of a graph changed files reach, configs included. Pure."""

from collections.abc import Collection

from vxwatch.graph.affected import Affected, Tracked
from vxwatch.graph.tasks import Graph
from vxwatch.model import TaskId, Workspace


def changed_tasks(
    workspace: Workspace,
    graph: Graph,
    paths: Collection[str],
    *,
    shared: Collection[str],
    tracked: Tracked | None = None,
) -> frozenset[TaskId]:
    """The tasks that a change of these paths reaches, and all that depend on them.

    A project's config concerns its tasks, the `shared` ones all. What is `tracked` is nobody's output.
    """
    if not set(shared).isdisjoint(paths):
        return frozenset(graph.order)
    touched = Affected(workspace, graph, tracked).touched(paths)
    projects = workspace.projects.values()
    moved = {p.name for p in projects if not {p.config, *p.manifests}.isdisjoint(paths)}
    own = {task for task in graph.order if task.rpartition("#")[0] in moved}
    return graph.downstream({*touched.inputs, *touched.uncached, *touched.restarts, *own})
