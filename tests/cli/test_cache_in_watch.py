"""A watch leaves outputs where they are while it makes them anew, and saves what is surely new."""

from tests.harness.workspace import Workspace

CONFIG = """[tasks.t]
command = '''echo run >> "{logs}/t"; {command}'''
cache = {{ inputs = ["src/**"], outputs = ["out/**"] }}
"""


def prepare(ws: Workspace, command: str) -> None:
    ws.write("src/a.txt", "one")
    ws.write("vx.toml", CONFIG.format(command=command, logs=ws.logs))


def told(ws: Workspace) -> str:
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    return done.out.splitlines()[-1].rpartition(" in ")[0]


def watch_an_edit(ws: Workspace) -> None:
    """A watch that lives for two cycles, of which the second follows an edit."""
    vx = ws.watch("t")
    ws.wait_runs("t", 1)
    ws.settle()
    ws.write("src/a.txt", "two")
    ws.wait_runs("t", 2)
    ws.settle()
    assert vx.stop() == 0


def test_outputs_stay_while_the_task_runs_and_when_it_fails(ws: Workspace) -> None:
    prepare(
        ws,
        f'mkdir -p out; ls out >> "{ws.logs}/seen"; ! grep -q BAD src/a.txt && cp src/a.txt out/b',
    )
    vx = ws.watch("t")
    ws.wait_runs("t", 1)
    ws.wait(lambda: ws.holds("out/b", "one"), "the first output")
    ws.settle()
    ws.write("vx.toml", ws.read("vx.toml").replace("out/b'''", "out/tmp && mv out/tmp out/b'''"))
    ws.wait_runs("t", 2)
    ws.settle()
    ws.write("src/a.txt", "BAD")
    vx.wait_says("t failed")
    assert ws.holds("out/b", "one")
    assert vx.stop() == 0
    with open(f"{ws.logs}/seen") as file:
        assert file.read().split() == ["b", "b"]


def test_what_is_all_new_is_saved(ws: Workspace) -> None:
    prepare(ws, "mkdir -p out/deep; cp src/a.txt out/deep/b")
    watch_an_edit(ws)
    assert told(ws) == "1 fresh"
    ws.write("src/a.txt", "one")
    assert told(ws) == "1 restored"
    assert ws.runs("t") == 2


def test_what_may_be_left_over_is_not(ws: Workspace) -> None:
    prepare(ws, "mkdir -p out; cp src/a.txt out/$(cat src/a.txt)")
    watch_an_edit(ws)
    assert ws.holds("out/one", "one")
    assert told(ws) == "1 ran"
    assert not ws.holds("out/one", "one")
    assert ws.holds("out/two", "two")


def test_what_is_made_after_the_cache_was_removed_is_kept(ws: Workspace) -> None:
    prepare(ws, "mkdir -p out; cp src/a.txt out/b")
    ws.write(".gitignore", "out\n.vx\n")
    ws.git("add", "-A")
    vx = ws.watch("t")
    ws.wait_runs("t", 1)
    ws.settle()
    ws.git("clean", "-dxfq")
    ws.write("src/a.txt", "two")
    ws.wait_runs("t", 2)
    ws.settle()
    ws.write("src/a.txt", "three")
    ws.wait_runs("t", 3)
    ws.settle()
    assert vx.stop() == 0
    assert told(ws) == "1 fresh"
    ws.write("src/a.txt", "two")
    assert told(ws) == "1 restored"
    assert ws.runs("t") == 3
    history = ws.vx("last", "--list")
    assert "vx watch t" in history.text
    ws.nothing_left()
