"""The fields of configs: what they become, what is refused, and that editors agree."""

import json
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any

import fastjsonschema
import pytest

from vxwatch.config.concurrency import tasks_at_once
from vxwatch.config.faults import Faults, shown
from vxwatch.config.json_schema import schema_text
from vxwatch.config.lines import dotted
from vxwatch.config.settings import Settings, read_settings
from vxwatch.config.tasks import check_tasks, make_tasks
from vxwatch.model import Globs, Persistent, Port, Sandbox, Task

FULL = """
[tasks.build]
description = "compile to dist/"
command = "tsc -b"
depends_on = ["^build", "ui#gen", "//#setup", "lint.*"]
timeout = "2m"
grace = "500ms"
retries = 2
env = { pass = ["NODE_ENV"], set = { TZ = "UTC", EMPTY = "" }, secret = ["NPM_TOKEN"] }

[tasks.build.cache.inputs]
files = ["src/**", "!**/*.test.ts"]
workspace_files = ["tsconfig.base.json"]
env = ["NODE_ENV"]
[tasks.build.cache.outputs]
files = ["dist/**"]
workspace_files = ["reports/*.xml"]

[tasks.build.sandbox]
allow = { read = ["."], write = ["dist/", "../.git/"], unix_sockets = true, pty = true, git_config = true, network = true }
deny = { read = [".env*"], write = ["dist/keep"], network = ["a.example"] }
ignore = { read = [".git"], write = ["~/.x/"], network = ["b.example:443"] }
weaker_when_nested = true

[tasks.dev]
command = "vite"
[tasks.dev.persistent]
ready_when = "Local:"
ready_port = 5173
ready_timeout = "1m"
restart_on = ["vite.config.*"]
restart_on_dependencies = true
restart = "on-crash"
stop_signal = "SIGQUIT"
live_reload = true
[tasks.dev.sandbox.allow]
local_binding = [5173, { port = 9229, host = 9230 }]
host_ports = [5432]
network = ["Registry.npmjs.org", "*.example.com:443", "::1"]
unix_sockets = ["~/.s/agent", "/run/x.sock"]

[tasks.check]
depends_on = ["build"]

[tasks.repl]
command = "python3"
interactive = true

[tasks.short]
command = "x"
cache = { inputs = ["a"], outputs = [] }

[tasks.watched]
command = "x"
cache.inputs.env = ["A"]

[tasks.plain]
command = "x"
persistent = {}
sandbox = {}
"""


def read(text: str) -> tuple[dict[str, Task], list[str]]:
    """The tasks of a config, and its faults as `place: message [hint]`."""
    faults = Faults()
    tasks = make_tasks("app", check_tasks(tomllib.loads(text), faults))
    return tasks, [f"{dotted(at)}: {said} [{hint}]" for at, said, hint in faults.found]


def task(body: str) -> str:
    return f"[tasks.t]\ncommand = 'x'\n{body}"


def test_every_field_arrives() -> None:
    tasks, faults = read(FULL)
    assert faults == []
    assert list(tasks) == ["build", "dev", "check", "repl", "short", "watched", "plain"]
    assert tasks["build"] == Task(
        project="app",
        name="build",
        command="tsc -b",
        description="compile to dist/",
        depends_on=("^build", "ui#gen", "//#setup", "lint.*"),
        timeout=120.0,
        grace=0.5,
        retries=2,
        env_secret=("NPM_TOKEN",),
        env_pass=("NODE_ENV",),
        env_set=(("TZ", "UTC"), ("EMPTY", "")),
        inputs=Globs(("src/**", "!**/*.test.ts"), ("tsconfig.base.json",)),
        input_env=("NODE_ENV",),
        outputs=Globs(("dist/**",), ("reports/*.xml",)),
        sandbox=Sandbox(
            read=(".",),
            write=("dist/", "../.git/"),
            network=("*",),
            deny_network=("a.example",),
            deny_read=(".env*",),
            deny_write=("dist/keep",),
            ignore_read=(".git",),
            ignore_write=("~/.x/",),
            ignore_network=("b.example:443",),
            unix_sockets=(),
            pty=True,
            git_config=True,
            weaker_when_nested=True,
        ),
    )
    assert tasks["dev"].persistent == Persistent(
        "Local:", 5173, 60.0, ("vite.config.*",), True, "SIGQUIT", True, "on-crash"
    )
    assert tasks["dev"].sandbox == Sandbox(
        local_binding=(Port(5173, 5173), Port(9229, 9230)),
        host_ports=(5432,),
        network=("registry.npmjs.org", "*.example.com:443", "::1"),
        unix_sockets=("~/.s/agent", "/run/x.sock"),
    )


