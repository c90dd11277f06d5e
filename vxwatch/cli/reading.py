"""`vx show` and `vx info`: read the workspace and the host, change nothing."""

import os
import platform
from typing import Any

from vxwatch import __version__
from vxwatch.cli.directory import working_directory
from vxwatch.durations import format_duration
from vxwatch.errors import UserError
from vxwatch.masking import Masker
from vxwatch.model import Globs, Persistent, Port, Resources, Sandbox, Task, Workspace
from vxwatch.output import tables
from vxwatch.process.environment import secret_values
from vxwatch.sizes import format_size
from vxwatch.workspace.discover import find_root, load_workspace


def show_tasks(name: str | None, *, as_json: bool) -> int:
    """Print every project with its tasks, or one task whole."""
    here = working_directory()
    workspace = load_workspace(find_root(here))
    if name is not None:
        return _show_one(workspace, name, here, as_json=as_json)
    if as_json:
        tables.write_json(_masker(workspace).within(_workspace(workspace)))
        return 0
    mask = _masker(workspace).text
    rows = [
        (task.id, _kind(task), mask(task.description or _first_line(task.command)))
        for project in workspace.projects.values()
        for task in project.tasks.values()
    ]
    if rows:
        tables.columns(rows)
    else:
        tables.line("no task yet: write a [tasks.NAME] table into vx.toml")
    return 0


def _show_one(workspace: Workspace, name: str, here: str, *, as_json: bool) -> int:
    from vxwatch.graph.tasks import plan
    from vxwatch.workspace.select import select

    relative = os.path.relpath(here, workspace.root)
    chosen = select(
        workspace,
        [name],
        directory="" if relative == "." else relative,
        everywhere=False,
        filters=(),
    )
    task = workspace.task(chosen.tasks[0])
    graph = plan(workspace, [task.id])
    value = {
        "id": task.id,
        **_masker(workspace).within(_task(task)),
        "depends_on": list(graph.dependencies[task.id]),
    }
    if as_json:
        tables.write_json(value)
    else:
        tables.fields(_as_written(value))
    return 0


def _as_written(value: dict[str, Any]) -> dict[str, Any]:
    """Durations and sizes as the config writes them."""
    shown = dict(value)
    for name in ("timeout", "grace", "ready_timeout"):
        if isinstance(shown.get(name), float):
            shown[name] = format_duration(shown[name])
    if shown.get("persistent"):
        shown["persistent"] = _as_written(shown["persistent"])
    if shown.get("resources"):
        memory = format_size(shown["resources"]["memory"])
        shown["resources"] = {**shown["resources"], "memory": memory}
    return shown


def show_info(*, as_json: bool) -> int:
    """Print versions, the workspace, and the sandbox verdict of this host."""
    import asyncio
    import tempfile

    from vxwatch.sandbox.probe import examine

    here = working_directory()
    try:
        root: str | None = find_root(here)
    except UserError:
        root = None
    with tempfile.TemporaryDirectory(prefix="vx-") as stand_in:
        place = root or os.path.realpath(stand_in)
        verdict = asyncio.run(examine(os.environ, place))
        programs = _programs(place)
    value: dict[str, Any] = {
        "vx": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "workspace": root or "none here",
        "sandbox": "works" if verdict.ok else verdict.reason,
        "fix": "" if verdict.ok else verdict.fix,
        "programs": {name: path or "missing" for name, path in programs.items()},
    }
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        value["install"] = "sudo apt-get install " + " ".join(PACKAGES[name] for name in missing)
    if as_json:
        tables.write_json(value)
    else:
        tables.fields(value)
    return 0


PACKAGES = {"bwrap": "bubblewrap", "strace": "strace", "git": "git"}
"""The Debian package of each program vx calls."""


def _programs(root: str) -> dict[str, str | None]:
    from vxwatch.process.programs import resolve

    path = os.environ.get("PATH", os.defpath)
    return {name: resolve(name, path, root) for name in PACKAGES}


def _masker(workspace: Workspace) -> Masker:
    """Takes out the values of the secrets, which a command or a description may spell out."""
    return Masker(secret_values(os.environ, workspace).values())


def _kind(task: Task) -> str:
    if task.command is None:
        return "group"
    kind = "server" if task.persistent else "task"
    return f"{kind}, sandboxed" if task.sandbox is not None else kind


def _first_line(command: str | None) -> str:
    return command.strip().partition("\n")[0] if command else ""


def _task(task: Task) -> dict[str, Any]:
    return {**_named(task), "env_set": dict(task.env_set)}


def _named(value: Any) -> Any:
    """The value with the names of its fields, and of those of what it holds."""
    if not isinstance(value, tuple):
        return value
    if isinstance(value, Task | Globs | Persistent | Port | Resources | Sandbox):
        return {name: _named(one) for name, one in value._asdict().items()}
    return tuple(map(_named, value))


def _workspace(workspace: Workspace) -> dict[str, Any]:
    projects = [
        {
            "name": project.name,
            "dir": project.dir,
            "dependencies": list(project.dependencies),
            "tasks": {name: _task(task) for name, task in project.tasks.items()},
        }
        for project in workspace.projects.values()
    ]
    return {"root": workspace.root, "projects": projects}
