"""The fixture that stands around every test: it must see what a test leaves."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap

import pytest

from tests.harness.leaks import LeakCheck
from tests.harness.ports import Ports, is_free, is_open
from tests.harness.processes import alive, children_now
from tests.harness.waiting import wait_for

_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 64)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def check(tmp_path: object, port_block: Ports) -> LeakCheck:
    check = LeakCheck(str(tmp_path), port_block)
    check.begin()
    return check


def test_a_clean_test_leaves_nothing(check: LeakCheck) -> None:
    subprocess.run(["true"], check=True)
    with tempfile.TemporaryDirectory(prefix="vx-"):
        pass
    assert check.end() == []


def test_a_process_that_is_still_ending_gets_its_time(check: LeakCheck) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 0.2 & exit 0"]) as shell:
        shell.wait()
        assert check.end(grace=10) == []


def test_a_daemon_outside_session_and_parent_is_named_and_killed(check: LeakCheck) -> None:
    before = children_now()
    subprocess.run([sys.executable, "-c", _DAEMON], check=True)
    (daemon,) = children_now() - before
    (left,) = check.end(grace=0.05)
    assert left.startswith(f"process {daemon} (S)")
    assert "os.setsid()" in left
    assert not alive(daemon)


def test_a_process_of_before_the_test_is_not_blamed(port_block: Ports, tmp_path: object) -> None:
    with subprocess.Popen(["sleep", "600"]) as older:
        check = LeakCheck(str(tmp_path), port_block)
        check.begin()
        assert check.end(grace=0.05) == []
        assert alive(older.pid)
        older.kill()


def test_the_port_of_a_left_server_is_named_and_freed(check: LeakCheck, port_block: Ports) -> None:
    port = port_block.take()
    serve = (
        "import socket, time; s = socket.create_server(('127.0.0.1', int(__import__('sys').argv[1])));"
        "time.sleep(600)"
    )
    server = subprocess.Popen([sys.executable, "-c", serve, str(port)])
    wait_for(lambda: is_open(port), "the server listens")
    (left,) = check.end(grace=0.05)
    assert left.endswith(f"holds port {port}")
    assert is_free(port)
    assert server.wait() == -signal.SIGKILL or server.returncode == 0  # reaped by the check


def test_a_listener_of_the_test_process_itself_is_found_and_closed(
    check: LeakCheck, port_block: Ports
) -> None:
    port = port_block.take()
    listener = socket.create_server(("127.0.0.1", port))
    (left,) = check.end()
    assert left == f"listening socket ('127.0.0.1', {port})"
    assert is_free(port)
    listener.detach()


def test_a_port_held_by_somebody_else_is_found(check: LeakCheck, port_block: Ports) -> None:
    port = port_block.take()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", port))
        assert check.end() == [f"port {port}"]


def test_files_of_vx_and_any_socket_in_the_temp_directory_are_found(check: LeakCheck) -> None:
    session = tempfile.mkdtemp(prefix="vx-")
    other = tempfile.mkdtemp(prefix="other-")
    name = os.path.join(other, "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
    assert check.end() == [f"temp file {session}", f"temp file {name}"]
    assert not os.path.exists(check.directory)


def test_a_leaking_test_fails_and_the_next_one_does_not(tmp_path: object) -> None:
    root = str(tmp_path)
    with open(os.path.join(root, "conftest.py"), "w") as file:
        file.write(
            "from tests.conftest import *\nfrom tests.harness import leaks\nleaks.GRACE = 0.1\n"
        )
    with open(os.path.join(root, "test_two.py"), "w") as file:
        file.write(
            textwrap.dedent(
                """
                import subprocess

                def test_leaks():
                    subprocess.run(["sh", "-c", "sleep 601 >/dev/null 2>&1 & exit 0"])

                def test_is_clean():
                    pass
                """
            )
        )
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", root, root],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.path.abspath(f"{__file__}/../../..")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "sleep 601" in done.stdout
