"""Sandboxed servers on localhost: who reaches them, what a taken port says, what stays."""

import os
import socket
import threading

import psutil
import pytest

from tests.harness.ports import has_ipv6, is_free, is_open
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.timeout(120)]


def _web(ws: Workspace) -> int:
    port = ws.port()
    ws.write("page.html", "the page")
    ws.server(
        "web",
        ws.serve("web", port, page="page.html"),
        ready_line="READY",
        box=Box(read=("page.html",), ports=(port,)),
    )
    return port


def _listening(port: int) -> set[str]:
    rows = psutil.net_connections("tcp")
    listening = [row.laddr for row in rows if row.laddr and row.status == psutil.CONN_LISTEN]
    return {address.ip for address in listening if address.port == port}


def test_a_boxed_server_is_reachable_while_vx_runs_and_leaves_no_forwarder(ws: Workspace) -> None:
    port = _web(ws)
    for _ in range(2):  # the second start finds the port free at once
        vx = ws.watch("web")
        ws.wait(lambda: "listen" in ws.steps("web"), "the server listens")
        assert get(port) == "the page"
        assert _listening(port) <= {"127.0.0.1", "::1"}
        assert vx.stop() == 0
        assert is_free(port)
        ws.nothing_left()
        assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
        os.unlink(os.path.join(ws.logs, "web"))
    assert sorted(ws.dirt()) == ["page.html", "vx.toml"]


def test_twenty_large_answers_at_once_arrive_whole(ws: Workspace) -> None:
    port = _web(ws)
    vx = ws.watch("web")
    ws.wait(lambda: "listen" in ws.steps("web"), "the server listens")
    sizes: list[int] = []
    clients = [
        threading.Thread(target=lambda: sizes.append(len(get(port, "/big", seconds=20))))
        for _ in range(20)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert sizes == [8 << 20] * 20
    assert vx.stop() == 0
    ws.nothing_left()


def test_localhost_works_whichever_address_the_server_binds(ws: Workspace) -> None:
    hosts = ["127.0.0.1", "0.0.0.0", *(["::1"] if has_ipv6() else [])]
    ports = {host: ws.port() for host in hosts}
    for number, (host, port) in enumerate(ports.items()):
        ws.server(
            f"s{number}",
            ws.serve(f"s{number}", port, host=host),
            ready_line="READY",
            box=Box(ports=(port,)),
        )
    vx = ws.watch(*(f"s{number}" for number in range(len(hosts))))
    for number, port in enumerate(ports.values()):
        ws.wait_steps(f"s{number}", "listen", 1)
        for client in ("localhost", "127.0.0.1", *(["::1"] if has_ipv6() else [])):
            assert get(port, host=client) == "ok"
        assert _listening(port) == {"127.0.0.1", *(["::1"] if has_ipv6() else [])}
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_taken_host_port_is_named_and_its_holder_is_left_alone(ws: Workspace) -> None:
    port = ws.port()
    command = ws.serve("web", port, name="mine")
    ws.server("web", command, ready_line="READY", box=Box(ports=(port,)))
    stranger = ws.stranger("server.py", f"port={port}", f"log={ws.logs}/stranger")
    ws.wait_open(port)
    done = ws.vx("run", "web")
    assert done.code not in {0, 70}
    (line,) = [line for line in done.text.splitlines() if str(port) in line and "in use" in line]
    assert "web" in line
    assert str(stranger.pid) in done.text
    assert ws.steps("web") in ([], ["start", "listen", "sig15", "clean"])
    assert ws.processes() == []
    assert get(port, "/pid") == str(stranger.pid)
    stranger.terminate()
    stranger.wait()
    vx = ws.start("run", "web")
    vx.wait_says("READY mine")
    assert get(port) == "ok"
    assert vx.stop() == 130
    ws.nothing_left()


def test_a_watch_outlives_a_taken_host_port(ws: Workspace) -> None:
    port = ws.port()
    ws.write("src/a", "0")
    ws.write("web/a", "0")
    ws.task("build", 'echo run $$ >> "$LOGS/build"', inputs=["src/**"])
    ws.server(
        "web",
        ws.serve("web", port),
        ready_line="READY",
        restart_on=["web/**"],
        box=Box(ports=(port,)),
    )
    with socket.create_server(("127.0.0.1", port)):
        vx = ws.watch("web", "build")
        vx.wait_says("in use")
        ws.write("src/a", "1")
        ws.wait_runs("build", 2)
    ws.write("web/a", "1")
    ws.wait_steps("web", "listen", 1)
    assert get(port) == "ok"
    assert vx.stop() == 0
    ws.nothing_left()


def _half_closed(port: int) -> bytes:
    """The answer to a client that has ended its own side."""
    with socket.create_connection(("127.0.0.1", port), patience(10)) as client:
        client.sendall(b"q")
        client.shutdown(socket.SHUT_WR)
        return client.makefile("rb").read()


def test_half_closed_and_idle_connections_are_kept(ws: Workspace) -> None:
    late, echo = ws.port(), ws.port()
    ws.server(
        "wire",
        ws.puppet("wire.py", late, echo),
        ready_line="READY",
        box=Box(ports=(late, echo)),
    )
    vx = ws.watch("wire")
    vx.wait_says("READY")
    before = len(ws.processes())
    with (
        socket.create_connection(("127.0.0.1", echo), patience(10)) as idle,
        idle.makefile("rwb") as lines,
    ):
        for word in (b"a\n", b"b\n"):
            lines.write(word)
            lines.flush()
            assert lines.readline() == word
            assert _half_closed(late) == b"late answer"
    ws.wait(lambda: len(ws.processes()) == before, "no forwarder outlives its connection", 5)
    assert vx.stop() == 0
    ws.nothing_left()


def test_requests_made_while_a_server_restarts_are_answered_by_the_next_one(
    ws: Workspace,
) -> None:
    port = ws.port()
    ws.write("src/a", "0")
    ws.server(
        "web",
        ws.serve("web", port, cleanup=0.5, slow_start=0.5),
        ready_line="READY",
        restart_on=["src/**"],
        box=Box(ports=(port,)),
    )
    vx = ws.watch("web")
    ws.wait_steps("web", "listen", 1)
    ws.write("src/a", "1")
    answers: list[str] = []
    while ws.steps("web").count("listen") < 2:
        answers.append(get(port, "/", seconds=20))
    answers.append(get(port))
    assert set(answers) == {"ok"}
    assert is_open(port)
    assert vx.stop() == 0
    ws.nothing_left()
