"""Asking a running session from another terminal: `vx ps`, `vx logs`, `vx restart`, and its door."""

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.harness import schemas
from tests.harness.running import VX, Background
from tests.harness.waiting import patience, wait_for
from tests.harness.workspace import Box, Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NOBODY = 65534


def _server(ws: Workspace, name: str = "dev", text: str = "up", **fields: Any) -> None:
    ws.server(
        name, f'echo run >> "$LOGS/{name}"; echo {text}; exec sleep 600', ready_line=text, **fields
    )


def _watch(ws: Workspace, *tasks: str) -> Background:
    vx = ws.watch(*tasks)
    vx.wait_says("^cycle 1:")
    return vx


def _doors(ws: Workspace) -> list[str]:
    home = ws.file(".vx")
    found = os.listdir(home) if os.path.isdir(home) else []
    return [os.path.join(home, name) for name in found if name.startswith("vx-control")]


def _ps(ws: Workspace) -> list[Any]:
    ran = ws.vx("ps", "--format", "json")
    assert ran.code == 0, ran.text
    sessions: list[Any] = schemas.checked(ran.out, "ps")["sessions"]
    return sessions


@contextmanager
def _connected(ws: Workspace) -> Iterator[socket.socket]:
    (door,) = _doors(ws)
    directory = os.open(door, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"/proc/self/fd/{directory}/socket")
        client.settimeout(patience(10))
        os.close(directory)
        yield client


def test_ps_shows_the_servers_and_what_runs(ws: Workspace) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_port=port, box=Box(ports=(port,)))
    _server(ws)
    ws.task("slow", 'echo run >> "$LOGS/slow"; exec sleep 600')
    vx = ws.watch("web", "dev", "slow")
    vx.wait_says("w#web ready")
    vx.wait_says("w#dev ready")
    ws.wait_runs("slow", 1)
    (session,) = _ps(ws)
    assert (session["pid"], session["state"], session["cycle"]) == (vx.pid, "busy", 0)
    assert session["command"] == "vx watch web dev slow"
    dev, web = session["servers"]
    assert (dev["task"], dev["state"], dev["restarts"]) == ("w#dev", "ready", 0)
    assert web["urls"] == [f"http://localhost:{port}"]
    assert os.path.exists(f"/proc/{web['pid']}")
    (slow,) = session["tasks"]
    assert slow["task"] == "w#slow"
    with open(f"/proc/{slow['pid']}/cmdline") as file:
        assert "sleep" in file.read()
    text = ws.vx("ps").out
    assert re.search(rf"^w#web +ready +\d+ .* 0 +http://localhost:{port}$", text, re.MULTILINE)
    assert re.search(r"^w#slow +running", text, re.MULTILINE)
    assert vx.stop() == 0
    assert _doors(ws) == []
    ws.nothing_left(1)


def test_a_server_restarts_while_a_cycle_runs_and_its_port_stays_open(ws: Workspace) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_port=port, box=Box(ports=(port,)))
    ws.task("slow", "exec sleep 600")
    vx = ws.watch("web", "slow")
    vx.wait_says("w#web ready")
    before = get(port, "/pid"), _ps(ws)[0]["servers"][0]["pid"]
    ran = ws.vx("restart", "web")
    assert ran.code == 0
    assert re.fullmatch(rf"w#web ready again http://localhost:{port} \(.* m?s\)\n", ran.out)
    vx.wait_says(r"w#web ready again")
    assert ws.steps("web").count("listen") == 2
    (web,) = _ps(ws)[0]["servers"]
    assert (web["restarts"], web["state"]) == (1, "ready")
    assert web["pid"] != before[1]
    assert get(port) == "ok"
    vx.stop()


def test_a_restart_that_fails_is_told_on_both_sides(ws: Workspace) -> None:
    ws.server("dev", 'echo up; cat "$LOGS/good" && exec sleep 600', ready_line="yes")
    ws.write(f"{ws.logs}/good", "yes\n")
    vx = _watch(ws, "dev")
    os.unlink(f"{ws.logs}/good")
    ran = ws.vx("restart", "dev")
    assert ran.code == 1
    assert re.match(r"w#dev failed - ended before it was ready - exit code 1 \(", ran.out)
    vx.wait_says(r"w#dev failed - ended before it was ready")
    (dev,) = _ps(ws)[0]["servers"]
    assert (dev["state"], dev["code"], dev["pid"]) == ("failed", 1, None)
    ws.write(f"{ws.logs}/good", "yes\n")
    assert ws.vx("restart", "w#dev").code == 0
    vx.stop()


