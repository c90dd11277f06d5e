"""The facts of a workspace, as frozen values: what config and manifests say, resolved.

Paths are strings, workspace-relative and "/"-separated ("" is the root), decoded with
`surrogateescape` so that any file name survives; a path that is absolute says so in its
comment. Durations are seconds. Nothing here reads the system.

They are named tuples, here as in other modules that every run loads: to make the class of a frozen
dataclass takes six times as long, and there are dozens.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

TaskId = str
"""`project#name`, as in `app#build`."""


class Globs(NamedTuple):
    """Patterns, in order: `files` relative to the project, `workspace_files` to the root.

    A pattern that starts with `!` takes matches of the earlier ones back.
    """

    files: tuple[str, ...] = ()
    workspace_files: tuple[str, ...] = ()


class Persistent(NamedTuple):
    """What makes a task a server. `ready_timeout` bounds the time until it is ready.

    `restart` says what starts it again: nothing, a change, or its own end too. `stop_signal` is
    the name of the signal that asks it to end, None for the one that ends vx.
    """

    ready_when: str | None = None
    ready_port: int | None = None
    ready_timeout: float = 30.0
    restart_on: tuple[str, ...] = ()
    restart_on_dependencies: bool = False
    stop_signal: str | None = None
    live_reload: bool = False
    restart: Literal["never", "on-change", "on-crash"] = "on-change"


class Port(NamedTuple):
    """A port of the task's own loopback, and the port of the host's loopback it appears at."""

    inside: int
    host: int


class Sandbox(NamedTuple):
    """What a sandboxed task is granted; nothing else is.

    `read` and `write` hold the strings of the config: paths or globs, project-relative,
    absolute or beginning with `~`; the same in `deny_read` and `deny_write`, which take back.
    `unix_sockets` is None where the task can make no unix socket; else the paths of those of the
    host that it may use beside its own. `network` and `deny_network` hold canonical host
    patterns. What the `ignore_` fields name is denied without being told.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    local_binding: tuple[Port, ...] = ()
    host_ports: tuple[int, ...] = ()
    network: tuple[str, ...] = ()
    deny_network: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    ignore_read: tuple[str, ...] = ()
    ignore_write: tuple[str, ...] = ()
    ignore_network: tuple[str, ...] = ()
    unix_sockets: tuple[str, ...] | None = None
    pty: bool = False
    git_config: bool = False
    weaker_when_nested: bool = False


class Resources(NamedTuple):
    """What a task needs of the machine while it runs: cores, and bytes of memory."""

    cpus: int = 0
    memory: int = 0


class Task(NamedTuple):
    """One task of one project, after defaults.

    `command` is None for a group. `inputs` is None when the task declares none, `outputs` is
    None when it is not to be saved; the two differ from empty. `depends_on` holds the
    strings of the config, `grace` and `timeout` are None for the default. `input_tasks` says
    whose keys count, None for all.
    """

    project: str
    name: str
    command: str | None = None
    description: str = ""
    depends_on: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int = 0
    grace: float | None = None
    env_pass: tuple[str, ...] = ()
    env_set: tuple[tuple[str, str], ...] = ()
    env_secret: tuple[str, ...] = ()
    inputs: Globs | None = None
    input_env: tuple[str, ...] = ()
    input_runtime: tuple[str, ...] = ()
    input_workspace_runtime: tuple[str, ...] = ()
    input_tasks: tuple[str, ...] | None = None
    outputs: Globs | None = None
    persistent: Persistent | None = None
    interactive: bool = False
    sandbox: Sandbox | None = None
    resources: Resources | None = None

    @property
    def id(self) -> TaskId:
        """The task's name in the whole workspace."""
        return f"{self.project}#{self.name}"


class Project(NamedTuple):
    """A member of the workspace, or its root.

    `config` is None where the project has none. `dependencies` names the workspace projects its
    `manifests` depend on, nearest only.
    """

    name: str
    dir: str
    manifests: tuple[str, ...]
    config: str | None
    dependencies: tuple[str, ...]
    tasks: Mapping[str, Task]
    tags: tuple[str, ...] = ()


class Retention(NamedTuple):
    """How long the cache keeps what nobody uses, in seconds, and how much at most, in bytes."""

    older_than: float = 30 * 86_400.0
    max_size: int = 10 << 30


class Rules(NamedTuple):
    """What a workspace refuses beyond what is always refused.

    `exclusive_outputs`: outputs of two tasks that can meet, also where one runs after the other.
    `upfront_keys`: inputs that another task makes, on which theirs does not depend.
    """

    exclusive_outputs: bool = True
    upfront_keys: bool = False


class Workspace(NamedTuple):
    """Everything discovery and config loading found.

    `root` is absolute and real (no link in it). `projects` is keyed by name; `root_project`
    names the one whose `dir` is "". `config_files` are all files whose content made this
    value (configs, manifests, workspace files), also some that are not there but would count, so
    that a watch knows what to re-read; `config_directories` are those whose names, and
    `config_names` the variables whose values had a say in it; `config_tracked`: which files git
    tracks had one, too.
    `member_parents` are the directories in which a member may appear or vanish, `bare_members`
    those that a config or manifest in them would make a project. `cache_dir` is None for the usual
    place, "shared", or a path as the config has it. Workspaces of the same root with the same
    `fingerprint` are equal; "" is none.
    """

    root: str
    projects: Mapping[str, Project]
    root_project: str | None
    config_files: tuple[str, ...]
    member_parents: tuple[str, ...] = ()
    concurrency: int | None = None
    timeout: float | None = None
    affected_base: str | None = None
    cache_dir: str | None = None
    cache_retention: Retention = Retention()
    rules: Rules = Rules()
    config_directories: tuple[str, ...] = ()
    config_names: tuple[str, ...] = ()
    config_tracked: bool = False
    bare_members: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def secrets(self) -> frozenset[str]:
        """The variables that any task declares as secrets."""
        tasks = (task for project in self.projects.values() for task in project.tasks.values())
        return frozenset(name for task in tasks for name in task.env_secret)

    def task(self, task_id: TaskId) -> Task:
        """The task of this id; KeyError if there is none."""
        project, _, name = task_id.rpartition("#")
        return self.projects[project].tasks[name]