def test_what_is_left_out_differs_from_what_is_empty() -> None:
    tasks, _ = read(FULL)
    assert tasks["check"] == Task("app", "check", depends_on=("build",))
    assert tasks["repl"] == Task("app", "repl", "python3", interactive=True)
    assert tasks["short"].inputs == Globs(("a",))
    assert tasks["short"].outputs == Globs()
    assert tasks["watched"].inputs == Globs()
    assert tasks["watched"].outputs is None
    assert tasks["plain"].persistent == Persistent()
    assert tasks["plain"].sandbox == Sandbox()
    assert tasks["plain"].inputs is None


# What both the checker and the JSON Schema refuse: the config, the place, what is said.
REFUSED_BY_BOTH = [
    ("[task.x]\ncommand = 'x'", "task", "unknown field [did you mean tasks?]"),
    ("tasks = []", "tasks", "expected a table, found a list"),
    ("[tasks]\nx = 'make'", "tasks.x", "expected a table with command, description"),
    (task("cache = { outputz = [] }"), "tasks.t.cache.outputz", "[did you mean outputs?]"),
    (task("persistent = { ready_wen = '' }"), "tasks.t.persistent.ready_wen", "ready_when?]"),
    (task("outputs = []"), "tasks.t.outputs", "[did you mean cache.outputs?]"),
    (task("read = []"), "tasks.t.read", "[did you mean sandbox.allow.read?]"),
    (task("zzz = 1"), "tasks.t.zzz", "unknown field [expected command, description,"),
    (task("retry = 1"), "tasks.t.retry", "unknown field [did you mean retries?]"),
    (task("retries = -1"), "tasks.t.retries", "expected a number from 0 to 100, found -1"),
    (task("retries = true"), "tasks.t.retries", "found true"),
    (task("retries = '1'"), "tasks.t.retries", 'found "1"'),
    (task("persistent = {}\nretries = 1"), "tasks.t.retries", "a persistent task has no retries"),
    (task("interactive = 1"), "tasks.t.interactive", "expected true or false, found 1"),
    (task("persistent = {}\ninteractive = true"), "persistent", "interactive task has no persis"),
    (task("retries = 1\ninteractive = true"), "retries", "an interactive task has no retries"),
    (task("persistent.stop_signal = 'TERM'"), "stop_signal", "[did you mean SIGTERM?]"),
    (task("persistent.stop_signal = 'sigint'"), "stop_signal", "[did you mean SIGINT?]"),
    (task("persistent.stop_signal = 15"), "stop_signal", "found 15 [one of SIGTERM, SIGINT,"),
    (task("persistent.stop_signal = 'SIGKILL'"), "stop_signal", "that asks a program to end"),
    (task("persistent.restart = 'on-crsh'"), "restart", "[did you mean on-crash?]"),
    (task("persistent.restart = true"), "restart", "[one of never, on-change, on-crash]"),
    (
        task("persistent = { restart = 'never', restart_on = ['a'] }"),
        "tasks.t.persistent.restart_on",
        'nothing restarts a server with restart = "never" [leave one of them out]',
    ),
    (
        task("persistent = { restart = 'never', restart_on_dependencies = true }"),
        "tasks.t.persistent.restart_on_dependencies",
        "nothing restarts",
    ),
    (task("persistent.live_reload = 1"), "live_reload", "expected true or false, found 1"),
    (task("persistent.live_reload = true"), "live_reload", "only a server whose port vx carries"),
    (task("env.secret = 'A'"), "tasks.t.env.secret", '[write ["A"]]'),
    (task("env.secret = ['A', 'A']"), "tasks.t.env.secret[1]", '"A" is listed twice'),
    (task("env.secret = ['*_TOKEN']"), "tasks.t.env.secret[0]", "a name is expected"),
    (task("sandbox.allow.networks = true"), "sandbox.allow.networks", "[did you mean network?]"),
    (task("persistent = true"), "tasks.t.persistent", "found true"),
    ("[tasks.t]", "tasks.t", "a task needs a command, or depends_on to be a group"),
    ("[tasks.t]\ndepends_on = []", "tasks.t", "a task needs a command"),
    ("[tasks.t]\ncommand = ' '", "tasks.t.command", 'expected a shell command, found " "'),
    ("[tasks.t]\ncommand = ['a']", "tasks.t.command", "expected a shell command, found a list"),
    ("[tasks.'a b']\ncommand = 'x'", 'tasks."a b"', "a task's name is made of letters"),
    ("[tasks.'^a']\ncommand = 'x'", 'tasks."^a"', "a task's name"),
    ("[tasks.'a#b']\ncommand = 'x'", 'tasks."a#b"', "a task's name"),
    ("[tasks.-a]\ncommand = 'x'", "tasks.-a", "a task's name"),
    (task("depends_on = 'a'"), "tasks.t.depends_on", 'expected a list, found "a" [write ["a"]]'),
    (task("depends_on = [1]"), "tasks.t.depends_on[0]", "expected the name of a task, found 1"),
    (task("timeout = 30"), "tasks.t.timeout", 'expected a unit, as in "30s" or "30ms", found 30'),
    (task("timeout = '0'"), "tasks.t.timeout", "expected more than 0 [leave the field out"),
    (task("timeout = '0.0s'"), "tasks.t.timeout", "expected more than 0"),
    (task("grace = -1"), "tasks.t.grace", "not negative"),
    (task("grace = false"), "tasks.t.grace", "found false"),
    (task("grace = 1979-05-27"), "tasks.t.grace", "found a date"),
    (task("env = ['A']"), "tasks.t.env", "expected a table with pass, set or secret, found"),
    (task("env.pass = ['A*']"), "tasks.t.env.pass[0]", "a name is expected, not a pattern"),
    (task("env.pass = ['A=1']"), "tasks.t.env.pass[0]", "no variable has such a name"),
    (task("env.pass = ['A', 'A']"), "tasks.t.env.pass[1]", '"A" is listed twice'),
    (task("env.set = { A = 1 }"), "tasks.t.env.set.A", 'expected a text, found 1 [write "1"]'),
    (task("env.set = { A = true }"), "tasks.t.env.set.A", '[write "true"]'),
    (task("env.set = []"), "tasks.t.env.set", "expected a table"),
    (task("env.set = { 'A=' = '' }"), 'tasks.t.env.set."A="', "no variable has such a name"),
    (task("cache = {}"), "tasks.t.cache", "expected inputs or outputs, found neither"),
    (task("cache.inputs = 'src'"), "tasks.t.cache.inputs", "expected a list"),
    (task("cache.inputs = ['!a']"), "tasks.t.cache.inputs", 'only "!" patterns'),
    (task("cache.inputs = ['a', '!!b']"), "tasks.t.cache.inputs[1]", 'a second "!"'),
    (task("cache.inputs = ['/a']"), "tasks.t.cache.inputs[0]", "never absolute"),
    (task("cache.inputs.files = ['../a']"), "tasks.t.cache.inputs.files[0]", '".." leaves it'),
    (task("cache.outputs = ['../a']"), "tasks.t.cache.outputs[0]", '".." leaves it'),
    (task("cache.outputs = ['.']"), "tasks.t.cache.outputs[0]", "not all of it"),
    (task("cache.outputs = ['**']"), "tasks.t.cache.outputs[0]", "not all of it"),
    (task("cache.outputs = ['*']"), "tasks.t.cache.outputs[0]", "not all of it"),
    (task("persistent.ready_when = ''"), "tasks.t.persistent.ready_when", "a regular expression"),
    (task("persistent.ready_when = '('"), "tasks.t.persistent.ready_when", "no regular"),
    (task("persistent.ready_port = 0"), "tasks.t.persistent.ready_port", "a port from 1 to 65535"),
    (task("persistent.ready_port = true"), "tasks.t.persistent.ready_port", "found true"),
    (task("persistent.ready_port = '80'"), "tasks.t.persistent.ready_port", 'found "80"'),
    (task("persistent.ready_timeout = '0'"), "tasks.t.persistent.ready_timeout", "more than 0"),
    (task("persistent.restart_on = ['/a']"), "tasks.t.persistent.restart_on[0]", "absolute"),
    (task("persistent.restart_on_dependencies = 1"), "restart_on_dependencies", "true or false"),
    (task("persistent = {}\ncache = { inputs = [] }"), "tasks.t.cache", "has no cache"),
    (task("persistent = {}\ntimeout = '1s'"), "tasks.t.timeout", "ready_timeout bounds the time"),
    (task("sandbox = []"), "tasks.t.sandbox", "expected a table with allow, deny, ignore or"),
    (task("sandbox.allow.read = ['!a']"), "tasks.t.sandbox.allow.read[0]", "takes nothing back"),
    (task("sandbox.allow.read = ['']"), "tasks.t.sandbox.allow.read[0]", "a path or a glob"),
    (task("sandbox.allow.read = ['~x/a']"), "tasks.t.sandbox.allow.read[0]", "your own home"),
    (task("sandbox.deny.write = ['~x']"), "tasks.t.sandbox.deny.write[0]", "your own home"),
    (task("sandbox.deny.writes = []"), "tasks.t.sandbox.deny.writes", "[did you mean write?]"),
    (
        task("sandbox.allow.git_confg = true"),
        "sandbox.allow.git_confg",
        "[did you mean git_config?]",
    ),
    (task("sandbox.allow.ptty = true"), "sandbox.allow.ptty", "[did you mean pty?]"),
    (task("sandbox.allow.pty = 1"), "sandbox.allow.pty", "expected true or false, found 1"),
    (task("sandbox.allow.weaker_when_nested = true"), "sandbox.allow.weaker", "unknown field"),
    (task("sandbox.allow.unix_sockets = false"), "allow.unix_sockets", "true or a list of paths"),
    (task("sandbox.allow.unix_sockets = '/x'"), "allow.unix_sockets", '[write ["/x"]]'),
    (task("sandbox.allow.unix_sockets = ['/run/*']"), "allow.unix_sockets[0]", "not a pattern"),
    (task("sandbox.allow.unix_sockets = ['~x/s']"), "allow.unix_sockets[0]", "your own home"),
    (
        task("sandbox.allow = { git_config = true, write = ['.'] }"),
        "tasks.t.sandbox.allow.git_config",
        'must name .git, of which this opens the config [add ".git/" to allow.write]',
    ),
    (task("sandbox.allow.network = 'a.example'"), "allow.network", '[write ["a.example"]]'),
    (task("sandbox.allow.network = false"), "allow.network", "true or a list of hosts"),
    (task("sandbox.allow.network = ['']"), "allow.network[0]", "a host"),
    (task("sandbox.allow.network = ['a.example', '*.com']"), "network[1]", "too wide"),
    (task("sandbox.allow.network = ['https://a.example/']"), "network[0]", "without a scheme"),
    (task("sandbox.ignore.write = ['!x']"), "sandbox.ignore.write[0]", "takes nothing back"),
    (task("sandbox.ignore.network = ['http://x']"), "ignore.network[0]", "without a scheme"),
    (task("sandbox.deny.network = true"), "deny.network", "a list of hosts"),
    (task("sandbox.allow.local_binding = [1]"), "local_binding", "only the ports of a persistent"),
    (task("sandbox.allow.host_ports = [1, 1]"), "host_ports[1]", "1 is listed twice"),
    (task("sandbox.allow.host_ports = [70000]"), "host_ports[0]", "found 70000"),
    (
        task("persistent = {}\nsandbox.allow.local_binding = 5173"),
        "local_binding",
        "a list of ports, found 5173",
    ),
    (
        task("persistent = {}\nsandbox.allow.local_binding = [{ port = 1 }]"),
        "[0].host",
        "is missing",
    ),
    (
        task("persistent = {}\nsandbox.allow.local_binding = [1, 1]"),
        "[1]",
        "port 1 is listed twice",
    ),
]
REFUSED_BY_BOTH += [
    (f"[tasks.t]\ndepends_on = ['a']\n{field}", "tasks.t", "a group runs nothing")
    for field in (
        *("cache = { inputs = [] }", "persistent = {}", "sandbox = {}", "timeout = '1s'"),
        *("retries = 1", "env.secret = ['A']", "interactive = true"),
    )
]

