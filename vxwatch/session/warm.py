"""Whether a run has nothing to do, found out without an event loop; and the proof of it.

Only what is plainly so counts: every task is kept by the cache, and what it made under its
present key lies on disk as it was saved. Whatever else there is, an event loop is for.
"""

import contextlib
from typing import TYPE_CHECKING

from vxwatch.cache.results import is_kept
from vxwatch.cache.reuse import Cache
from vxwatch.outcome import Outcome
from vxwatch.process.twin import Twin, pays
from vxwatch.workspace.home import has_session

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vxwatch.cache.standing import Command
    from vxwatch.model import Task, TaskId
    from vxwatch.session.keys import KeyRing
    from vxwatch.session.knowledge import Knowledge
    from vxwatch.session.outputs_only import Around
    from vxwatch.session.planning import Options, Plan


_LOOK = 3e-5
"""Seconds to look at the outputs of a task that has few (seen: 3,270 in 0.1 s)."""


class Warm:
    """One look at a plan before it runs."""

    def __init__(self, plan: "Plan", options: "Options", known: "Knowledge") -> None:
        self._plan = plan
        self._options = options
        self._known = known
        self._tasks: list[Task] = []
        self._kept: list[Task] = []
        self._around: Sequence[Around] | None = None

    def look(self) -> tuple[Outcome, ...] | None:
        """How the tasks ended, where all are fresh; None where something may be to do.

        Those that are fresh are known to be from then on.
        """
        workspace = self._plan.workspace
        ordered = (workspace.task(task) for task in self._plan.graph.order)
        tasks = [task for task in ordered if task.command is not None]
        kept = [task for task in tasks if is_kept(task) and not task.interactive]
        if not kept or self._plan.left_out or self._options.cache not in ("use", "read"):
            return None
        cache = self._known.open_cache()
        if cache is None:
            return None
        fresh = self._fresh(cache, kept)
        self._known.write_down_keys()
        self._tasks, self._kept = tasks, kept
        if len(fresh) == len(tasks) or workspace.rules.exclusive_outputs:
            # What is done about one task may else undo another.
            self._known.fresh = frozenset(fresh)
        if len(fresh) < len(tasks) or self._known.in_trouble:
            return None
        return tuple(Outcome(task, "fresh") for task in fresh)

    def _fresh(self, cache: Cache, kept: "Sequence[Task]") -> "list[TaskId]":
        """Those of the tasks whose result under their present key is on disk.

        A copy of this process looks at the disk while keys are made, where that is much.
        """
        if not pays(len(kept) * _LOOK):
            keys = self._learn()
            return [t.id for t in kept if keys.vouched(t.id) and cache.standing(t, keys.key(t.id))]
        with Twin(lambda: cache.stand(kept)) as twin:
            keys = self._learn()
            sure = [
                keys.vouched(task.id) and cache.was_seen(task, keys.key(task.id)) for task in kept
            ]
            stand = twin.result() or [False] * len(kept)
        return [
            task.id
            for task, is_seen, stands in zip(kept, sure, stand, strict=True)
            if is_seen and (stands or cache.standing(task, keys.key(task.id)))
        ]

    def _learn(self) -> "KeyRing":
        self._known.learn()
        return self._known.keys

    def restore(self, command: str) -> tuple[Outcome, ...] | None:
        """How the tasks ended where those that are not fresh could all be restored.

        None where one of them must run. After a `look`, and where the run shows no output of
        what it restores.
        """
        known, cache = self._known, self._known.open_cache()
        rest = [task for task in self._kept if task.id not in known.fresh]
        if cache is None or len(self._kept) < len(self._tasks) or known.in_trouble:
            return None
        if not self._plan.workspace.rules.exclusive_outputs:
            return None
        if not rest or not all(known.keys.vouched(task.id) for task in rest):
            return None
        keys = {task.id: known.keys.key(task.id) for task in rest}
        if not cache.expect(keys.values()):
            return None
        from vxwatch.session.outputs_only import surroundings  # noqa: PLC0415 - few runs restore
        from vxwatch.session.restoring import restore_all, whatever_it_takes  # noqa: PLC0415

        root = self._plan.workspace.root
        self._around = surroundings(root, self._kept, cache, self._plan.since)
        stands = known.index.stands if has_session(root) else whatever_it_takes
        ended = restore_all(rest, keys, cache, root, command, stands)
        if ended is None or known.in_trouble:
            return None
        return tuple(ended.get(task.id) or Outcome(task.id, "fresh") for task in self._tasks)

    def prove(self, command: "Command", text: str) -> None:
        """Write down that the command has nothing to do, where stamps can prove that.

        After a `restore` that is proven of the rest: what it takes to restore again is written down.
        Not where git's commits or commands of the config have a say, which have to be asked each
        time, nor where secrets count, which are not to be guessed from a hash.
        """
        from vxwatch.cache.proof import Evidence, prove  # noqa: PLC0415 - where there was little to do
        from vxwatch.session.footprint import footprint  # noqa: PLC0415
        from vxwatch.session.outputs_only import surroundings  # noqa: PLC0415

        options, workspace = self._options, self._plan.workspace
        if options.affected is not None or any("[" in one for one in options.filters):
            return
        if workspace.secrets:
            return
        tasks = [workspace.task(task) for task in self._plan.graph.order]
        if any(task.input_runtime or task.input_workspace_runtime for task in tasks):
            return
        known, cache = self._known, self._known.open_cache()
        assert cache is not None, "tasks were fresh"
        places = self._around
        if places is None:
            places = surroundings(workspace.root, self._kept, cache, self._plan.since)
        paths = footprint(workspace, options.directory, known.index, known.ignores)
        if paths is None:
            return
        again = self._again(places, paths, cache) if places is not None else ""
        moving = {path for task in self._kept for path in cache.seen(task)}
        paths |= moving
        if again:
            moving.update(place.directory for place in places or ())
        names = {name for task in tasks for name in task.input_env}
        names.update(workspace.config_names)
        evidence = Evidence(names, paths, self._plan.since, moving)
        # It spares time and nothing else.
        with contextlib.suppress(OSError):
            prove(command, workspace.root, evidence, text, again)

    def _again(self, places: "Sequence[Around]", paths: "Collection[str]", cache: Cache) -> str:
        """What it takes to restore all of it again; "" where that is not to be told.

        A run of named projects shows what the tasks wrote, which takes the long way.
        """
        from vxwatch.session.outputs_only import describe  # noqa: PLC0415 - as above

        if not self._plan.broad:
            return ""
        keys = {task: self._known.keys.key(task.id) for task in self._kept}
        return describe(self._plan.workspace, places, paths, keys, cache, self._options.command)