def test_several_servers_restart_and_each_is_told_once(ws: Workspace) -> None:
    _server(ws, "one")
    _server(ws, "two")
    vx = _watch(ws, "one", "two")
    ran = ws.vx("restart", "one", "two", "w#one")
    assert ran.code == 0
    assert sorted(line.split()[0] for line in ran.out.splitlines()) == ["w#one", "w#two"]
    assert (ws.runs("one"), ws.runs("two")) == (2, 2)
    vx.stop()


def test_a_restart_that_never_gets_ready_ends_with_the_session(ws: Workspace) -> None:
    ws.server("dev", 'echo run >> "$LOGS/dev"; cat "$LOGS/good"; exec sleep 600', ready_line="yes")
    ws.write(f"{ws.logs}/good", "yes\n")
    vx = _watch(ws, "dev")
    os.unlink(f"{ws.logs}/good")
    asking = ws.start("restart", "dev")
    ws.wait_runs("dev", 2)
    assert vx.stop() == 0
    assert asking.ended() != 0
    ws.nothing_left(1)


def test_a_restart_goes_on_when_who_asked_for_it_is_killed(ws: Workspace) -> None:
    slow = 'echo run >> "$LOGS/dev"; cat "$LOGS/go"; echo up; exec sleep 600'
    ws.server("dev", slow, ready_line="up")
    ws.write(f"{ws.logs}/go", "")
    vx = _watch(ws, "dev")
    os.unlink(f"{ws.logs}/go")
    os.mkfifo(f"{ws.logs}/go")
    asking = ws.start("restart", "dev")
    ws.wait_runs("dev", 2)
    assert _ps(ws)[0]["servers"][0]["state"] == "starting"
    asking.stop(signal.SIGKILL)
    ws.write(f"{ws.logs}/go", "")
    vx.wait_says("w#dev ready again")
    assert _ps(ws)[0]["servers"][0]["state"] == "ready"
    vx.stop()


def test_logs_gives_what_was_written_byte_for_byte(ws: Workspace) -> None:
    data = bytes(range(256)) * 3 + b"\r\x1b[31mred\nlast"
    ws.write("data", "")
    with open(ws.file("data"), "wb") as file:
        file.write(data)
    ws.server("dev", "cat data; echo; echo up >&2; exec sleep 600", ready_line="up")
    vx = _watch(ws, "dev")
    ran = _logs(ws, "dev")
    assert ran == data + b"\nup\n"
    assert _logs(ws, "dev", "-n", "1") == b"up\n"
    assert _logs(ws, "dev", "-n", "2") == b"last\nup\n"
    assert _logs(ws, "dev", "-n", "0") == b""
    vx.stop()


def test_logs_follows_through_restarts_until_the_session_ends(ws: Workspace) -> None:
    ws.server(
        "dev",
        "trap 'echo bye; exit' INT TERM; echo up $$; while :; do sleep 0.05; done",
        ready_line="up",
    )
    vx = _watch(ws, "dev")
    following = ws.start("logs", "dev", "-f")
    following.wait_says(r"up \d+")
    assert ws.vx("restart", "dev").code == 0
    leaving = ws.start("logs", "dev", "-f")
    leaving.wait_says(r"bye\nup \d+")
    assert leaving.stop(signal.SIGINT) == 130
    assert "Trace" not in leaving.output
    following.wait_says(r"up \d+\n(Terminated\n)?bye\nup \d+")
    vx.stop()
    assert following.ended() == 0
    assert re.fullmatch(r"(up \d+\n(Terminated\n)?bye\n){2}", following.output)


