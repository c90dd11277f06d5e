"""Live reload: what open pages are told through a real server's port, when, and what it leaves."""

import os
import re
import signal
import socket
import threading

import psutil
import pytest

from tests.harness.ports import is_free
from tests.harness.reloading import Events
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.timeout(120)]

SCRIPT = re.compile(r'<script async src="(/__vx__/\w{40}/)reload\.js\?v=(\w+\.\d+)"></script>')


def _site(ws: Workspace, *, live_reload: bool = True, restart: str | None = None) -> int:
    """A server of dist/page, which a task makes of src/a."""
    port = ws.port()
    ws.write(".gitignore", "dist/\n")
    ws.write("src/a", "v0")
    ws.task(
        "build",
        "! grep BAD src/a && mkdir -p dist && cp src/a dist/page",
        inputs=["src/**"],
        outputs=["dist/**"],
    )
    command = ws.serve("web", port, page="dist/page", slow_start=0.3, cleanup=0.3)
    ws.server(
        "web",
        command,
        ready_port=port,
        after=["build"],
        restart=restart,
        live_reload=live_reload,
        box=Box(read=(".",), ports=(port,)),
    )
    return port


def _way(port: int) -> tuple[str, str]:
    """Where the page's reload channel lies, and the page's version."""
    found = SCRIPT.search(get(port))
    assert found
    return found[1], found[2]


def _listen(port: int) -> Events:
    path, version = _way(port)
    client = socket.create_connection(("127.0.0.1", port), timeout=patience(15))
    page = Events(client, path)
    assert page.next() == ("hello", {"version": version, "servers": False, "failed": []})
    return page


