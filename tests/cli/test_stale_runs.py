"""An edit during a run: what builds from what is gone starts anew at once, all else goes on."""

import json
import os

import pytest

from tests.harness.workspace import Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SLOW = 'echo {name} $(cat {file}) >> "$LOGS/{name}"; until [ -e "$LOGS/go" ]; do sleep 0.02; done'


def _slow(name: str, file: str) -> str:
    """Logs what it reads, and ends when the gate is open."""
    return SLOW.format(name=name, file=file)


def _go(ws: Workspace) -> None:
    with open(f"{ws.logs}/go", "w"):
        pass


def _wait_log(ws: Workspace, name: str, *lines: str) -> None:
    expected = [f"{name} {line}" for line in lines]
    ws.wait(lambda: ws.lines(name) == expected, f"{name} ran with {lines}")


def test_a_run_that_an_edit_made_stale_starts_anew_and_the_rest_goes_on(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.write("b", "1")
    ws.task("one", _slow("one", "a") + "; cp a out", inputs=["a"], outputs=["out"])
    ws.task("two", _slow("two", "b"), inputs=["b"])
    ws.task("use", 'echo use $(cat out) >> "$LOGS/use"', inputs=["x"], after=["one"])
    vx = ws.watch("one", "two", "use")
    _wait_log(ws, "one", "1")
    _wait_log(ws, "two", "1")
    ws.write("a", "2")
    _wait_log(ws, "one", "1", "2")
    vx.wait_says("^restarting .*#one: a changed while it ran")
    _go(ws)
    vx.wait_says("^cycle 1: 3 ran, 0 failed")
    _wait_log(ws, "use", "2")
    _wait_log(ws, "two", "1")
    assert vx.stop() == 0
    ws.nothing_left()
    # What was built last is what is saved under its key.
    assert "1 fresh" in ws.vx("run", "one").text


def test_an_edit_of_what_is_done_is_built_while_something_else_runs_on(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.write("b", "1")
    ws.task("quick", 'echo quick $(cat a) >> "$LOGS/quick"', inputs=["a"])
    ws.task("long", _slow("long", "b"), inputs=["b"])
    vx = ws.watch("quick", "long")
    _wait_log(ws, "quick", "1")
    _wait_log(ws, "long", "1")
    ws.write("a", "2")
    _wait_log(ws, "quick", "1", "2")
    assert not vx.says("^cycle")
    _go(ws)
    vx.wait_says("^cycle 1: 2 ran, 0 failed, 0 kept, .* a$")
    _wait_log(ws, "long", "1")
    assert vx.stop() == 0


def test_a_run_waits_for_what_it_depends_on_to_be_built_anew(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.task("lib", "cp a lib", inputs=["a"], outputs=["lib"])
    ws.task("app", _slow("app", "lib"), inputs=["x"], after=["lib"])
    vx = ws.watch("app")
    _wait_log(ws, "app", "1")
    ws.write("a", "2")
    _wait_log(ws, "app", "1", "2")
    vx.wait_says("^restarting .*#app: what it depends on changed")
    _go(ws)
    vx.wait_says("^cycle 1: 2 ran, 0 failed")
    assert vx.stop() == 0


def test_a_queue_lets_the_stale_run_end_first(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.task("one", _slow("one", "a"), inputs=["a"])
    vx = ws.watch("one", "--on-busy=queue")
    _wait_log(ws, "one", "1")
    ws.write("a", "2")
    ws.settle(1.0)
    _wait_log(ws, "one", "1")
    _go(ws)
    _wait_log(ws, "one", "1", "2")
    vx.wait_says("^cycle 2: 1 ran")
    assert not vx.says("^restarting")
    assert vx.stop() == 0


def test_a_task_without_declared_inputs_runs_to_its_end_first(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.task("any", _slow("any", "a"))
    vx = ws.watch("any")
    _wait_log(ws, "any", "1")
    ws.write("a", "2")
    ws.settle(1.0)
    _wait_log(ws, "any", "1")
    _go(ws)
    _wait_log(ws, "any", "1", "2")
    assert vx.stop() == 0


def test_what_a_stale_run_printed_is_not_shown_with_the_failure_of_the_next(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.task("lib", "cat a; " + _slow("lib", "a") + "; exit 3", inputs=["a"])
    ws.task("app", "true", inputs=["x"], after=["lib"])
    ws.write("a", "first words")
    vx = ws.watch("app")
    ws.wait(lambda: len(ws.lines("lib")) == 1, "the first run")
    ws.write("a", "second words")
    ws.wait(lambda: len(ws.lines("lib")) == 2, "the second run")
    _go(ws)
    vx.wait_says("^cycle 1: .*1 failed")
    assert vx.says("^second words")
    assert not vx.says("^first words")
    assert vx.stop() == 0


def test_going_back_to_what_was_built_before_a_stale_run_builds_it_again(ws: Workspace) -> None:
    ws.write("a", "1")
    ws.task(
        "one",
        'v=$(cat a); cat a > out; echo run >> "$LOGS/one"; until [ -e "$LOGS/$v" ]; do sleep 0.02; done',
        inputs=["a"],
    )
    for gate in ("1", "3"):
        with open(f"{ws.logs}/{gate}", "w"):
            pass
    vx = ws.watch("one")
    vx.wait_says("^cycle 1: 1 ran")
    ws.write("a", "2")
    ws.wait_runs("one", 2)
    ws.wait(lambda: ws.holds("out", "2"), "the output is overwritten")
    ws.write("a", "1")
    vx.wait_says("^cycle 2: 1 ran")
    assert ws.read("out") == "1"
    assert vx.stop() == 0


def test_a_server_restarts_while_a_long_task_runs_on(ws: Workspace) -> None:
    port = ws.port()
    ws.write("conf", "first")
    ws.write("b", "1")
    ws.server("web", ws.serve("web", port, page="conf"), ready_line="READY", restart_on=["conf"])
    ws.task("long", _slow("long", "b"), inputs=["b"])
    vx = ws.watch("web", "long")
    _wait_log(ws, "long", "1")
    ws.wait_steps("web", "listen", 1)
    ws.write("conf", "second")
    ws.wait_steps("web", "listen", 2)
    assert get(port) == "second"
    assert not vx.says("^cycle")
    _go(ws)
    vx.wait_says("^cycle 1: ")
    _wait_log(ws, "long", "1")
    assert vx.stop() == 0
    ws.nothing_left()


def test_who_saves_again_and_again_sees_the_last_state_built(ws: Workspace) -> None:
    ws.write("a", "0")
    ws.task("one", "cat a > out; sleep 0.4", inputs=["a"])
    vx = ws.watch("one")
    for number in range(1, 12):
        ws.write("a", str(number))
        ws.settle(0.15)
    ws.wait(lambda: ws.holds("out", "11"), "the last state is built", 20)
    vx.wait_says("^cycle .* a$")
    ws.settle()
    assert ws.read("out") == "11"
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_run_that_waited_for_its_turn_is_not_saved_for_what_it_was_to_build(
    ws: Workspace,
) -> None:
    ws.write("a", "1")
    ws.task("lib", f"cat a > lib; {_slow('lib', 'a')}", inputs=["a"], outputs=["lib"])
    command = 'echo app >> "$LOGS/app"; cp lib app; until [ -e "$LOGS/end" ]; do sleep 0.02; done'
    ws.task("app", command, inputs=["x"], outputs=["app"], after=["lib"])
    _go(ws)
    assert ws.vx("run", "lib").code == 0
    other = ws.start("run", "app")
    ws.wait_runs("app", 1)
    vx = ws.watch("app")
    vx.wait_says("app waits since .*: another vx is at it")
    os.unlink(f"{ws.logs}/go")
    ws.write("a", "2")
    _wait_log(ws, "lib", "1", "2")
    # It gets its turn while what it depends on is half-way to the next state.
    other.stop()
    ws.settle()
    assert ws.runs("app") == 1, "it began in the midst of things"
    with open(f"{ws.logs}/end", "w"):
        pass
    _go(ws)
    vx.wait_says("^cycle 1: 2 ran, 0 failed")
    assert ws.read("app") == "2"
    assert vx.stop() == 0
    ws.write("a", "1")
    assert ws.vx("run", "app").code == 0
    assert ws.read("app") == "1"


def test_a_task_that_waits_for_room_is_saved_for_what_is_there_when_it_begins(
    ws: Workspace,
) -> None:
    ws.write("a", "1")
    ws.write("b", "1")
    # It has no inputs, so a change of `a` waits for it; and what takes long begins first.
    ws.task("any", f"{_slow('any', 'b')}; [ $(cat b) = 2 ] || sleep 4")
    ws.task("lib", f"cp a lib; {_slow('lib', 'a')}", inputs=["a", "b"], outputs=["lib"])
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_line="READY", after=["lib"])
    _go(ws)
    vx = ws.watch("any", "web", "--concurrency=1")
    vx.wait_says("^cycle 1: ")
    os.unlink(f"{ws.logs}/go")
    ws.write("b", "2")
    _wait_log(ws, "any", "1", "2")
    # It looks at the keys of all that it depends on.
    assert ws.vx("restart", "web").code == 0
    ws.write("a", "2")
    ws.settle()
    _wait_log(ws, "lib", "1")
    _go(ws)
    ws.wait(lambda: ws.holds("lib", "2"), "the last state is built")
    ws.settle()
    ws.write("a", "1")
    ws.wait(lambda: ws.holds("lib", "1"), "what was built before is there again")
    ws.settle()
    assert ws.read("lib") == "1"
    assert vx.stop() == 0


def test_a_failure_amid_a_change_of_what_it_uses_is_no_news(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", 'members = ["packages/*"]\n')
    ws.write(".gitignore", "out\n")
    ws.write("packages/lib/a", "1")
    lib = f"cat a > out; {_slow('lib', 'a')}"
    cached = 'cache = { inputs = ["a"], outputs = ["out"] }'
    ws.write("packages/lib/vx.toml", _table("build", lib, ws, cached))
    test = f"{_slow('test', '../lib/out')}; cmp ../lib/out ../lib/b || exit 3"
    after = 'depends_on = ["lib#build"]'
    ws.write("packages/app/vx.toml", _table("test", test.replace("/go", "/end"), ws, after))
    _go(ws)
    vx = ws.watch("test", "--all")
    _wait_log(ws, "test", "1")
    os.unlink(f"{ws.logs}/go")
    ws.write("packages/lib/a", "2")
    _wait_log(ws, "lib", "1", "2")
    # It has no inputs and so runs to its end, over a library that is half-way.
    with open(f"{ws.logs}/end", "w"):
        pass
    vx.wait_says("^restarting app#test: what it depends on changed while it ran")
    ws.write("packages/lib/b", "2")
    _go(ws)
    vx.wait_says("^cycle 1: 2 ran, 0 failed")
    assert not vx.says("app#test failed")
    _wait_log(ws, "test", "1", "2")
    assert vx.stop() == 0


@pytest.mark.parametrize("verb", ["run", "watch --debounce=2s"])
def test_what_changes_and_changes_back_while_it_runs_is_not_saved(ws: Workspace, verb: str) -> None:
    ws.write("a", "1")
    wait = 'echo {0} >> "$LOGS/one"; until [ -e "$LOGS/{0}" ]; do sleep 0.01; done'
    command = f"{wait.format('ready')}; cp a out; {wait.format('seen')}"
    ws.task("one", command, inputs=["a"], outputs=["out"])
    ws.task("use", "cp out used", inputs=["x"], outputs=["used"], after=["one"])
    vx = ws.start(*verb.split(), "use")
    ws.wait_runs("one", 1)
    ws.write("a", "2")
    with open(f"{ws.logs}/ready", "w"):
        pass
    ws.wait_runs("one", 2)
    assert ws.read("out") == "2"
    ws.write("a", "1")
    with open(f"{ws.logs}/seen", "w"):
        pass
    if verb == "run":
        vx.wait_says("note: .*#one is not saved: a changed while it ran")
        assert vx.ended() == 0
    else:
        vx.wait_says("^cycle 1: 2 ran")
        assert vx.stop() == 0
    assert ws.vx("run", "use").code == 0
    assert ws.read("out") == ws.read("used") == "1"


def test_what_rewrites_its_inputs_one_by_one_is_not_ended_over_and_over(ws: Workspace) -> None:
    for name in "123456":
        ws.write(f"src/{name}", "x")
    ws.task(
        "fmt",
        'echo begin >> "$LOGS/fmt"; for f in src/*; do sleep 0.4; '
        'grep -q tidy $f || echo tidy >> $f; done; echo end >> "$LOGS/fmt"',
        inputs=["src/*"],
    )
    vx = ws.watch("fmt")
    ws.wait(lambda: ws.lines("fmt").count("end") == 2, "a run that changes nothing", 30)
    vx.wait_says("^cycle 2: 1 ran")
    assert ws.lines("fmt") == ["begin", "begin", "end", "begin", "end"]
    ws.settle()
    assert not vx.says("^cycle 3")
    assert vx.stop() == 0


def test_a_server_that_somebody_restarts_amid_a_build_follows_that_all_the_same(
    ws: Workspace,
) -> None:
    ws.write("a", "1")
    ws.task("lib", f"{_slow('lib', 'a')}; cp a lib", inputs=["a"], outputs=["lib"])
    port = ws.port()
    ws.server("web", ws.serve("web", port, page="lib"), ready_line="READY", after=["lib"])
    _go(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    os.unlink(f"{ws.logs}/go")
    ws.write("a", "2")
    _wait_log(ws, "lib", "1", "2")
    assert ws.vx("restart", "web").code == 0
    assert get(port) == "1"
    _go(ws)
    vx.wait_says("^cycle 2: 2 ran")
    assert get(port) == "2"
    assert vx.stop() == 0


def _table(name: str, command: str, ws: Workspace, *fields: str) -> str:
    env = f"env.set.LOGS = {json.dumps(ws.logs)}"
    lines = [f"[tasks.{name}]", f"command = {json.dumps(command)}", env, *fields]
    return "\n".join(lines) + "\n"
