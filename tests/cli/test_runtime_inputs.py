"""What commands print, and whose keys count, decide whether a task runs again."""

import os

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
