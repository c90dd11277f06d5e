"""Keys that an earlier run made, as far as they are sure to be those of now.

A key is made of the workspace, of variables, of files and of the keys below it. Where the first two
are the same (`terms`), and stamps prove it of all files but some, only the tasks that take one of
those need new keys, and what builds on them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import xxhash

from vxwatch import __version__
from vxwatch.cache import SCHEMA
from vxwatch.cache.remembered import Keys

if TYPE_CHECKING:
    from vxwatch.cache.files import FileIndex
    from vxwatch.graph.affected import Affected
    from vxwatch.model import TaskId
    from vxwatch.session.keys import KeyRing
    from vxwatch.session.planning import Options, Plan

MANY = 256
"""Keys that take longer to make than to write down."""


def terms(plan: "Plan", options: "Options", index: "FileIndex", environ: Mapping[str, str]) -> str:
    """What keys of the plan go by beside files, as a hash; "" where that is not to be told.

    It is not where commands have a say, nor where secrets do, which are not to be guessed from a hash.
    """
    workspace = plan.workspace
    if options.verb != "run" or options.arguments or len(plan.graph.order) < MANY:
        return ""
    if not workspace.fingerprint or workspace.secrets:
        return ""
    tasks = [workspace.task(task) for task in plan.graph.order]
    if any(task.input_runtime or task.input_workspace_runtime for task in tasks):
        return ""
    names = {name for task in tasks for name in task.input_env}
    values = [(name, environ.get(name)) for name in sorted(names)]
    made_by = __version__, SCHEMA
    counts = repr((made_by, workspace.fingerprint, values, sorted(index.ignored)))
    return xxhash.xxh3_128_hexdigest(counts.encode("utf-8", "surrogateescape"))


def recalled(
    plan: "Plan", index: "FileIndex", affected: "Affected", terms: str
) -> Mapping["TaskId", str]:
    """The keys of the plan's tasks that nothing has reached since they were written down."""
    if not terms:
        return {}
    keys, moved = index.remembered()
    if keys.terms != terms:
        return {}
    reached = {task.id for path in moved for task in affected.takers(path)}
    reached.update(task for task in plan.graph.order if task not in keys.by_task)
    reached = {*plan.graph.downstream(reached)}
    return {task: keys.by_task[task] for task in plan.graph.order if task not in reached}


def write_down(ring: "KeyRing", index: "FileIndex", terms: str) -> None:
    """Have later runs recall the keys, where many were made. While no task runs. Raises OSError."""
    if terms and ring.count >= MANY:
        index.remember(Keys(terms, ring.lasting()))