# What only the checker can know.
REFUSED_BY_CHECKER = [
    (task("timeout = '9999h'"), "tasks.t.timeout", "at most 596h"),
    (task('command2 = "a"').replace("'x'", '"a\\u0000b"'), "tasks.t.command", "NUL"),
    (task('env.set = { A = "\\u0000" }'), "tasks.t.env.set.A", "NUL"),
    (task("env = { pass = ['A'], set = { A = '' } }"), "tasks.t.env.set.A", "the same variable"),
    (task("env = { pass = ['A'], secret = ['B', 'A'] }"), "env.secret[1]", "the same variable"),
    (task("env = { set = { A = '' }, secret = ['A'] }"), "env.set.A", "env.secret takes the same"),
    (task("interactive = true\nenv.secret = ['A']"), "env.secret", "can mask nothing there"),
    (task("env.secret = ['VX_TREE']"), "tasks.t.env.secret[0]", "vx sets this variable"),
    (task("env.set = { VX_TASK = '' }"), "tasks.t.env.set.VX_TASK", "vx sets this variable"),
    (task("cache.outputs = ['*/**']"), "tasks.t.cache.outputs[0]", "not all of it"),
    (task("cache.inputs = ['{..,a}/b']"), "tasks.t.cache.inputs[0]", '".." leaves it'),
    (
        task("persistent = {}\nsandbox.allow.local_binding = [1, { port = 1, host = 2 }]"),
        "[1]",
        "port 1 is",
    ),
    (
        task("persistent = {}\nsandbox.allow.local_binding = [1, { port = 2, host = 1 }]"),
        "[1]",
        "of the host is",
    ),
    (
        task("persistent = {}\nsandbox.allow = { local_binding = [1], host_ports = [1] }"),
        "[0]",
        "task's own",
    ),
    (task("persistent.ready_when = 'a{99999999999}'"), "ready_when", "no regular expression"),
]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    REFUSED_BY_BOTH + REFUSED_BY_CHECKER,
    ids=[f"{i}" for i in range(len(REFUSED_BY_BOTH + REFUSED_BY_CHECKER))],
)
def test_refused(text: str, place: str, said: str) -> None:
    _, faults = read(text)
    matching = [f for f in faults if place in f.partition(": ")[0] and said in f]
    assert matching, faults


