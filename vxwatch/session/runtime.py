"""What the commands in `cache.inputs.runtime` print: a version, a date, a setting of the machine.

Each is run once for a plan, with `sh -c`, in its project's directory or in the root, and outside of
any sandbox: it is as much the user's word as the rest of the config. One that fails refuses the
run, because its output would say nothing.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import xxhash

from vxwatch.errors import UserError
from vxwatch.process.command import capture
from vxwatch.process.environment import task_environment
from vxwatch.process.programs import resolve

if TYPE_CHECKING:
    from vxwatch.model import Task, Workspace


class Runtime:
    """Asks each command once. `environ` is vx's own environment."""

    def __init__(self, workspace: "Workspace", environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environ = environ
        self._known: dict[tuple[str, str], str] = {}

    def digests(self, task: "Task") -> dict[str, str]:
        """For each command that the task names: a digest of what it prints. Raises `UserError`."""
        if not (task.input_runtime or task.input_workspace_runtime):
            return {}
        root = self._workspace.root
        own = os.path.join(root, self._workspace.projects[task.project].dir).rstrip("/")
        asked = [(own, command) for command in task.input_runtime]
        asked += [(root, command) for command in task.input_workspace_runtime]
        for place, command in asked:
            if (place, command) not in self._known:
                self._known[place, command] = self._ask(task, place, command)
        return {command: self._known[place, command] for place, command in asked}

    def _ask(self, task: "Task", place: str, command: str) -> str:
        environment = task_environment(self._environ, task=task, workspace=self._workspace)
        search = self._environ.get("PATH", os.defpath)
        shell = resolve("sh", search, self._workspace.root) or "/bin/sh"
        done = capture((shell, "-c", command), cwd=place, env=environment)
        if done.code:
            said = (done.err or done.out).decode(errors="replace").strip().splitlines()
            raise UserError(
                "runtime-input",
                f'{task.id}: the runtime input "{command}" failed with exit code {done.code}'
                + (f": {said[-1]}" if said else ""),
                f"run it in {place}, and mend it or take it out of cache.inputs.runtime",
            )
        return xxhash.xxh3_128_hexdigest(done.out)
