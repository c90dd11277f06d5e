"""What a running watch makes of a workspace that becomes another one under it."""

import os
import shutil

import pytest

from tests.harness.ports import is_open
from tests.harness.running import VX, Background
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _two_servers(ws: Workspace, *, boxed: bool) -> tuple[int, int]:
    ports = ws.port(), ws.port()
    for name, port in zip(("api", "web"), ports, strict=True):
        box = Box(ports=(port,)) if boxed else None
        ws.server(name, ws.serve(name, port, name=name), ready_port=port, box=box)
    return ports


@pytest.mark.parametrize("boxed", [True, False])
def test_two_servers_can_change_their_ports_in_one_save(ws: Workspace, boxed: bool) -> None:
    api, web = _two_servers(ws, boxed=boxed)
    vx = ws.watch("api", "web")
    vx.wait_says("^cycle 1: 2 ran")
    config = ws.read("vx.toml").replace(f"{api}", "%").replace(f"{web}", f"{api}")
    ws.replace("vx.toml", config.replace("%", f"{web}"))
    vx.wait_says("^cycle 2: 2 ran, 0 failed")
    assert vx.says(rf"w#api ready again http://localhost:{web}")
    assert vx.says(rf"w#web ready again http://localhost:{api}")
    assert not vx.says("in use")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_whose_box_changes_but_not_its_ports_refuses_nobody(ws: Workspace) -> None:
    port = ws.port()
    ws.server("api", ws.serve("api", port), ready_port=port, box=Box(ports=(port,)))
    vx = ws.watch("api")
    vx.wait_says("^cycle 1: 1 ran")
    more = Box(ports=(port,), read=("src/",))
    ws.server("api", ws.serve("api", port, slow_start=1), ready_port=port, box=more)
    ws.wait_steps("api", "clean", 1)
    assert get(port) == "ok"
    assert ws.steps("api").count("listen") == 2
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_workspace_further_up_does_not_take_over_when_the_config_is_gone(ws: Workspace) -> None:
    ws.task("build", 'echo outer >> "$LOGS/outer"')
    ws.write("inner/vx.toml", f"[tasks.build]\ncommand = 'echo run >> {ws.logs}/inner'\n")
    vx = Background([VX, "watch", "build"], ws.file("inner"), ws.environment, f"{ws.logs}/.inner")
    try:
        vx.wait_says("^cycle 1: 1 ran")
        config = ws.read("inner/vx.toml")
        os.unlink(ws.file("inner/vx.toml"))
        vx.wait_says(r"^vx: .*/inner is not the workspace of .* any more, .*/w is$")
        ws.write("inner/vx.toml", config.replace("echo", "echo again"))
        ws.wait_runs("inner", 2)
        assert ws.runs("outer") == 0
        assert vx.stop() == 0
    finally:
        vx.close()
    ws.nothing_left()


