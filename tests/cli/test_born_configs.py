"""What a sandboxed task must not bring into being: files that vx and other tools obey."""

import pytest

from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

EVIL = '[tasks.build]\\ncommand = \\"touch $LOGS/.evil\\"'


@pytest.fixture(autouse=True)
def _members(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", 'members = ["packages/*"]\n')
    ws.write("packages/ui/package.json", '{"name": "ui"}')


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("echo x > .envrc", ".envrc"),
        ("mkdir .vscode", ".vscode"),
        ("echo '{}' > package.json", "package.json"),
        ("mkdir packages/new && echo x > packages/new/vx.toml", "packages/new/vx.toml"),
        ("mkdir packages/n && echo 'x()' > packages/n/vx.config.py", "packages/n/vx.config.py"),
        ("echo 'x()' > vx.config.py", "vx.config.py"),
        ("echo > vx.lock", "vx.lock"),
        ("mkdir packages/ui/.git", ""),  # another project is not there to write in
    ],
)
def test_what_tools_obey_fails_the_task_that_made_it(
    ws: Workspace, command: str, named: str
) -> None:
    ws.task("make", command, box=Box(write=(".",)))
    done = ws.vx("run", "make")
    assert done.code == 1, done.text
    if named:
        assert f"{named} appeared or changed" in done.text
        assert "sandbox.allow.write" in done.text


def test_a_grant_that_names_it_allows_it(ws: Workspace) -> None:
    ws.task("make", "echo x > .envrc; mkdir -p .vscode", box=Box(write=(".", ".envrc", ".vscode/")))
    done = ws.vx("run", "make")
    assert done.code == 0, done.text
    assert ws.read(".envrc") == "x\n"


@pytest.mark.slow
def test_a_watch_does_not_load_it_until_it_is_saved(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task(
        "make",
        f'mkdir -p packages/new && printf "{EVIL}" > packages/new/vx.toml; echo run >> "$LOGS/make"',
        inputs=["src/**"],
        box=Box(write=(".",)),
    )
    vx = ws.watch("make")
    ws.wait_runs("make", 1)
    vx.wait_says("packages/new/vx.toml appeared or changed")
    vx.wait_says("packages/new/vx.toml is not loaded: it appeared where .*#make may write")
    # Another config is saved: what the task made is not loaded with it.
    ws.write("packages/ui/package.json", '{"name": "ui", "version": "1.0.0"}')
    vx.wait_says("so vx loads nothing now")
    ws.write("packages/new/vx.toml", "[tasks.other]\ncommand = 'true'\n")
    ws.wait_runs("make", 2)
    assert vx.stop() == 0


def test_of_a_server_it_is_told_when_it_ends(ws: Workspace) -> None:
    ws.server("web", "echo x > .envrc; echo up; cat", ready_line="up", box=Box(write=(".",)))
    vx = ws.watch("web")
    vx.wait_says("up")
    assert vx.stop() == 0
    assert "#web: .envrc appeared or changed" in vx.output