def test_one_fault_is_reported_once() -> None:
    for text, _, _ in REFUSED_BY_BOTH:
        assert len(read(text)[1]) == 1, text


def test_all_faults_are_reported_together() -> None:
    _, faults = read(
        "[tasks.a]\ncommand = ''\ntimeout = 1\n[tasks.b]\n[tasks.c]\ncommand = 'x'\nzzz = 1"
    )
    assert [fault.partition(":")[0] for fault in faults] == [
        "tasks.a.command",
        "tasks.a.timeout",
        "tasks.c.zzz",
        "tasks.b",
    ]


def test_a_task_with_a_fault_keeps_its_name_and_what_it_depends_on() -> None:
    tasks, _ = read("[tasks.a]\ncommand = ''\ndepends_on = ['b', 1]")
    assert tasks == {"a": Task("app", "a", depends_on=("b",))}


def test_settings() -> None:
    faults = Faults()
    text = "members = ['apps/*', '!apps/old', '.']\nconcurrency = '50%'\ntimeout = '1h'"
    settings = read_settings(tomllib.loads(text), faults)
    assert settings == Settings(settings.presets, ("apps/*", "!apps/old", "."), "50%", 3600.0)
    assert faults.found == []
    empty = read_settings({}, faults)
    assert empty == Settings(empty.presets)


