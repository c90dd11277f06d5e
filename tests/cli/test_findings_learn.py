"""`vx run --learn`: what it prints makes the task pass, and what it opens stays in the project."""

import os

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]


def config(ws: Workspace, command: str, table: str = "") -> None:
    ws.write("vx.toml", f"[tasks.t]\ncommand = {command!r}\n{table}\n")


def learned(ws: Workspace) -> str:
    """The table that vx prints."""
    done = ws.vx("run", "--learn", "t")
    _, found, rest = done.out.partition("[tasks.t.sandbox.allow]")
    assert found, done.text
    return found + rest.partition("1 ran")[0].partition("1 failed")[0]


def test_a_second_run_with_what_was_learned_passes(ws: Workspace) -> None:
    for name in ("src/a", "src/b", "lib/a", "lib/b", "lib/c", "secret", "out/old"):
        ws.write(name, name)
    command = "cat src/a src/b lib/a > out/o; mkdir -p gen/deep; echo x > gen/deep/x; rm out/old"
    config(ws, command)
    table = learned(ws)
    assert 'read = ["lib/a", "src"]\n' in table
    assert 'write = ["gen/", "out/"]\n' in table
    ws.write("out/old", "")
    config(ws, command, table)
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    config(ws, command, "sandbox = {}")
    assert ws.vx("run", "t").code != 0


def test_learning_opens_nothing_beside_the_project(ws: Workspace) -> None:
    outside = os.path.join(ws.logs, "outside")
    ws.write("src/a", "")
    config(ws, f"cat src/a; echo x > {outside}; echo x > .git/config; echo x > vx.toml; true")
    before = ws.read("vx.toml"), ws.read(".git/config")
    table = learned(ws)
    assert (ws.read("vx.toml"), ws.read(".git/config")) == before
    assert not os.path.exists(outside)
    assert 'read = ["src"]\n' in table


def test_a_task_that_failed_may_need_more(ws: Workspace) -> None:
    ws.write("a", "")
    config(ws, "cat a; exit 3")
    done = ws.vx("run", "--learn", "t")
    assert done.code == 3
    assert '[tasks.t.sandbox.allow]\nread = ["a"]\n# the task failed' in done.out


def test_learning_uses_and_keeps_nothing_of_the_cache(ws: Workspace) -> None:
    ws.write("a", "")
    fields = 'cache = { inputs = ["a"], outputs = [] }\nsandbox = { allow = { read = ["a"] } }'
    config(ws, "cat a", fields)
    for _ in range(2):
        assert "read = [" in learned(ws)
    assert "1 ran" in ws.vx("run", "t").text
    assert "read = [" in learned(ws)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ('[tasks.t]\ncommand = "true"\npersistent = {}\n', ("t",)),
        ('[tasks.t]\ncommand = "true"\n[tasks.u]\ncommand = "true"\n', ("t", "u")),
    ],
    ids=["a server", "two tasks"],
)
def test_only_one_task_that_ends_can_be_learned(
    ws: Workspace, table: str, names: tuple[str, ...]
) -> None:
    ws.write("vx.toml", table)
    done = ws.vx("run", "--learn", *names)
    assert done.code == 2, done.text
    assert "--learn" in done.text or "cannot be learned" in done.text