def test_a_page_hears_once_of_each_good_cycle_when_the_new_server_answers(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    for number in (1, 2):
        ws.write("src/a", f"v{number}")
        kind, told = page.next()
        assert kind == "reload"
        assert get(port).endswith(f"v{number}")
        assert told["version"] == _way(port)[1]
    ws.write("src/a", "BAD")
    kind, told = page.next()
    assert kind == "failed"
    (failed,) = told["failed"]
    assert failed["task"].endswith("#build")
    assert (failed["how"], failed["output"]) == ("failed with exit 1", "BAD")
    assert get(port).endswith("v2")
    ws.write("src/a", "v3")
    kind, told = page.next()
    assert (kind, told["failed"]) == ("reload", [])
    assert get(port).endswith("v3")
    ws.settle()
    assert page.quiet
    page.close()
    assert vx.stop() == 0
    ws.nothing_left()


def test_nobody_is_refused_while_the_server_restarts(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    over = threading.Event()
    failures: list[OSError] = []

    def ask() -> None:
        while not over.is_set():
            try:
                assert "__vx__" in get(port, seconds=20)
            except OSError as error:
                failures.append(error)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for number in (1, 2, 3):
        ws.write("src/a", f"v{number}")
        vx.wait_says(rf"^cycle {number + 1}: ")
    over.set()
    for client in clients:
        client.join()
    assert failures == []
    assert ws.steps("web").count("start") == 4
    assert vx.stop() == 0
    ws.nothing_left()


def test_an_edit_that_is_undone_takes_the_failure_back(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    ws.write("src/a", "BAD")
    assert page.next()[0] == "failed"
    ws.write("src/a", "v0")
    kind, told = page.next()
    assert kind in ("reload", "mended")
    assert told["failed"] == []
    page.close()
    assert vx.stop() == 0


def test_what_does_not_concern_the_server_tells_its_pages_nothing(ws: Workspace) -> None:
    port = _site(ws)
    ws.write("vx.workspace.toml", 'members = ["other"]')
    ws.write("other/vx.toml", '[tasks.lint]\ncommand = "! grep BAD n"\ncache = { inputs = ["n"] }')
    ws.write("other/n", "0")
    vx = ws.watch("web", "other#lint")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    for number, text in enumerate(("1", "BAD", "2"), start=2):
        ws.write("other/n", text)
        vx.wait_says(rf"^cycle {number}: ")
    assert page.quiet
    ws.write("src/a", "v1")
    assert page.next()[0] == "reload"
    page.close()
    assert vx.stop() == 0


def test_a_file_that_no_task_takes_up_reloads_without_a_cycle(ws: Workspace) -> None:
    port = ws.port()
    ws.write("index.html", "v0")
    ws.server(
        "web",
        ws.serve("web", port, page="index.html"),
        ready_port=port,
        live_reload=True,
        box=Box(read=(".",), ports=(port,)),
    )
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    for number in (1, 2):
        ws.replace("index.html", f"v{number}")
        assert page.next()[0] == "reload"
        assert get(port).endswith(f"v{number}")
    assert not vx.says("^cycle 2: ")
    assert ws.steps("web").count("start") == 1
    page.close()
    assert vx.stop() == 0


def test_secrets_and_colours_stay_out_of_what_a_page_is_told(ws: Workspace) -> None:
    ws.environment["TOKEN"] = "hunter2-hunter2"
    port = ws.port()
    ws.write("a", "0")
    ws.write("page", "the page")
    ws.server(
        "web",
        ws.serve("web", port, page="page"),
        ready_port=port,
        live_reload=True,
        box=Box(read=("page",), ports=(port,)),
    )
    shows = r'printf "\033[31m%s\033[0m <b>&\rover\n" "$TOKEN"; exit $(cat a)'
    ws.task("check", shows, inputs=["a"], secrets=["TOKEN"])
    vx = ws.watch("web", "check")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    ws.write("a", "3")
    kind, told = page.next()
    assert kind == "failed"
    assert told["failed"][0]["output"] == "over"
    ws.task("check", shows.replace(r"\rover", ""), inputs=["a"], secrets=["TOKEN"])
    kind, told = page.next()
    assert told["failed"][0]["output"] == "*** <b>&"
    page.close()
    assert vx.stop() == 0


def test_a_page_hears_why_its_server_is_gone(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    os.kill(ws.server_pids("web")[0], signal.SIGKILL)
    kind, told = page.next()
    assert kind == "failed"
    assert told["failed"][0]["task"].endswith("#web")
    assert told["failed"][0]["how"].startswith("ended with exit ")
    assert page.client.recv(1) == b""
    page.close()
    ws.wait(lambda: is_free(port), "the port is closed")
    version = told["version"]
    ws.write("src/a", "v1")
    vx.wait_says("web ready again")
    assert _way(port)[1] != version
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_server_that_comes_back_by_itself_reloads_its_pages(ws: Workspace) -> None:
    port = _site(ws, restart="on-crash")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)
    os.kill(ws.server_pids("web")[0], signal.SIGKILL)
    kind, told = page.next()
    assert (kind, len(told["failed"])) == ("failed", 1)
    kind, told = page.next()
    assert (kind, told["failed"]) == ("reload", [])
    assert get(port).endswith("v0")
    page.close()
    assert vx.stop() == 0


def test_tabs_find_the_channel_again_after_vx_was_restarted(ws: Workspace) -> None:
    port = _site(ws)
    seen = []
    for _ in range(2):
        vx = ws.watch("web")
        vx.wait_says("^cycle 1: ")
        seen.append(_way(port))
        assert vx.stop() == 0
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_other_sites_get_neither_the_channel_nor_the_way_to_it(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    path, _ = _way(port)
    page = f"GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"
    asked = f"GET {path}events HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://evil.example\r\n\r\n"
    for request, status in ((page, b"HTTP/1.0 200"), (asked, b"HTTP/1.1 403")):
        with socket.create_connection(("127.0.0.1", port), timeout=patience(10)) as client:
            client.sendall(request.encode())
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda one=client: one.recv(4096), b""))  # type: ignore[misc]
        assert answer.startswith(status)
        assert b"__vx__" not in answer
    rows = [row for row in psutil.net_connections("tcp") if row.status == psutil.CONN_LISTEN]
    places = [row.laddr for row in rows if row.laddr]
    assert {place.ip for place in places if place.port == port} <= {"127.0.0.1", "::1"}
    assert vx.stop() == 0


def test_a_run_and_a_server_without_it_change_no_page(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.start("run", "web")
    vx.wait_says("web ready")
    assert get(port) == "v0"
    assert vx.stop() == 130
    ws.nothing_left()


def _page(port: int) -> str:
    """The page; "" while its port is taken over by another bridge."""
    try:
        return get(port)
    except OSError:
        return ""


def test_it_is_turned_on_and_off_while_vx_watches(ws: Workspace) -> None:
    port = _site(ws, live_reload=False)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    assert get(port) == "v0"
    ws.replace("vx.toml", ws.read("vx.toml").replace("live_reload = false", "live_reload = true"))
    ws.wait(lambda: "__vx__" in _page(port), "the page has the script")
    ws.replace("vx.toml", ws.read("vx.toml").replace("live_reload = true", "live_reload = false"))
    ws.wait(lambda: _page(port) == "v0", "the page has no script")
    assert vx.stop() == 0
    ws.nothing_left()


def _program(ws: Workspace) -> psutil.Process:
    (seen,) = [seen for seen in ws.processes() if "vxwatch.reload.main" in " ".join(seen.argv)]
    return psutil.Process(seen.pid)


def test_the_program_before_the_server_is_replaced_when_it_falls(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    before = _program(ws)
    before.kill()
    assert get(port).endswith("v0")
    vx.wait_says("web: live reload begins anew: it was killed")
    assert _program(ws).pid != before.pid
    page = _listen(port)
    ws.write("src/a", "v1")
    assert page.next()[0] == "reload"
    page.close()
    assert vx.stop() == 0
    ws.nothing_left()


def test_cycles_cost_the_program_nothing(ws: Workspace) -> None:
    port = _site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    page = _listen(port)

    program = _program(ws)
    ws.settle()
    descriptors = program.num_fds()
    for number in range(1, 10):
        ws.write("src/a", f"v{number}")
        assert page.next()[0] == "reload"
        assert get(port).endswith(f"v{number}")
    assert _program(ws).pid == program.pid
    ws.wait(lambda: program.num_fds() <= descriptors, "no connection is left open")
    page.close()
    vx.send(signal.SIGKILL)
    ws.nothing_left()