@pytest.mark.parametrize(
    "text",
    [
        "member = []",
        "members = 'apps/*'",
        "members = ['/apps/*']",
        "members = ['../x']",
        "members = ['!x']",
        "concurrency = 0",
        "concurrency = true",
        "concurrency = 1.5",
        "concurrency = '0%'",
        "concurrency = 'all'",
        "timeout = 1",
        "timeout = '0'",
        "affected_base = ''",
        "cache_dir = 1",
        "cache_retention = '30d'",
        "cache_retention.older_than = 30",
        "cache_retention.older_than = '30'",
        "cache_retention.older_then = '30d'",
        "cache_retention.max_size = '10'",
        "cache_retention.max_size = 10",
        "cache_retention.max_size = '-1G'",
        "rules = ['exclusive_outputs']",
        "rules.exclusive_output = true",
        "rules.upfront_keys = 'yes'",
        "presets = []",
        "presets.a = 'x'",
        "presets.a.comand = 'x'",
        "presets.a.timeout = 1",
        "presets.'a b'.command = 'x'",
    ],
)
def test_settings_refused_by_both(text: str) -> None:
    faults = Faults()
    raw = tomllib.loads(text)
    settings = read_settings(raw, faults)
    assert settings == Settings(settings.presets)
    assert len(faults.found) == 1
    assert not editor_accepts("vx.workspace.schema.json", raw)


