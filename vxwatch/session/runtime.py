"""What the commands in `cache.inputs.runtime` print: a version, a date, a setting of the machine.

Each is run once for a plan, with `sh -c`, in its project's directory or in the root, and outside of
any sandbox: it is as much the user's word as the rest of the config. One that fails refuses the
run, because its output would say nothing.
"""

import os
from collections.abc import Hashable, Mapping
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
        self._known: dict[Hashable, str] = {}

    def digests(self, task: "Task") -> dict[str, str]:
        """For each command that the task names: a digest of what it prints. Raises `UserError`.

        One for both places has one digest, of what it prints here and there.
        """
        if not (task.input_runtime or task.input_workspace_runtime):
            return {}
        root = self._workspace.root
        own = os.path.join(root, self._workspace.projects[task.project].dir).rstrip("/")
        asked = [(own, command) for command in task.input_runtime]
        asked += [(root, command) for command in task.input_workspace_runtime]
        found: dict[str, str] = {}
        for place, command in dict.fromkeys(asked):
            digest = self._digest(task, place, command)
            found[command] = f"{found[command]} {digest}" if command in found else digest
        return found

    def _digest(self, task: "Task", place: str, command: str) -> str:
        # What a task is given of the environment may decide what the command prints.
        given = (task.env_pass, task.env_secret, task.env_set)
        known = self._known.get((place, command, given))
        if known is None:
            known = self._known[place, command, given] = self._ask(task, place, command)
        return known

    def _ask(self, task: "Task", place: str, command: str) -> str:
        environment = self._environment(task, place)
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
        # Many programs print their version as an error: java, ssh.
        return xxhash.xxh3_128_hexdigest(b"%d %b%b" % (len(done.out), done.out, done.err))

    def _environment(self, task: "Task", place: str) -> dict[str, str]:
        """The task's, but that in the root no project's own tools are found.

        What is printed there is asked once for all projects.
        """
        space = self._workspace
        if place == space.root:
            project = space.projects[task.project]._replace(dir="")
            space = space._replace(projects={task.project: project})
        return task_environment(self._environ, task=task, workspace=space)
