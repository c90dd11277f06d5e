"""What `vx.toml` and `vx.workspace.toml` may say, field by field.

The tables here are the only list of fields: the checker, the JSON Schema for editors and the
hints in messages come from them. Pure.
"""

import re
from typing import Any

from vxwatch import globs
from vxwatch.config.concurrency import EXPECTED as CONCURRENCY
from vxwatch.config.concurrency import SHARE, tasks_at_once
from vxwatch.config.faults import At, Faults
from vxwatch.config.kinds import (
    Age,
    Boolean,
    Count,
    Duration,
    OneOf,
    Port,
    Schema,
    Size,
    Text,
)
from vxwatch.config.sandbox import BINDING, GIT_CONFIG, SANDBOX
from vxwatch.config.tables import Globs, ListOf, ListOrTable, Named, Table, Texts

_TASK_NAME = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@.:/+-]*")
_OWN = frozenset({"VX_TASK", "VX_TREE", "VX_WORKSPACE"})
_STOP_SIGNALS = (
    *("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGALRM"),
    "SIGABRT",
)
_MOST_RETRIES = 100
_MOST_CPUS = 4096
OF_COMMANDS = (
    *("timeout", "retries", "grace", "resources", "env", "cache", "interactive", "persistent"),
    "sandbox",
)
"""The fields that mean nothing without a command."""


def _output_fault(pattern: str) -> str | None:
    if pattern[:1] not in "*?[{.":
        return globs.fault(pattern)
    matcher = globs.Matcher([pattern])
    if any(map(matcher.matches, ("\x01", "\x01/\x01"))):
        return "an output is a part of the project, not all of it"
    return globs.fault(pattern)


def _variable_fault(name: str) -> str | None:
    if re.search(r"[=\s]", name):
        return "no variable has such a name"
    if name in _OWN:
        return "vx sets this variable itself"
    return "a name is expected, not a pattern" if "*" in name else None


def _task_name_fault(name: str) -> str | None:
    if _TASK_NAME.fullmatch(name):
        return None
    return "a task's name is made of letters, digits and _ - . : / + @, and begins with none of - . : / +"


def _regex_fault(expression: str) -> str | None:
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        return f"no regular expression: {error}"
    return None


