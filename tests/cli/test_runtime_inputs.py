"""What commands print, and whose keys count, decide whether a task runs again."""

import os

import pytest

from tests.cli.test_cache import run
from tests.harness.workspace import Workspace


def test_a_command_that_fails_refuses_the_run(ws: Workspace) -> None:
    ws.write(
        "vx.toml",
        "[tasks.t]\ncommand = 'true'\n[tasks.t.cache.inputs]\nruntime = ['echo no >&2; exit 4']\n",
    )
    done = ws.vx("run", "t")
    assert done.code != 0
    assert 'the runtime input "echo no >&2; exit 4" failed with exit code 4: no' in done.text


def test_it_runs_in_its_project_or_in_the_root_once(ws: Workspace) -> None:
    ws.write("package.json", '{"name": "root", "workspaces": ["a"]}')
    ws.write("a/package.json", '{"name": "a"}')
    log = os.path.join(ws.logs, "where")
    ws.write(
        "a/vx.toml",
        "".join(
            f"[tasks.{name}]\ncommand = 'true'\n[tasks.{name}.cache.inputs]\n"
            f"runtime = ['echo own $PWD >> {log}']\nworkspace_runtime = ['echo root $PWD >> {log}']\n"
            for name in ("t", "u")
        ),
    )
    done = ws.vx("run", "t", "u", "--all")
    assert done.code == 0, done.text
    with open(log) as file:
        assert sorted(file.read().splitlines()) == [f"own {ws.file('a')}", f"root {ws.path}"]


def runtime(**commands: str) -> str:
    lines = "".join(f"{name} = ['{command}']\n" for name, command in commands.items())
    return f"[tasks.t]\ncommand = 'true'\ncache.outputs = []\n[tasks.t.cache.inputs]\n{lines}"


def two(ws: Workspace, config: str) -> None:
    ws.write("package.json", '{"name": "root", "workspaces": ["a", "b"]}')
    for name in "ab":
        ws.write(f"{name}/package.json", f'{{"name": "{name}"}}')
        ws.write(f"{name}/vx.toml", config)


@pytest.mark.parametrize("moved", ["version", "a/version", "b/version"])
def test_the_same_command_in_the_project_and_in_the_root(ws: Workspace, moved: str) -> None:
    two(ws, runtime(runtime="cat version", workspace_runtime="cat version"))
    for path in ("version", "a/version", "b/version"):
        ws.write(path, f"{path} 1\n")
    assert run(ws, "t", "--all") == "2 ran"
    assert run(ws, "t", "--all") == "2 fresh"
    ws.write(moved, f"{moved} 2\n")
    assert run(ws, "t", "--all") == ("2 ran" if moved == "version" else "1 ran, 1 fresh")


def test_what_is_printed_as_an_error_counts(ws: Workspace) -> None:
    ws.write("vx.toml", runtime(runtime="cat version >&2"))
    ws.write("version", "1\n")
    assert run(ws, "t") == "1 ran"
    assert run(ws, "t") == "1 fresh"
    ws.write("version", "2\n")
    assert run(ws, "t") == "1 ran"


def test_it_is_asked_with_what_each_task_is_given(ws: Workspace) -> None:
    ws.write("package.json", '{"name": "root"}')

    def save(value: str) -> None:
        tasks = "".join(
            f"[tasks.{name}]\ncommand = 'true'\nenv.set.HOLDS = '{of}'\ncache.outputs = []\n"
            "cache.inputs.runtime = ['cat $HOLDS']\n"
            for name, of in (("t", "one"), ("u", "two"))
        )
        ws.write("vx.toml", tasks)
        ws.write("one", "same\n")
        ws.write("two", value)

    save("1\n")
    assert run(ws, "t", "u") == "2 ran"
    save("2\n")
    assert run(ws, "t", "u") == "1 ran, 1 fresh"


def test_in_the_root_no_project_answers_for_another(ws: Workspace) -> None:
    two(ws, runtime(workspace_runtime="tool"))
    for place, says in (("", "of the root"), ("a/", "of a"), ("b/", "of b")):
        path = f"{place}node_modules/.bin/tool"
        ws.write(path, f"#!/bin/sh\necho {says}\n")
        os.chmod(ws.file(path), 0o755)
    assert run(ws, "t", "--all") == "2 ran"
    assert run(ws, "t", "--filter", "b") == "1 fresh"
    ws.write("node_modules/.bin/tool", "#!/bin/sh\necho another\n")
    assert run(ws, "t", "--all") == "2 ran"
