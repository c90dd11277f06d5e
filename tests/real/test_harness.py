"""The harness of the scenario tests, with plain programs in the place of vx."""

import os
import signal
import socket
import subprocess
import threading
import tomllib

import pytest

from tests.harness.ports import Ports, is_free
from tests.harness.processes import children_now
from tests.harness.running import Background, Terminal, finish
from tests.harness.waiting import wait_for
from tests.harness.workspace import Workspace, get


@pytest.fixture
def ws(tmp_path: object, port_block: Ports) -> Workspace:
    return Workspace(f"{tmp_path}/w", f"{tmp_path}/logs", port_block.take)


def test_two_test_processes_never_share_a_port(port_block: Ports) -> None:
    other = Ports()
    try:
        assert not {other.take() for _ in range(20)} & {port_block.take() for _ in range(20)}
    finally:
        other.close()


def test_a_port_in_use_is_not_handed_out(port_block: Ports) -> None:
    port = port_block.take()
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)


def test_children_are_listed_while_threads_come_and_go() -> None:
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        with subprocess.Popen(["sleep", "60"]) as child:
            for _ in range(200):
                assert child.pid in children_now()
            child.kill()
    finally:
        over.set()
        churning.join()


def test_a_fact_that_never_comes_is_named() -> None:
    with pytest.raises(AssertionError, match=r"(?s)not within .* s: rain\nsunny"):
        wait_for(lambda: False, "rain", 0.01, lambda: "sunny")


def test_a_finished_program_has_its_code_and_both_streams(ws: Workspace) -> None:
    done = finish(["sh", "-c", "echo a; echo b >&2; kill -9 $$"], ws.path, ws.environment)
    assert (done.code, done.out, done.err) == (137, "a\n", "b\n")


def test_a_background_program_has_default_signals(ws: Workspace) -> None:
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        script = "echo up; exec sleep 60"
        program = Background(["sh", "-c", script], ws.path, ws.environment, f"{ws.logs}/.out")
    finally:
        signal.signal(signal.SIGINT, old)
    program.wait_says("^up$")
    os.killpg(program.pid, signal.SIGINT)
    assert program.ended() == 130


def test_a_terminal_delivers_keys_and_knows_whether_it_was_restored(ws: Workspace) -> None:
    program = Terminal(["sh", "-c", "echo up; exec sleep 60"], ws.path, ws.environment)
    program.wait_says("up")
    program.press(b"\x03")
    assert program.ended() == 130
    assert program.restored
    program.close()


def test_a_terminal_that_was_left_changed_is_seen(ws: Workspace) -> None:
    for spoil in ("stty -echo", r"printf '\033[?25l'"):
        program = Terminal(["sh", "-c", spoil], ws.path, ws.environment)
        assert program.ended() == 0
        assert not program.restored
        program.close()


def test_a_closed_terminal_hangs_up(ws: Workspace) -> None:
    program = Terminal(["sh", "-c", "echo up; exec sleep 60"], ws.path, ws.environment)
    program.wait_says("up")
    program.hang_up()
    assert program.ended() == 129


def test_the_server_puppet_tells_its_life(ws: Workspace) -> None:
    port = ws.port()
    server = ws.stranger("server.py", f"port={port}", f"log={ws.logs}/web", "helper=1")
    ws.wait_steps("web", "listen", 1)
    assert get(port, "/pid", host="127.0.0.1") == str(server.pid)
    assert ws.processes() == []  # a stranger and its tree are none of vx's
    server.terminate()
    assert server.wait() == 0
    assert ws.steps("web") == ["start", "helper", "listen", "sig15", "clean"]
    os.kill(int(ws.lines("web")[1].split()[1]), signal.SIGKILL)


def test_tasks_become_a_config_that_reads_back(ws: Workspace) -> None:
    ws.task("all", after=["a"])
    ws.task("a", 'echo "$X" \\ ü', inputs=["src/**"], outputs=[])
    ws.server("web", "serve", ready_line="READY", restart_on=["x"], grace="3s")
    read = tomllib.loads(ws.read("vx.toml"))["tasks"]
    assert read["all"] == {"depends_on": ["a"]}
    assert read["a"]["command"] == 'echo "$X" \\ ü'
    assert read["a"]["cache"] == {"inputs": ["src/**"], "outputs": []}
    assert read["web"]["persistent"] == {
        "ready_when": "READY",
        "restart_on": ["x"],
        "restart_on_dependencies": True,
    }
    assert read["web"]["grace"] == "3s"
