"""Which commands of a session are traced, and by whom.

Those of tasks that end, by supervisors where the kernel can tell of calls, else by strace; what a
task needs is always learned with strace.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from vxwatch.sandbox.policy import Host, Mount, decide
from vxwatch.sandbox.supervision import heard_by
from vxwatch.sandbox.trace import Trace, Tracer, scene_of

if TYPE_CHECKING:
    from vxwatch.model import Task, Workspace
    from vxwatch.sandbox.findings import Scene
    from vxwatch.sandbox.survey import Survey


class Tracing:
    """Begins the traces of one session's boxes, which `tracer` or supervisors (`supervises`) write.

    Of tasks in `learning` it is learned what they need, those in `untraced` run without a trace.
    `host` is what boxes may show, `home` the user's.
    """

    def __init__(self, host: Host, home: str) -> None:
        self.tracer: Tracer | None = None
        self.supervises = False
        self.untraced: set[str] = set()
        self.learning: set[str] = set()
        self._host = host
        self._home = home
        self._looks: dict[str, bool] = {}

    def expected(self, task: "Task") -> bytes | None:
        """The filter that the task's box will need as far as can be said before it is made."""
        if not self.supervises or not self.wants(task):
            return None
        return heard_by(looks=self._looks.get(task.id, False))

    def wants(self, task: "Task") -> bool:
        """Whether what this task is denied is to be told: of those that end, all that we can."""
        ends = task.persistent is None and not task.interactive
        can = self.tracer is not None or (self.supervises and task.id not in self.learning)
        return ends and can and task.id not in self.untraced

    def begin(
        self, workspace: "Workspace", task: "Task", found: "Survey", mounts: tuple[Mount, ...]
    ) -> Trace:
        """The trace of a box with these mounts. The caller closes it."""
        directory = found.ground.directory
        unfolded = frozenset(found.withheld)
        place = (directory, self._home)
        scene = scene_of(workspace, task, mounts, *place, unfolded=unfolded)
        if task.id in self.learning:
            nothing = decide(self._host, replace(found.ground, reads=(), writes=(), siblings={}))
            bare = scene_of(workspace, task, nothing, *place)
            return Trace(task, scene, bare=bare, supervised=False)
        trace = Trace(task, scene, supervised=self.supervises)
        self._looks[task.id] = trace.looks
        return trace

    def words(self, trace: Trace | None) -> tuple[str, ...]:
        """The words to put before the command of this trace's box."""
        if trace is None or trace.supervised or self.tracer is None:
            return ()
        return self.tracer.words(looks=trace.looks)

    def scene(self, workspace: "Workspace", task: "Task", mounts: tuple[Mount, ...]) -> "Scene":
        """What a box with these mounts shows to the task."""
        directory = os.path.join(workspace.root, workspace.projects[task.project].dir)
        return scene_of(workspace, task, mounts, os.path.realpath(directory), self._home)
