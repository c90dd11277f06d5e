"""An edit during a run: what builds from what is gone starts anew at once, all else goes on."""

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
        'cat a > out; echo run >> "$LOGS/one"; until [ -e "$LOGS/$(cat a)" ]; do sleep 0.02; done',
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
