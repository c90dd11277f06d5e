"""The tasks of one project, from its checked config to the model.

Takes parsed TOML, gives tasks, and adds every fault to `Faults`. Never reads a file; what
concerns several files is checked by the workspace. Pure.
"""

from collections.abc import Mapping
from typing import Any

from vxwatch import model
from vxwatch.config.faults import At, Faults
from vxwatch.config.presets import Presets
from vxwatch.config.sandbox import check_sandbox, make_sandbox
from vxwatch.config.schema import OF_COMMANDS, PROJECT

Fields = Mapping[str, Any]
"""A checked table: the known fields that it has, as the model holds them."""


def check_tasks(raw: Any, faults: Faults, presets: Presets | None = None) -> Mapping[str, Fields]:
    """The tasks of one project's config, in the order written, with what they extend.

    A task with a fault keeps only what it depends on, so that others that name it are not
    blamed for its fault.
    """
    found = Faults()
    presets = presets or Presets({}, Faults())
    own = raw.get("tasks") if isinstance(raw, dict) else None
    own = own if isinstance(own, dict) else {}
    whole = {name: presets.merged(own[name], ("tasks", name), found) for name in own}
    broken = {name for name, table in whole.items() if table is None and own[name] is not None}
    if own:
        raw = {**raw, "tasks": {n: own[n] if n in broken else whole[n] for n in own}}
    tasks: dict[str, Fields] = PROJECT.check(raw, (), found).get("tasks", {})
    broken |= {str(at[1]) for at, _, _ in found.found if len(at) > 1}
    for name, fields in tasks.items():
        if name not in broken:
            _check_together(fields, ("tasks", name), found)
    for at, message, hint in found.found:
        if len(at) > 1 and at[1] in own:
            presets.tell(own[at[1]], str(at[1]), at[2:], faults, message, hint)
        else:
            faults.add(at, message, hint)
    return {name: _stub(fields) if name in broken else fields for name, fields in tasks.items()}


def make_tasks(project: str, tasks: Mapping[str, Fields]) -> dict[str, model.Task]:
    """The tasks of a project from what `check_tasks` gives."""
    return {name: _task(project, name, fields) for name, fields in tasks.items()}


def read_tags(raw: Any, _: Faults) -> tuple[str, ...]:
    """The tags of a project's config, none if they are wrong: `check_tasks` says how."""
    tags = raw.get("tags") if isinstance(raw, dict) else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _check_together(fields: Fields, at: At, faults: Faults) -> None:
    """Fields of one task that need or exclude one another."""
    if "command" not in fields:
        _check_group(fields, at, faults)
        return
    if "persistent" in fields:
        for name, hint in (
            ("cache", "restart_on names the files that restart it"),
            ("timeout", "persistent.ready_timeout bounds the time until it is ready"),
            ("retries", 'persistent.restart = "on-crash" starts it again'),
        ):
            if name in fields:
                faults.add((*at, name), f"a persistent task has no {name}", hint)
    if fields.get("interactive"):
        _check_interactive(fields, at, faults)
    if fields.get("cache") == {}:
        faults.add((*at, "cache"), "expected inputs or outputs, found neither")
    if fields.get("resources") == {}:
        faults.add((*at, "resources"), "expected cpus or memory, found neither")
    _check_variables(fields.get("env", {}), (*at, "env"), faults)
    check_sandbox(fields, (*at, "sandbox"), faults)
    _check_live_reload(fields, (*at, "persistent", "live_reload"), faults)
    _check_restart(fields.get("persistent", {}), (*at, "persistent"), faults)


def _check_restart(persistent: Fields, at: At, faults: Faults) -> None:
    if persistent.get("restart") != "never":
        return
    for name in ("restart_on", "restart_on_dependencies"):
        if persistent.get(name):
            message = 'nothing restarts a server with restart = "never"'
            faults.add((*at, name), message, "leave one of them out")


def _check_live_reload(fields: Fields, at: At, faults: Faults) -> None:
    """Pages reload through the port that vx carries, so there must be one."""
    allow = fields.get("sandbox", {}).get("allow", {})
    if fields.get("persistent", {}).get("live_reload") and not allow.get("local_binding"):
        message = "only a server whose port vx carries out of its sandbox can have live reload"
        faults.add(at, message, "name the port in sandbox.allow.local_binding")


def _check_interactive(fields: Fields, at: At, faults: Faults) -> None:
    for name, hint in (
        ("persistent", "a server has no terminal: start a prompt for it as a task of its own"),
        ("retries", "whoever sits at the terminal starts it again"),
    ):
        if name in fields:
            faults.add((*at, name), f"an interactive task has no {name}", hint)
    if fields.get("env", {}).get("secret"):
        message = "an interactive task writes to the terminal itself, so vx can mask nothing there"
        faults.add((*at, "env", "secret"), message, "pass the variables with env.pass instead")


def _check_variables(env: Fields, at: At, faults: Faults) -> None:
    """Every variable has one source."""
    taken = {"pass": {*env.get("pass", ())}, "secret": {*env.get("secret", ())}}
    for source, name, place in (
        *(("pass", name, ("set", name)) for name, _ in env.get("set", ())),
        *(("secret", name, ("set", name)) for name, _ in env.get("set", ())),
        *(("pass", name, ("secret", i)) for i, name in enumerate(env.get("secret", ()))),
    ):
        if name in taken[source]:
            faults.add((*at, *place), f"env.{source} takes the same variable", "keep one of them")


def _check_group(fields: Fields, at: At, faults: Faults) -> None:
    if not fields.get("depends_on"):
        faults.add(at, "a task needs a command, or depends_on to be a group")
        return
    for name in OF_COMMANDS:
        if name in fields:
            hint = "a group is a task without a command: give it one, or take this out"
            faults.add((*at, name), "a group runs nothing, so this has no meaning", hint)


def _task(project: str, name: str, fields: Fields) -> model.Task:
    cache = fields.get("cache", {})
    inputs = cache.get("inputs")
    outputs = cache.get("outputs")
    env = fields.get("env", {})
    return model.Task(
        project=project,
        name=name,
        command=fields.get("command"),
        description=fields.get("description", ""),
        depends_on=fields.get("depends_on", ()),
        timeout=fields.get("timeout"),
        retries=fields.get("retries", 0),
        grace=fields.get("grace"),
        resources=model.Resources(**fields["resources"]) if "resources" in fields else None,
        interactive=fields.get("interactive", False),
        env_pass=env.get("pass", ()),
        env_set=env.get("set", ()),
        env_secret=env.get("secret", ()),
        inputs=_globs(inputs),
        input_env=inputs.get("env", ()) if inputs else (),
        input_runtime=inputs.get("runtime", ()) if inputs else (),
        input_workspace_runtime=inputs.get("workspace_runtime", ()) if inputs else (),
        input_tasks=inputs.get("tasks") if inputs else None,
        outputs=_globs(outputs),
        persistent=model.Persistent(**fields["persistent"]) if "persistent" in fields else None,
        sandbox=make_sandbox(fields["sandbox"]) if "sandbox" in fields else None,
    )


def _stub(fields: Fields) -> Fields:
    names = (text for text in fields.get("depends_on", ()) if isinstance(text, str))
    return {"depends_on": tuple(names)}


def _globs(fields: Fields | None) -> model.Globs | None:
    if fields is None:
        return None
    return model.Globs(fields.get("files", ()), fields.get("workspace_files", ()))
