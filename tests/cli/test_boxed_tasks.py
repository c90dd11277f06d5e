"""Sandboxed one-shot tasks: what they see, what they share, what they leave."""

import os

import pytest

from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

_READS = Box(read=("src",))


@pytest.fixture(autouse=True)
def _source(ws: Workspace) -> None:
    ws.write("src/a", "text")


@pytest.mark.slow
def test_boxed_tasks_that_run_beside_each_other_share_no_temporary_files(ws: Workspace) -> None:
    hide = (
        'echo top-secret > "$TMPDIR/s"; echo top-secret > /tmp/s; touch "$LOGS/.one";'
        'while [ ! -e "$LOGS/.two" ]; do sleep 0.05; done'
    )
    seek = (
        'while [ ! -e "$LOGS/.one" ]; do sleep 0.05; done;'
        'find /tmp "$TMPDIR" -type f -exec cat {} + 2> /dev/null | grep top-secret;'
        'touch "$LOGS/.two"'
    )
    ws.task("one", hide, box=_READS)
    ws.task("two", seek, box=_READS)
    shared = os.environ["TMPDIR"]
    vx = ws.start("run", "one", "two", "--concurrency", "2")
    ws.wait(lambda: os.path.exists(os.path.join(ws.logs, ".one")), "the first task runs")
    for entry in os.scandir(shared):
        assert entry.stat().st_mode & 0o077 == 0, entry.path
    assert vx.ended() == 0
    assert "top-secret" not in vx.output
    ws.nothing_left()


def test_a_box_has_a_working_dev_without_the_hosts_devices(ws: Workspace) -> None:
    python = ws.puppet("devices.py")
    ws.task(
        "dev",
        f"echo x > /dev/null && head -c4 /dev/urandom | wc -c && {python}"
        " && test ! -e /dev/sda && test ! -e /dev/vda && test ! -e /dev/kmsg",
        box=_READS,
    )
    done = ws.vx("run", "dev")
    assert done.code == 0, done.text


def test_a_box_reads_and_writes_what_is_granted_and_nothing_else(ws: Workspace) -> None:
    ws.write("secret", "hidden")
    ws.write("out/.keep", "")
    ws.task(
        "build",
        'cp src/a out/a; cat secret; echo x > src/b; echo x > "$HOME/vx-was-here"; ls; true',
        box=Box(read=("src",), write=("out/",)),
    )
    done = ws.vx("run", "build")
    assert ws.read("out/a") == "text"
    assert "hidden" not in done.text
    assert not os.path.exists(ws.file("src/b"))
    assert not os.path.exists(os.path.expanduser("~/vx-was-here"))
    assert sorted(ws.dirt()) == ["out/", "secret", "src/", "vx.toml"]


def test_a_box_has_no_network(ws: Workspace) -> None:
    port = ws.port()
    ws.stranger("server.py", f"port={port}", f"log={ws.logs}/stranger")
    ws.wait_open(port)
    ws.task("call", ws.puppet("connect.py", "127.0.0.1", port), box=_READS)
    done = ws.vx("run", "call")
    assert done.code == 1
    assert "refused" in done.text


def test_a_box_reaches_the_host_port_it_is_granted(ws: Workspace) -> None:
    port = ws.port()
    ws.stranger("server.py", f"port={port}", f"log={ws.logs}/stranger")
    ws.wait_open(port)
    call = ws.puppet("connect.py", "127.0.0.1", port)
    ws.task("call", call, box=Box(read=("src",), host_ports=(port,)))
    done = ws.vx("run", "call")
    assert done.code == 0, done.text
    assert "connected" in done.text


def test_a_write_grant_that_leaves_the_project_through_a_link_is_refused(
    ws: Workspace,
) -> None:
    outside = os.path.join(ws.logs, "outside")
    os.mkdir(outside)
    os.symlink(outside, ws.file("out"))
    ws.task("build", "echo x > out/a", box=Box(read=("src",), write=("out/",)))
    done = ws.vx("run", "build")
    assert done.code not in {0, 70}
    assert outside in done.text
    assert os.listdir(outside) == []


@pytest.mark.parametrize("place", ["app", "sites/app"])
def test_a_single_project_below_the_home_directory_is_boxed(ws: Workspace, place: str) -> None:
    home = os.path.join(ws.logs, "home")
    os.makedirs(os.path.join(home, place))
    with open(os.path.join(home, place, "vx.toml"), "w") as config:
        config.write('[tasks.where]\ncommand = "pwd; ls -A"\nsandbox = {}\n')
    ws.environment = {**ws.environment, "HOME": home}
    done = ws.vx("run", "where", cwd=os.path.join(home, place))
    assert done.code == 0, done.text
    assert done.out.splitlines()[0] == os.path.realpath(os.path.join(home, place))
    assert "vx.toml" not in done.out