@pytest.mark.parametrize(
    ("value", "cores", "count"),
    [(4, 2, 4), ("4", 2, 4), ("50%", 8, 4), ("50%", 1, 1), ("1%", 8, 1), ("200%", 2, 4)],
    ids=repr,
)
def test_concurrency(value: object, cores: int, count: int) -> None:
    assert tasks_at_once(value, cores) == count


@pytest.mark.parametrize(
    ("value", "text"),
    [("x" * 80, f'"{"x" * 60}..."'), (True, "true"), (1.5, "1.5"), ({}, "a table"), ([], "a list")],
)
def test_values_are_shown_short(value: object, text: str) -> None:
    assert shown(value) == text


@cache
def validator(name: str) -> Callable[[dict[str, Any]], object]:
    return fastjsonschema.compile(json.loads(schema_text(name)))


def editor_accepts(name: str, raw: dict[str, Any]) -> bool:
    try:
        validator(name)(raw)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


def test_editors_accept_what_the_checker_accepts() -> None:
    assert editor_accepts("vx.schema.json", tomllib.loads(FULL))
    raw = tomllib.loads("members = ['apps/*', '!apps/old', '.']\nconcurrency = '50%'")
    assert editor_accepts("vx.workspace.schema.json", raw)
    raw = tomllib.loads(
        "cache_retention = { older_than = '4w', max_size = '500M' }\n"
        "rules = { exclusive_outputs = false, upfront_keys = true }\n"
        "[presets.a]\nextends = 'b'\n[presets.b]\npersistent = {}\n[presets.'c.d']\n"
    )
    faults = Faults()
    read_settings(raw, faults)
    assert faults.found == []
    assert editor_accepts("vx.workspace.schema.json", raw)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "timeout = '1s'",
        "depends_on = []",
        "sandbox.allow.local_binding = [5173]",
        "sandbox.allow.git_config = true",
    ],
)
def test_editors_leave_to_the_checker_what_a_preset_may_complete(body: str) -> None:
    assert editor_accepts("vx.schema.json", tomllib.loads(f"[tasks.t]\nextends = 'p'\n{body}"))


@pytest.mark.parametrize(
    "text",
    [text for text, _, _ in REFUSED_BY_BOTH],
    ids=[f"{i}" for i in range(len(REFUSED_BY_BOTH))],
)
def test_editors_refuse_what_the_checker_refuses(text: str) -> None:
    assert not editor_accepts("vx.schema.json", tomllib.loads(text))
