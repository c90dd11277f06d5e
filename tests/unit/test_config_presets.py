"""Tasks that extend a preset: what they become, and where their faults are told."""

import tomllib

import pytest

from vxwatch.config.faults import Faults
from vxwatch.config.lines import dotted
from vxwatch.config.settings import read_settings
from vxwatch.config.tasks import check_tasks, make_tasks
from vxwatch.model import Globs, Task

NODE = """
[presets.node]
command = "node --test"
depends_on = ["^build"]
env = { pass = ["NODE_ENV"], set = { TZ = "UTC", LANG = "C" } }
cache.inputs = ["src/**"]
sandbox.allow = { read = ["."], write = ["out/"] }
"""


def read(shared: str, own: str) -> tuple[dict[str, Task], list[str]]:
    """The tasks of a config and what is wrong with them, in a preset or not."""
    faults = Faults()
    settings = read_settings(tomllib.loads(shared), faults)
    faults = Faults()
    tasks = make_tasks("app", check_tasks(tomllib.loads(own), faults, settings.presets))
    said = [f"{dotted(at)}: {message} [{hint}]" for at, message, hint in faults.found]
    misfits = settings.presets.misfits
    return tasks, said + [f"{dotted(at)} of {task}: {message}" for at, task, message, _ in misfits]


def shared_faults(text: str) -> list[str]:
    faults = Faults()
    read_settings(tomllib.loads(text), faults)
    return [f"{dotted(at)}: {message} [{hint}]" for at, message, hint in faults.found]


def one(own: str, shared: str = NODE) -> Task:
    tasks, faults = read(shared, f"[tasks.t]\n{own}")
    assert faults == []
    return tasks["t"]


def test_it_is_the_same_task_as_one_that_is_written_out() -> None:
    extended = one("extends = 'node'")
    assert extended == one(NODE.split("\n", 2)[2], "")
    assert extended.command == "node --test"


@pytest.mark.parametrize(
    ("own", "field", "value"),
    [
        ("command = 'x'", "command", "x"),
        ("depends_on = []", "depends_on", ()),
        ("depends_on = ['a']", "depends_on", ("a",)),
        ("env.pass = ['CI']", "env_pass", ("CI",)),
        ("env.pass = ['CI']", "env_set", (("TZ", "UTC"), ("LANG", "C"))),
        (
            "env.set = { TZ = 'CET', A = '1' }",
            "env_set",
            (("TZ", "CET"), ("LANG", "C"), ("A", "1")),
        ),
        ("cache.inputs = ['lib/**']", "inputs", Globs(("lib/**",))),
        ("cache.inputs.env = ['A']", "inputs", Globs(("src/**",))),
        ("cache.inputs.env = ['A']", "input_env", ("A",)),
        ("cache.inputs.files = ['lib/**']", "inputs", Globs(("lib/**",))),
        ("cache.outputs = []", "outputs", Globs()),
        ("cache.outputs = []", "inputs", Globs(("src/**",))),
    ],
)
def test_tables_are_merged_and_all_else_is_replaced(own: str, field: str, value: object) -> None:
    assert getattr(one(f"extends = 'node'\n{own}"), field) == value


def test_grants_of_one_kind_are_replaced_and_others_stay() -> None:
    sandbox = one("extends = 'node'\nsandbox.allow.write = ['dist/']").sandbox
    assert sandbox is not None
    assert (sandbox.read, sandbox.write) == ((".",), ("dist/",))


def test_a_preset_extends_another() -> None:
    shared = f"{NODE}[presets.slow]\nextends = 'node'\ntimeout = '5m'\nenv.set.TZ = 'CET'"
    task = one("extends = 'slow'\ngrace = '1s'", shared)
    assert (task.command, task.timeout, task.grace) == ("node --test", 300.0, 1.0)
    assert task.env_set == (("TZ", "CET"), ("LANG", "C"))


def test_a_short_list_goes_on_with_a_table() -> None:
    task = one(
        "extends = 'p'\ncache.inputs = ['b']", "[presets.p]\ncommand='x'\ncache.inputs.env=['A']"
    )
    assert (task.inputs, task.input_env) == (Globs(("b",)), ("A",))