def test_logs_are_masked_and_bounded(ws: Workspace) -> None:
    ws.environment["TOKEN"] = "hunter2hunter2"
    loud = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i $TOKEN and some more; done"
    ws.server("dev", f"{loud}; echo up; exec sleep 600", ready_line="up", secrets=["TOKEN"])
    vx = _watch(ws, "dev")
    text = _logs(ws, "dev", "-n", "100000").decode()
    assert "hunter2" not in text
    assert text.endswith("line 20000 *** and some more\nup\n")
    assert (1 << 18) <= len(text) <= (1 << 19)
    vx.stop()


def test_a_slow_reader_holds_nothing_up_and_hears_what_it_lost(ws: Workspace) -> None:
    ws.server(
        "dev",
        f'echo up; while read x; do cat big; echo done >> "$LOGS/dev"; done < {ws.logs}/go; exec sleep 600',
        ready_line="up",
    )
    with open(ws.file("big"), "wb") as file:
        file.write(b"x" * 99 + b"\n" * 1 + b"y" * (8 << 20))
    os.mkfifo(f"{ws.logs}/go")
    vx = ws.watch("dev")
    with open(f"{ws.logs}/go", "w") as go:
        vx.wait_says("w#dev ready")
        following = ws.piped("logs", "dev", "-f")
        assert following.stdout is not None
        assert following.stdout.read(3) == b"up\n"
        go.write("\n")
        go.flush()
        ws.wait_runs("dev", 1, 20)
        rest = b""
        while b" bytes are lost: they came faster than they were read" not in rest:
            piece = following.stdout.read(4096)
            assert piece, rest[-200:]
            rest = rest[-4096:] + piece
        vx.stop()
        following.stdout.read()
    assert following.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("restart", "dve"), "no server dve\n  did you mean w#dev?"),
        (("logs", "xyz"), "no server xyz\n  it has w#dev"),
        (("restart", "test"), "no server test\n  it has w#dev"),
    ],
)
def test_a_wrong_name_gets_the_nearest(ws: Workspace, words: tuple[str, ...], says: str) -> None:
    _server(ws)
    ws.task("test", "true")
    vx = _watch(ws, "dev", "test")
    ran = ws.vx(*words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    vx.stop()


def test_a_server_that_waits_is_not_restarted(ws: Workspace) -> None:
    ws.task("build", "false")
    _server(ws, after=["build"])
    vx = _watch(ws, "dev")
    assert _ps(ws)[0]["servers"][0]["state"] == "waiting"
    ran = ws.vx("restart", "dev")
    assert ran.code == 2
    assert "w#dev cannot be restarted: it is not started yet" in ran.err
    vx.stop()


def test_without_a_session_all_say_so(ws: Workspace) -> None:
    _server(ws)
    for words in (("ps",), ("logs", "dev"), ("restart", "dev")):
        ran = ws.vx(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"vx: no session of vx runs in {ws.path}\n")
    assert _ps(ws) == []


def test_a_run_that_keeps_a_server_up_can_be_asked(ws: Workspace) -> None:
    _server(ws)
    vx = ws.start("run", "dev")
    vx.wait_says("up")
    assert ws.vx("restart", "dev").code == 0
    assert _ps(ws)[0]["servers"][0]["restarts"] == 1
    assert vx.stop() == 130
    assert _doors(ws) == []


def test_a_run_without_a_server_has_no_door_and_loads_nothing_for_one(ws: Workspace) -> None:
    ws.task("test", 'ls -a "$VX_WORKSPACE/.vx" > "$LOGS/list"')
    ws.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    ran = ws.vx("run", "test")
    assert ran.code == 0
    assert "vxwatch.session.session\n" in ran.err
    for module in (
        "session.control",
        "session.board",
        "session.door",
        "cli.keys",
        "process.keyboard",
    ):
        assert f"vxwatch.{module}\n" not in ran.err
    assert not any("control" in line for line in ws.lines("list"))


def test_two_sessions_are_told_apart_by_what_they_keep_or_by_pid(ws: Workspace) -> None:
    _server(ws, "one")
    _server(ws, "two")
    first, second = _watch(ws, "one"), _watch(ws, "two")
    assert [one["pid"] for one in _ps(ws)] == sorted([first.pid, second.pid])
    assert ws.vx("restart", "two").code == 0
    third = _watch(ws, "one")
    ran = ws.vx("restart", "one")
    assert ran.code == 2
    assert f"--session {third.pid}" in ran.err
    assert ws.vx("restart", "one", "--session", str(third.pid)).code == 0
    assert ws.runs("one") == 3
    ran = ws.vx("logs", "one", "--session", "1")
    assert (ran.code, ran.out) == (2, "")
    for vx in (first, second, third):
        vx.stop()


def test_the_door_is_private_and_gone_after_a_kill(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    (door,) = _doors(ws)
    assert stat.S_IMODE(os.stat(door).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{door}/socket").st_mode) == 0o600
    vx.stop(signal.SIGKILL)
    ws.nothing_left(3)
    wait_for(lambda: _doors(ws) == [], "the nursery takes the door away")
    assert ws.vx("ps").code == 2


@pytest.mark.parametrize("verb", ["watch", "run"])
def test_a_door_that_was_cleaned_away_is_hung_again(ws: Workspace, verb: str) -> None:
    _server(ws)
    ws.write(".gitignore", ".vx\n")
    ws.git("add", "-A")
    vx = ws.start(verb, "dev")
    ws.wait_runs("dev", 1)
    ws.wait(lambda: _doors(ws) and os.listdir(_doors(ws)[0]) == ["socket"], "its door is there")
    with _connected(ws) as client:
        ws.git("clean", "-dxfq")
        assert _doors(ws) == []
        ws.wait(lambda: ws.vx("ps").code == 0, "it can be asked again", 20)
        client.send(b'{"vx": 1, "verb": "ps"}\n')
        assert client.recv(1) == b"{"
    vx.stop()
    assert _doors(ws) == []
    ws.nothing_left()


def test_no_door_is_hung_where_the_workspace_is_gone(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    os.rename(ws.path, f"{ws.path}.away")
    time.sleep(2.5)  # longer than it takes to look once more
    assert not os.path.exists(ws.path)
    os.rename(f"{ws.path}.away", ws.path)
    assert vx.stop() == 0


def test_a_stale_door_confuses_nobody_and_the_next_start_takes_it_away(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    (door,) = _doors(ws)
    vx.stop()
    stale = re.sub(r"\d+$", str(_dead_pid()), door)
    os.mkdir(stale, 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{stale}/socket"[-100:] if len(stale) < 90 else _short(stale))
    assert ws.vx("ps").code == 2
    vx = _watch(ws, "dev")
    assert _doors(ws) != [stale]
    assert len(_doors(ws)) == 1
    vx.stop()


def test_hostile_clients_cost_the_session_nothing(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    for garbage in (b"\n", b"[]\n", b"{}\n", b"\xff\xfe\n", b"[" * 60000 + b"\n", b'{"vx":1}\n'):
        with _connected(ws) as client:
            client.sendall(garbage)
            client.recv(4096)
    with _connected(ws) as client, pytest.raises((BrokenPipeError, ConnectionResetError)):
        client.sendall(b"x" * (4 << 20))
    with ExitStack() as silent:
        for _ in range(40):
            silent.enter_context(_connected(ws))
        asked = ws.vx("restart", "dev")
        assert asked.code == 2
        assert "is asked by 32 others already" in asked.err
        wait_for(lambda: ws.vx("ps").code == 0, "silent clients are sent away", 15)
    assert vx.running
    assert "internal" not in vx.output
    vx.stop()


def test_another_version_is_told(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    with _connected(ws) as client:
        client.sendall(b'{"vx": 0, "verb": "ps"}\n')
        assert json.loads(client.recv(4096))["error"]["slug"] == "other-version"
    vx.stop()


def test_a_session_that_is_stopped_is_said_to_be(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    vx.send(signal.SIGSTOP)
    began = time.monotonic()
    ran = ws.vx("restart", "dev")
    assert time.monotonic() - began < patience(15)
    assert ran.code == 2
    assert f"the session of pid {vx.pid} does not answer\n  it is stopped" in ran.err
    vx.send(signal.SIGCONT)
    assert ws.vx("restart", "dev").code == 0
    vx.stop()


def test_where_the_workspace_cannot_be_written_it_is_reached_nonetheless(ws: Workspace) -> None:
    _server(ws)
    ws.write(".vx", "no directory")
    ws.environment["XDG_RUNTIME_DIR"] = f"{ws.logs}/runtime"
    os.mkdir(f"{ws.logs}/runtime", 0o700)
    vx = _watch(ws, "dev")
    runtime = f"{ws.logs}/runtime"
    assert os.listdir(runtime) != []
    assert ws.vx("restart", "dev").code == 0
    del ws.environment["XDG_RUNTIME_DIR"]
    assert ws.vx("ps").code == 2
    vx.stop()
    assert os.listdir(runtime) == []
    ws.nothing_left(1)


def test_a_long_path_is_no_hindrance(ws: Workspace) -> None:
    deep = "/".join(["d" * 60] * 4)
    ws.write(
        f"{deep}/vx.toml",
        '[tasks.dev]\ncommand = "echo up; exec sleep 600"\n[tasks.dev.persistent]\nready_when = "up"\n',
    )
    ws.write(f"{deep}/package.json", '{"name": "deep"}')
    vx = Background([VX, "watch", "dev"], ws.file(deep), ws.environment, f"{ws.logs}/.output-deep")
    ws._running.append(vx)
    vx.wait_says("^cycle 1:")
    assert ws.vx("restart", "deep", cwd=deep).code == 0
    vx.stop()
    assert "cannot reach" not in vx.output


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_is_refused_and_told_whose_session_it_is(ws: Workspace) -> None:
    _server(ws)
    vx = _watch(ws, "dev")
    (door,) = _doors(ws)
    os.chmod(door, 0o777)
    os.chmod(f"{door}/socket", 0o777)
    with _as_nobody_in(door), socket.socket(socket.AF_UNIX) as client:
        client.connect("socket")
        client.settimeout(patience(10))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(b'{"vx": 1, "verb": "ps"}\n')
            assert client.recv(4096) == b""
    assert ws.vx("ps").code == 0
    os.chmod(door, 0o700)
    os.chown(door, NOBODY, NOBODY)
    os.rename(door, re.sub(r"-0-(\d+)$", rf"-{NOBODY}-\1", door))
    ran = ws.vx("ps")
    assert (ran.code, ran.out) == (2, "")
    assert f"the session of vx that runs here (pid {vx.pid}) belongs to nobody" in ran.err
    vx.stop()


@contextmanager
def _as_nobody_in(directory: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.chdir(before)


@pytest.mark.sandbox
@pytest.mark.parametrize("sockets", [False, True], ids=["", "unix_sockets"])
def test_a_sandboxed_task_cannot_reach_the_door(ws: Workspace, *, sockets: bool) -> None:
    _server(ws)
    ws.write("ask.py", _TRY)
    command = '/usr/bin/env python3 ask.py > "$LOGS/found" 2>&1; echo done >> "$LOGS/found"'
    ws.task("spy", command, box=Box(read=(".",), write=(".",)))
    if sockets:
        ws._tables["spy"]["sandbox"]["allow"]["unix_sockets"] = True  # type: ignore[index]
        ws.save_config()
    vx = ws.watch("dev", "spy")
    ws.wait(lambda: "done" in ws.lines("found"), "the spy has tried")
    text = "\n".join(ws.lines("found"))
    assert "saw" not in text
    assert "reached" not in text
    assert "looked" in text
    vx.stop()


_TRY = """
import glob, os, socket
for path in glob.glob(".vx/*/socket") + glob.glob("/tmp/vx-control*/socket"):
    print("saw", path)
try:
    client = socket.socket(socket.AF_UNIX)
    for path in glob.glob(".vx/*/socket"):
        client.connect(path)
        print("reached", path)
except OSError as error:
    print(error)
print("looked")
"""


def _logs(ws: Workspace, *words: str) -> bytes:
    return subprocess.run(
        [VX, "logs", *words],
        cwd=ws.path,
        env=ws.environment,
        stdout=subprocess.PIPE,
        timeout=patience(20),
        check=True,
    ).stdout


def _dead_pid() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def _short(path: str) -> str:
    directory = os.open(path, os.O_RDONLY)
    return f"/proc/self/fd/{directory}/socket"
