"""The environment of a task: little of the user's, so that it is the same tomorrow and elsewhere.

A short list of names is taken from vx's own environment, then what the task asks to be passed,
then what it sets. Nothing here looks at the system.
"""

import os
from collections.abc import Mapping

from vxwatch.model import Task, Workspace

ALWAYS_PASSED = frozenset(
    {
        "PATH",
        "HOME",
        "SHELL",
        "USER",
        "LOGNAME",
        "TMPDIR",
        "LANG",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "FORCE_COLOR",
        "CI",
    }
)
"""Beside every LC_ name."""

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def task_environment(
    base: Mapping[str, str], *, task: Task, workspace: Workspace, tmpdir: str | None = None
) -> dict[str, str]:
    """The complete environment of the task's command, but for VX_TREE.

    The project's and the root's `node_modules/.bin` and the project's `.venv/bin` come first on
    PATH, whoever set that. `tmpdir` (absolute), where given, is TMPDIR. VX_TASK and
    VX_WORKSPACE are vx's own and cannot be set by a task.
    """
    passed = ALWAYS_PASSED.union(task.env_pass, task.env_secret)
    environment = {
        name: value for name, value in base.items() if name in passed or name.startswith("LC_")
    }
    if tmpdir is not None:
        environment["TMPDIR"] = tmpdir
    environment.update(task.env_set)
    path = environment.get("PATH") or _DEFAULT_PATH
    environment["PATH"] = ":".join((*_tool_directories(task, workspace), path))
    environment["VX_TASK"] = task.id
    environment["VX_WORKSPACE"] = workspace.root
    return environment


def secret_values(base: Mapping[str, str], workspace: Workspace) -> dict[str, bytes]:
    """The value of each variable that is set and that a task of the workspace declares as a secret."""
    return {name: os.fsencode(base[name]) for name in sorted(workspace.secrets) if name in base}


def _tool_directories(task: Task, workspace: Workspace) -> list[str]:
    project = "/".join(filter(None, (workspace.root, workspace.projects[task.project].dir)))
    tools = (
        f"{project}/node_modules/.bin",
        f"{workspace.root}/node_modules/.bin",
        f"{project}/.venv/bin",
    )
    return list(dict.fromkeys(tools))