def test_what_is_read_is_not_changed() -> None:
    shared = tomllib.loads(NODE)
    settings = read_settings(shared, Faults())
    own = tomllib.loads("[tasks.t]\nextends = 'node'\nenv.set.A = '1'")
    check_tasks(own, Faults(), settings.presets)
    assert shared == tomllib.loads(NODE)
    assert own == {"tasks": {"t": {"extends": "node", "env": {"set": {"A": "1"}}}}}


@pytest.mark.parametrize(
    ("shared", "own", "said"),
    [
        (NODE, "extends = 'nod'", 'tasks.t.extends: no preset "nod" [did you mean node?]'),
        (NODE, "extends = 'zzzz'", 'tasks.t.extends: no preset "zzzz" [the presets are node]'),
        ("", "extends = 'node'", 'tasks.t.extends: no preset "node" [add a [presets."node"] table'),
        (NODE, "extends = ['node']", "tasks.t.extends: expected the name of a preset, found a li"),
        (NODE, "extends = 'node'\nenv.pas = []", "tasks.t.env.pas: unknown field [did you mean"),
        (NODE, "extends = 'node'\ncache.inputs = ['/a']", "tasks.t.cache.inputs[0]: "),
        (
            NODE,
            "extends = 'node'\nenv.pass = ['TZ']",
            "presets.node.env.set.TZ of t: env.pass take",
        ),
        (
            NODE,
            "extends = 'node'\npersistent = {}",
            "presets.node.cache of t: a persistent task has",
        ),
        (
            "[presets.p]\npersistent = {}",
            "extends = 'p'\ncommand = 'x'\nretries = 1",
            "tasks.t.retries: a",
        ),
        ("[presets.p]\ntimeout = '1s'", "extends = 'p'", "tasks.t: a task needs a command"),
        (
            "[presets.p]\ntimeout = '1s'",
            "extends = 'p'\ndepends_on = ['x']",
            "presets.p.timeout of t: ",
        ),
        (
            "[presets.p]\nsandbox.allow.local_binding = [1]",
            "extends = 'p'\ncommand = 'x'",
            "presets.p.sandbox.allow.local_binding of t: ",
        ),
        (
            "[presets.a]\nextends = 'b'\n[presets.b]\npersistent = {}\nretries = 1",
            "extends = 'a'\ncommand = 'x'",
            "presets.b.retries of t: ",
        ),
    ],
)
def test_a_fault_is_told_once_where_it_stands(shared: str, own: str, said: str) -> None:
    _, faults = read(shared, f"[tasks.t]\n{own}")
    assert len(faults) == 1, faults
    assert faults[0].startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("presets = []", "presets: expected a table, found a list"),
        ("presets.a = 1", "presets.a: expected a table with command"),
        ("[presets.a]\nzzz = 1", "presets.a.zzz: unknown field"),
        ("[presets.a]\ntimeout = 1", "presets.a.timeout: expected a unit"),
        ("[presets.'a b']", 'presets."a b": "a b": a task\'s name'),
        ("[presets.a]\nextends = 'b'", 'presets.a.extends: no preset "b"'),
        ("[presets.a]\nextends = 'a'", "presets.a.extends: extends itself: a -> a"),
    ],
)
def test_a_preset_is_checked_by_itself(text: str, said: str) -> None:
    faults = shared_faults(text)
    assert any(fault.startswith(said) for fault in faults), faults


def test_a_circle_is_told() -> None:
    faults = shared_faults(
        "presets.a.extends = 'b'\npresets.b.extends = 'c'\npresets.c.extends = 'a'"
    )
    assert "presets.a.extends: extends itself: a -> b -> c -> a [take one of these out]" in faults


@pytest.mark.parametrize(
    "shared",
    [
        "presets = 7",
        "presets.p.zzz = 1",
        "presets.p.extends = 'p'",
        "presets.p = 7",
        "[presets.p]\ngrace=7",
    ],
)
def test_who_extends_a_wrong_preset_is_not_blamed(shared: str) -> None:
    tasks, faults = read(
        shared, "[tasks.t]\nextends = 'p'\ndepends_on = ['u']\n[tasks.u]\ncommand='x'"
    )
    assert faults == []
    assert tasks["t"].depends_on == ("u",)
    _, faults = read(shared, "[tasks.t]\nextends = 'p'\ntimeout = 1")
    assert [fault.partition(": ")[0] for fault in faults] == ["tasks.t.timeout"]