def test_a_git_that_fails_is_told_once_and_the_watch_goes_on_when_it_is_mended(
    ws: Workspace,
) -> None:
    ws.write("src/a", "0")
    ws.task("build", 'echo run >> "$LOGS/build"', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    os.rename(ws.file(".git/HEAD"), ws.file(".git/HEAD.away"))
    ws.write(".gitignore", "*.log\n")
    vx.wait_says("^vx: git cannot list the files")
    ws.write("src/a", "1")
    vx.wait_says("what changes from now on waits")
    ws.write("src/b", "1")
    ws.settle()
    assert vx.output.count("git cannot list the files") == 1
    assert ws.runs("build") == 1
    os.rename(ws.file(".git/HEAD.away"), ws.file(".git/HEAD"))
    ws.write("src/a", "2")
    ws.wait_runs("build", 2)
    ws.write("src/b", "2")
    ws.wait_runs("build", 3)
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_watch_that_began_with_git_goes_on_without_it(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task("build", 'echo run >> "$LOGS/build"', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    os.rename(ws.file(".git"), f"{ws.path}.git")
    ws.write("src/a", "1")
    ws.wait_runs("build", 2)
    ws.task("build", 'echo again >> "$LOGS/build"', inputs=["src/**"])
    ws.wait_steps("build", "again", 1)
    ws.write("src/b", "1")
    ws.wait_steps("build", "again", 2)
    assert not vx.says("git")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_member_whose_directory_comes_after_its_name_is_taken_up(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", "members = []\n")
    ws.task("build", 'echo run >> "$LOGS/build"', after=["^build"])
    ws.write("package.json", '{"name": "w", "dependencies": {"lib": "*"}}')
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    ws.write("vx.workspace.toml", 'members = ["libs/lib"]\n')
    vx.wait_says(r'^vx\.workspace\.toml:1: .*"libs/lib": no such directory')
    ws.write("libs/lib/package.json", '{"name": "lib"}')
    command = f"command = 'echo run >> {ws.logs}/lib'"
    ws.write("libs/lib/vx.toml", f"[tasks.build]\n{command}\n")
    ws.wait(lambda: ws.runs("lib") >= 1, "the new member is built")
    assert vx.stop() == 0
    ws.nothing_left()


def _far_server(ws: Workspace, port: int) -> None:
    ws.write("package.json", '{"name": "root", "workspaces": ["packages/*"]}')
    for name in ("a", "b"):
        ws.write(f"packages/{name}/package.json", f'{{"name": "{name}"}}')
    dev = ws.serve("dev", port, die_after=1)
    ws.write(
        "packages/a/vx.toml",
        f"[tasks.dev]\ncommand = '{dev}'\n[tasks.dev.persistent]\nready_when = 'READY'\n",
    )
    ws.write(
        "packages/b/vx.toml",
        f"""\
[tasks.servers]
depends_on = ["a#dev"]
[tasks.test]
command = "echo run >> {ws.logs}/test"
depends_on = ["servers"]
cache.inputs = ["t/**"]
""",
    )


def test_a_dead_server_comes_back_for_whoever_needs_it_however_far(ws: Workspace) -> None:
    port = ws.port()
    _far_server(ws, port)
    ws.write("packages/b/t/x", "0")
    vx = ws.watch("b#test")
    vx.wait_says("a#dev ended by itself: exit code 3")
    assert not is_open(port)
    ws.write("packages/b/t/x", "1")
    ws.wait_runs("test", 2)
    assert ws.steps("dev")[:5] == ["start", "listen", "crash", "start", "listen"]
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_whose_project_moved_starts_again_there_and_ends_with_it(ws: Workspace) -> None:
    port = ws.port()
    ws.write("package.json", '{"name": "root", "workspaces": ["packages/*"]}')
    ws.write("packages/a/package.json", '{"name": "a"}')
    dev = f"pwd >> {ws.logs}/pwd; exec {ws.serve('dev', port)}"
    table = f"[tasks.dev]\ncommand = '{dev}'\n[tasks.dev.persistent]\nready_when = 'READY'\n"
    ws.write("packages/a/vx.toml", table)
    ws.write("packages/b/package.json", '{"name": "b"}')
    ws.write("packages/b/vx.toml", "[tasks.dev]\ncommand = 'true'\n")
    vx = ws.start("watch", "--all", "dev")
    vx.wait_says("^cycle 1: ")
    os.rename(ws.file("packages/a"), ws.file("packages/c"))
    ws.wait_steps("dev", "listen", 2)
    os.rename(ws.file("packages/c"), ws.file("packages/d"))
    os.mkdir(ws.file("packages/c"))
    ws.wait_steps("dev", "listen", 3)
    assert ws.lines("pwd") == [ws.file(f"packages/{name}") for name in "acd"]
    os.rename(ws.file("packages/d"), ws.file("elsewhere"))
    vx.wait_says("^note: a#dev was ended: nothing asks for that server any more$")
    ws.wait(lambda: not is_open(port), "the server is gone")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_workspace_that_is_removed_and_made_again_is_taken_up(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task("build", 'echo run >> "$LOGS/build"', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    shutil.rmtree(ws.path)
    vx.wait_says("^vx: no vx.toml")
    os.mkdir(ws.path)
    ws.git("init", "-q")
    ws.write("src/a", "1")
    ws.save_config()
    ws.wait(lambda: ws.runs("build") >= 2, "it is built again")
    ws.settle()
    runs = ws.runs("build")
    ws.write("src/a", "2")
    ws.wait_runs("build", runs + 1)
    assert vx.stop() == 0
    ws.nothing_left()
