"""The keys of a plan's tasks, made when asked for and kept until something they fold moved.

A key is forgotten with `forget`, for a task and whoever depends on it; nothing here is
proportional to the workspace but the first pass. A task without declared inputs has a key too,
over all files of its project, but what depends on it cannot tell from a key what it wrote: for
them its key moves whenever it ran.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from vxwatch.cache.key import Key, server_fingerprint, task_key, without_secrets
from vxwatch.cache.lockparts import LockParts
from vxwatch.graph.affected import LOCKFILES, takes_whole
from vxwatch.graph.names import counts
from vxwatch.session.runtime import Runtime

if TYPE_CHECKING:
    from vxwatch.cache.files import FileIndex
    from vxwatch.model import Task, TaskId
    from vxwatch.session.planning import Plan


class KeyRing:
    """Keys as hex strings."""

    def __init__(
        self,
        plan: "Plan",
        index: "FileIndex",
        environ: Mapping[str, str],
        arguments: tuple[str, ...],
        *,
        whole_projects: bool,
        secret_key: Callable[[], bytes],
    ) -> None:
        """`whole_projects`: keys are compared, so a task without declared inputs needs its files.

        `secret_key` gives what values of secrets are hashed with, and is asked once there are
        any: keys that are to be compared need the same.
        """
        self._index = index
        self._all = environ
        self._secret_key = secret_key
        self._arguments = arguments
        self._whole_projects = whole_projects
        self._keys: dict[TaskId, Key] = {}
        self._recalled: dict[TaskId, str] = {}
        self._vouched: dict[TaskId, bool] = {}
        self._runs: dict[TaskId, int] = {}
        self._sliced: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        self.replace(plan)

    def replace(self, plan: "Plan") -> None:
        """Take up another plan; every key is made anew."""
        self._plan = plan
        secrets = plan.workspace.secrets
        key = self._secret_key() if secrets else b""
        self._environ = without_secrets(self._all, secrets, key)
        self._locks = LockParts(plan.workspace)
        self._runtime = Runtime(plan.workspace, self._all)
        self._keys.clear()
        self._recalled.clear()
        self._vouched.clear()
        self._sliced.clear()

    def forget(self, tasks: "Iterable[TaskId]") -> None:
        """Something these tasks fold may have moved."""
        self._sliced.clear()
        for task in tasks:
            self._keys.pop(task, None)
            self._recalled.pop(task, None)

    def recall(self, keys: "Mapping[TaskId, str]") -> None:
        """These are the keys of the tasks, which need not be made then."""
        self._recalled.update(keys)

    @property
    def recalled(self) -> "Collection[TaskId]":
        """The tasks whose keys need not be made."""
        return frozenset(self._recalled)

    @property
    def count(self) -> int:
        """How many keys were made."""
        return len(self._keys)

    def lasting(self) -> "dict[TaskId, str]":
        """The known keys of tasks that are made of nothing but files and other such keys."""
        known = {**self._recalled, **{task: key.hex for task, key in self._keys.items()}}
        if self._locks.asked:
            return {}
        return {
            task: key
            for task, key in known.items()
            if self._task(task).persistent is None and self.tells(task) and self.vouched(task)
        }

    def differs(self, task_id: "TaskId") -> bool:
        """Whether the key would be another one if it were made now. It stays until it is forgotten."""
        before = self._keys.pop(task_id, None)
        differs = before is None or self.made(task_id).hex != before.hex
        if before is not None:
            self._keys[task_id] = before
        return differs

    def outdated(self, task_id: "TaskId", paths: "Collection[str]") -> frozenset[str]:
        """Those of the paths that held something else when the key of the task was made."""
        key = self._keys.get(task_id)
        if key is None:
            return frozenset()
        now = self._files(self._task(task_id))
        return frozenset(path for path in paths if key.files.get(path) != now.get(path))

    def ran(self, task_id: "TaskId") -> None:
        """The task ran to its end."""
        if not _has_key(self._task(task_id)):
            self._runs[task_id] = self._runs.get(task_id, 0) + 1

    def key(self, task_id: "TaskId") -> str:
        """What decides whether the task must run: equal to that of its last success, or not."""
        recalled = self._recalled.get(task_id)
        return self.made(task_id).hex if recalled is None else recalled

    def vouched(self, task_id: "TaskId") -> bool:
        """Whether what the task makes depends on nothing but its key.

        Not if it builds on what a task without a key of its own wrote.
        """
        if task_id in self._recalled:
            return True  # no other key lasts
        if task_id not in self._vouched:
            self._vouched[task_id] = all(
                _has_key(self._task(other)) and self.vouched(other)
                for other in self._below(task_id)
            )
        return self._vouched[task_id]

    def made(self, task_id: "TaskId") -> Key:
        """The key with what it was made of."""
        if task_id not in self._keys:
            task = self._task(task_id)
            self._keys[task_id] = task_key(
                task,
                files=self._files(task),
                upstream=self._upstream(task_id),
                environ=self._environ,
                arguments=self._forwarded(task_id),
                around=self._around(task),
            )
        return self._keys[task_id]

    def tells(self, task_id: "TaskId") -> bool:
        """Whether the task says itself what it is made of."""
        return _has_key(self._task(task_id))

    def decides(self, task_id: "TaskId") -> bool:
        """Whether the same key means that a one-shot task has the same to go by."""
        once = self._task(task_id).persistent is None
        return once and self.tells(task_id) and self.vouched(task_id)

    def untold(self, task_id: "TaskId") -> "TaskId | None":
        """A task that this one builds on, however far, and that does not; None where all do."""
        return next((other for other in self._beneath(task_id) if not self.tells(other)), None)

    def groups(self, task_id: "TaskId") -> list[Key]:
        """The keys of the groups that the task's own folds, directly or through a group."""

        def is_group(other: "TaskId") -> bool:
            return self._task(other).command is None

        return [self.made(o) for o in self._beneath(task_id, is_group) if is_group(o)]

    def fingerprint(self, task_id: "TaskId") -> str:
        """What a server must be restarted for when it moves."""
        return server_fingerprint(
            self._task(task_id),
            files=self._index.inputs(task_id),
            upstream=self._upstream(task_id),
            environ=self._environ,
            arguments=self._forwarded(task_id),
            place=self._place(self._task(task_id)),
        ).hex

    def _around(self, task: "Task") -> "dict[str, str]":
        """What counts beside the definition of the task and what it takes."""
        printed = self._runtime.digests(task)
        facts = {f"runtime:{command}": digest for command, digest in printed.items()}
        return {"directory": self._plan.workspace.projects[task.project].dir, **facts}

    def _place(self, task: "Task") -> str:
        """The project's directory: one that was moved or made anew is another one."""
        workspace = self._plan.workspace
        directory = os.path.join(workspace.root, workspace.projects[task.project].dir)
        try:
            found = os.stat(directory)
        except OSError:
            return directory
        return f"{directory} {found.st_dev} {found.st_ino}"

    def _files(self, task: "Task") -> "Mapping[str, str]":
        if not (_has_key(task) or self._whole_projects):
            return {}
        files = self._index.inputs(task.id)
        known = self._sliced.get(id(files))
        if known is not None and known[0] is files:
            return known[1]
        project = self._plan.workspace.projects[task.project]
        sliced = {
            path: self._locks.digest(path, files[path], task.project)
            for path in LOCKFILES.intersection(files)
            if not takes_whole(project, task, path)
        }
        taken = {**files, **sliced} if sliced else files
        self._sliced[id(files)] = files, taken
        return taken

    def builds_on(self, task_id: "TaskId") -> "list[TaskId]":
        """The tasks, no groups, whose keys the task's own folds directly or through groups."""

        def is_group(other: "TaskId") -> bool:
            return self._task(other).command is None

        return [other for other in self._beneath(task_id, is_group) if not is_group(other)]

    def folded(self, task: "Task") -> frozenset[str] | None:
        """The projects whose keys the task's own key folds; None where no success of it is kept."""
        if task.persistent is not None or not _has_key(task):
            return None
        return frozenset(self._task(other).project for other in self._beneath(task.id))

    def _beneath(
        self, task_id: "TaskId", through: "Callable[[TaskId], bool]" = lambda _: True
    ) -> "dict[TaskId, None]":
        """The tasks whose keys the task's own folds, however far, but only `through` these."""
        found: dict[TaskId, None] = {}
        ahead = self._below(task_id)
        while ahead:
            other = ahead.pop()
            if other not in found:
                found[other] = None
                ahead += self._below(other) if through(other) else ()
        return found

    def _below(self, task_id: "TaskId") -> "list[TaskId]":
        """The tasks whose keys the task's own key folds."""
        task = self._task(task_id)
        return [other for other in self._plan.graph.dependencies[task_id] if counts(task, other)]

    def _upstream(self, task_id: "TaskId") -> "dict[TaskId, str]":
        return {other: self._told(other) for other in self._below(task_id)}

    def _told(self, task_id: "TaskId") -> str:
        """The key as those see it who depend on the task."""
        runs = self._runs.get(task_id)
        return self.key(task_id) if runs is None else f"{self.key(task_id)}.{runs}"

    def _forwarded(self, task_id: "TaskId") -> tuple[str, ...]:
        forwarded = self._arguments and task_id in self._plan.requested
        return self._arguments if forwarded else ()

    def _task(self, task_id: "TaskId") -> "Task":
        return self._plan.workspace.task(task_id)


def _has_key(task: "Task") -> bool:
    """Whether the task says what it is made of: files, or all of its project where it is saved.

    A server or a group does so by what it depends on.
    """
    nothing_said = task.inputs is None and task.outputs is None
    return task.command is None or task.persistent is not None or not nothing_said