class _Concurrency:
    """A count or a share, kept as written: the machine is looked at elsewhere."""

    __slots__ = ()

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The value itself."""
        try:
            tasks_at_once(value, 1)
        except ValueError:
            faults.expected(at, CONCURRENCY, value)
        return value

    def schema(self) -> Schema:
        """An integer or a percentage."""
        number = {"type": "integer", "minimum": 1, "maximum": 999_999}
        return {"anyOf": [number, {"type": "string", "pattern": f"^(?:{SHARE}|[1-9][0-9]*)$"}]}


_INSIDE_OF = r"^!?(?![/~!])(?!(?:.*/)?\.\.(?:/|$))"
_RELATIVE = {"pattern": _INSIDE_OF + ".*[^./]"}
_INSIDE = Text("a glob", globs.fault, _RELATIVE)
_OUTPUT = Text("a glob", _output_fault, {**_RELATIVE, "not": {"enum": ["*", "**", "**/*"]}})
_VARIABLE = Text("the name of a variable", _variable_fault, {"pattern": r"^[^=*\s]+$"})

_COMMANDS = ListOf(Text("a shell command"), unique=True)
_INPUTS = Table(
    {
        "files": (Globs(_INSIDE), "globs, relative to the project"),
        "workspace_files": (Globs(_INSIDE), "globs, relative to the root of the workspace"),
        "env": (ListOf(_VARIABLE, unique=True), "variables whose values count"),
        "runtime": (_COMMANDS, "commands whose output counts, run in the project's directory"),
        "workspace_runtime": (_COMMANDS, "the same, run in the root of the workspace"),
        "tasks": (
            ListOf(Text("the name of a task"), unique=True),
            "which of the tasks it depends on count: name, ^name, project#name; default: all",
        ),
    }
)
_OUTPUTS = Table(
    {
        "files": (Globs(_OUTPUT), "globs, relative to the project"),
        "workspace_files": (Globs(_OUTPUT), "globs, relative to the root of the workspace"),
    }
)
_CACHE = Table(
    {
        "inputs": (ListOrTable("files", _INPUTS), "what decides whether the task must run"),
        "outputs": (ListOrTable("files", _OUTPUTS), "what the task makes"),
    },
    rules={"minProperties": 1},
)
_NEVER_BUT: Schema = {
    "properties": {"restart": {"const": "never"}},
    "required": ["restart"],
    "anyOf": [
        {"properties": {"restart_on": {"minItems": 1}}, "required": ["restart_on"]},
        {
            "properties": {"restart_on_dependencies": {"const": True}},
            "required": ["restart_on_dependencies"],
        },
    ],
}
_PERSISTENT = Table(
    {
        "ready_when": (
            Text("a regular expression", _regex_fault, {"format": "regex"}),
            "a regular expression over the output; the server is ready when it matches",
        ),
        "ready_port": (Port(), "the server is ready when this port of its network answers"),
        "ready_timeout": (Duration(zero=False), "how long it may take to get ready; default 30s"),
        "restart_on": (Globs(_INSIDE), "files whose content restarts the server; default none"),
        "restart_on_dependencies": (Boolean(), "a dependency that ran restarts the server too"),
        "restart": (
            OneOf("the name of what restarts the server", ("never", "on-change", "on-crash")),
            "what starts it again: nothing, a change, or also its own end; default on-change",
        ),
        "stop_signal": (
            OneOf("the name of a signal that asks a program to end", _STOP_SIGNALS),
            "what asks the server to end; default: the signal that ends vx, else SIGTERM",
        ),
        "live_reload": (Boolean(), "open pages of the server reload after each good cycle"),
    },
    rules={"not": _NEVER_BUT},
)
_INTERACTIVE = {"properties": {"interactive": {"const": True}}, "required": ["interactive"]}
_RELOADING: Schema = {
    "properties": {
        "persistent": {
            "properties": {"live_reload": {"const": True}},
            "required": ["live_reload"],
        }
    },
    "required": ["persistent"],
}
_NEITHER_SERVER_NOR_TRIED_AGAIN: Schema = {
    "not": {"anyOf": [{"required": ["persistent"]}, {"required": ["retries"]}]}
}
_RULES: Schema = {
    "anyOf": [
        {"required": ["command"]},
        {
            "required": ["depends_on"],
            "properties": {"depends_on": {"minItems": 1}},
            "not": {"anyOf": [{"required": [name]} for name in OF_COMMANDS]},
        },
    ],
    "allOf": [
        {"not": {"required": ["persistent", "cache"]}},
        {"not": {"required": ["persistent", "timeout"]}},
        {"not": {"required": ["persistent", "retries"]}},
        {"anyOf": [{"required": ["persistent"]}, {"not": BINDING}]},
        GIT_CONFIG,
        {"anyOf": [{"not": _RELOADING}, BINDING]},
        {"anyOf": [{"not": _INTERACTIVE}, _NEITHER_SERVER_NOR_TRIED_AGAIN]},
    ],
}
"""What belongs together in a task that extends no preset, and so says everything itself."""
TASK = Table(
    {
        "command": (Text("a shell command"), "run by sh -c in the project's directory"),
        "description": (Text("a text"), "one line for people"),
        "extends": (Text("the name of a preset"), "the preset whose fields it takes over"),
        "depends_on": (
            ListOf(Text("the name of a task")),
            "what must succeed first: name, ^name, project#name, //#name, name.*",
        ),
        "timeout": (Duration(zero=False), "the task fails when it takes longer"),
        "retries": (Count(_MOST_RETRIES), "how often a task that fails is tried again; default 0"),
        "grace": (Duration(zero=True), "between the polite signal and SIGKILL; default 2s"),
        "resources": (
            Table(
                {
                    "cpus": (Count(_MOST_CPUS), "how many cores"),
                    "memory": (Size(), "how much memory"),
                },
                rules={"minProperties": 1},
            ),
            "what the task needs while it runs: it waits until that is free",
        ),
        "env": (
            Table(
                {
                    "pass": (ListOf(_VARIABLE, unique=True), "variables taken over as they are"),
                    "set": (Texts(_VARIABLE), "variables with a value of the task's own"),
                    "secret": (
                        ListOf(_VARIABLE, unique=True),
                        "variables taken over, whose values are masked wherever vx shows text",
                    ),
                }
            ),
            "the task's environment beyond the basic variables",
        ),
        "cache": (_CACHE, "when the task is fresh, and what it makes"),
        "interactive": (
            Boolean(),
            "the task owns the terminal while it runs: a prompt, a debugger",
        ),
        "persistent": (_PERSISTENT, "the task is a server: it does not end by itself"),
        "sandbox": (SANDBOX, "the task runs in a sandbox"),
    },
    rules={"anyOf": [{"required": ["extends"]}, _RULES]},
)
"""The fields of one task."""

_PRESET = Table(TASK.fields)
_NAME = Text("a name", _task_name_fault, {"pattern": f"^{_TASK_NAME.pattern}$"})
PROJECT = Table(
    {
        "tasks": (Named(_NAME, TASK), "the tasks of the project, by name"),
        "tags": (
            ListOf(
                Text("a tag", _task_name_fault, {"pattern": f"^{_TASK_NAME.pattern}$"}), unique=True
            ),
            "words by which --filter finds the project: tag:NAME",
        ),
    }
)
"""The fields of `vx.toml` and of `[tool.vx]`."""

WORKSPACE = Table(
    {
        "members": (
            Globs(Text("a glob", globs.member_fault, {"pattern": _INSIDE_OF})),
            "globs of project directories; default: what the package manager's manifest says",
        ),
        "concurrency": (
            _Concurrency(),
            "how many tasks run at once; default: one for each core, at least 8",
        ),
        "timeout": (Duration(zero=False), "for tasks that are no servers and have none"),
        "affected_base": (
            Text("a branch or a commit"),
            "what --affected compares with; default: the main branch of origin",
        ),
        "cache_dir": (
            Text("a directory"),
            'where the cache lies; "shared": with all worktrees of the repository; default .vx/cache',
        ),
        "cache_retention": (
            Table(
                {
                    "older_than": (Age(), "what is unused for so long is removed; default 30d"),
                    "max_size": (Size(), "how large the cache may grow; default 10G"),
                }
            ),
            "what is removed from the cache at the end of a run",
        ),
        "rules": (
            Table(
                {
                    "exclusive_outputs": (
                        Boolean(),
                        "no two tasks have outputs that meet, in whatever order; default true",
                    ),
                    "upfront_keys": (
                        Boolean(),
                        "no task takes in what one makes that it does not depend on; default false",
                    ),
                }
            ),
            "what is refused beyond what always is",
        ),
        "presets": (Named(_NAME, _PRESET), "task tables by name, which a task takes with extends"),
    }
)
"""The fields of `vx.workspace.toml`."""
