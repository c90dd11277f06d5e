"""`vx watch` and a project's directory that another one, with the same files, takes the place of."""

import json
import os
import shutil

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_BUILD = 'echo run $$ >> "$LOGS/build"; mkdir -p dist; cat src/a > dist/a'


def _member(ws: Workspace, *tables: str) -> None:
    ws.write("vx.workspace.toml", 'members = ["packages/*"]\n')
    ws.write("packages/a/package.json", '{"name": "a"}')
    ws.write("packages/a/src/a", "text\n")
    ws.write("packages/a/vx.toml", "".join(tables))


def _task(name: str, command: str, more: str) -> str:
    return f"[tasks.{name}]\ncommand = {json.dumps(command)}\n{more}\n"


def _swap(ws: Workspace, part: str = "packages/a") -> None:
    """Put a copy without what tasks made to the place of the directory, faster than it settles."""
    fresh, old = f"{ws.path}.fresh", f"{ws.path}.old"
    shutil.copytree(ws.file(part), fresh, ignore=shutil.ignore_patterns("dist"))
    os.rename(ws.file(part), old)
    os.rename(fresh, ws.file(part))
    shutil.rmtree(old)


@pytest.mark.parametrize("part", ["packages/a", "packages"])
@pytest.mark.parametrize("options", [(), ("--no-cache",)])
@pytest.mark.parametrize("polling", [False, True])
def test_what_went_with_the_directory_is_there_again(
    ws: Workspace, part: str, options: tuple[str, ...], polling: bool
) -> None:
    if polling:
        ws.environment = {**ws.environment, "VX_WATCH_POLL": "1"}
    outputs = (
        f'env.set.LOGS = "{ws.logs}"\ncache = {{ inputs = ["src/**"], outputs = ["dist/**"] }}'
    )
    _member(ws, _task("build", _BUILD, outputs))
    vx = ws.watch("build", "--all", *options)
    ws.wait_runs("build", 1)
    ws.settle()
    for times in (1, 2):
        _swap(ws, part)
        ws.wait(lambda: ws.holds("packages/a/dist/a", "text\n"), f"what went away, {times}")
        ws.settle()
    assert ws.runs("build") == (3 if options else 1)
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_directory_that_comes_back_as_it_was_starts_nothing(ws: Workspace) -> None:
    _member(
        ws,
        _task(
            "build",
            _BUILD,
            f'env.set.LOGS = "{ws.logs}"\ncache = {{ inputs = ["src/**"], outputs = ["dist/**"] }}',
        ),
    )
    vx = ws.watch("build", "--all")
    ws.wait_runs("build", 1)
    ws.settle()
    os.rename(ws.file("packages/a"), f"{ws.path}.old")
    os.rename(f"{ws.path}.old", ws.file("packages/a"))
    ws.settle()
    ws.write("packages/a/src/a", "more\n")
    ws.wait(lambda: ws.holds("packages/a/dist/a", "more\n"), "the edit was built")
    ws.settle()
    assert vx.output.count("cycle ") == 2
    assert vx.stop() == 0


def test_a_server_whose_directory_is_another_one_starts_anew_in_it(ws: Workspace) -> None:
    port = ws.port()
    _member(
        ws,
        _task(
            "dev",
            f"exec {ws.serve('dev', port)}",
            f'persistent = {{ ready_port = {port}, restart_on = ["src/**"] }}',
        ),
    )
    vx = ws.watch("dev", "--all")
    ws.wait_open(port)
    (before,) = ws.server_pids("dev")
    _swap(ws)
    ws.wait(lambda: ws.server_pids("dev") not in ([], [before]), "another server started")
    ws.wait_open(port)
    (after,) = ws.server_pids("dev")
    assert os.readlink(f"/proc/{after}/cwd") == ws.file("packages/a")
    assert vx.stop() == 0
    ws.nothing_left()


@pytest.mark.parametrize("outputs", ['outputs = ["dist/**"]', ""])
def test_a_member_that_left_and_came_back_is_built_anew(ws: Workspace, outputs: str) -> None:
    """Also where nobody told what it makes: that may have gone with the member."""
    inputs = f'env.set.LOGS = "{ws.logs}"\ncache = {{ inputs = ["src/**"], {outputs} }}'
    whole = f'env.set.LOGS = "{ws.logs}"'
    ws.write(".gitignore", "dist\n")
    _member(ws, _task("build", _BUILD, inputs if outputs else whole))
    ws.write("packages/b/package.json", '{"name": "b"}')
    ws.write("packages/b/vx.toml", _task("build", "true", ""))
    vx = ws.watch("build", "--all", "--no-cache")
    ws.wait_runs("build", 1)
    ws.settle()
    cycles = vx.output.count("cycle ")
    shutil.rmtree(ws.file("packages/a/dist"))
    os.rename(ws.file("packages/a"), f"{ws.path}.away")
    ws.wait(lambda: vx.output.count("cycle ") > cycles, "the workspace was loaded without it")
    ws.settle()
    os.rename(f"{ws.path}.away", ws.file("packages/a"))
    ws.wait_runs("build", 2)
    ws.wait(lambda: ws.holds("packages/a/dist/a", "text\n"), "it was built")
    assert vx.stop() == 0
    ws.nothing_left()
