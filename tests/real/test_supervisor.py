"""What the supervisor of a box tells, beside what strace does, and that it holds nobody up."""

import asyncio
import contextlib
import ctypes
import os
import platform
import re
import signal
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.boxes import Site
from tests.harness.filters import kernel_tells
from tests.harness.waiting import wait_for
from vxwatch.model import Sandbox
from vxwatch.process import notify
from vxwatch.process.nursery import Nursery
from vxwatch.process.supervisor import Supervisor
from vxwatch.process.tree import Tree
from vxwatch.sandbox import probe
from vxwatch.sandbox.calls import CALLS, NUMBERS, TURNS, table
from vxwatch.sandbox.seccomp import notifying_program
from vxwatch.sandbox.trace import Report

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not kernel_tells(), reason="the kernel tells nobody of calls here"),
]

_HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}

TRY = """
import os, socket, sys
def attempt(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except (OSError, ValueError):
        return None
def put(path, flags, *rest):
    descriptor = attempt(os.open, path, flags, *rest)
    if descriptor is not None:
        os.close(descriptor)
up = os.open("..", os.O_PATH)
"""


def told(site: Site, command: str, sandbox: Sandbox) -> Report:
    """What is told of this command by a supervisor."""
    _, report = asyncio.run(site.report(command, sandbox))
    assert not report.lost
    return report


def told_by_strace(
    site: Site, command: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> Report:
    with monkeypatch.context() as patched:
        patched.setattr(probe, "may_supervise", lambda _bwrap: False)
        return told(site, command, sandbox)


LINES = {
    "reads": """
        put("secret", os.O_RDONLY); put("../ui/lib/x", 0); put("no-such", 0); put("src/a", 0)
        put("src/../secret2", 0); put("/etc/passwd", 0); put("dir/in", 0)
    """,
    "names": r"""
        put(b"odd\n\xff", 0); put("odd name", 0); put("" or "empty", 0); put("x" * 300, 0)
        put("y/" * 2000 + "z", 0); put("secret", 0)
    """,
    "looks": """
        attempt(os.stat, "secret"); attempt(os.lstat, "to-secret2"); attempt(os.access, "dir", 0)
        attempt(os.readlink, "src/to-secret"); attempt(os.lstat, "src/to-secret")
        attempt(os.stat, "src/to-secret"); attempt(os.listdir, "dir"); attempt(os.listdir, ".")
    """,
    "directories": """
        put("app/secret", 0, dir_fd=up) if False else attempt(os.open, "app/secret", 0, dir_fd=up)
        attempt(os.chdir, "src"); put("../secret2", 0); put("a", 0); attempt(os.fchdir, up)
        put("ui/lib/x", 0); attempt(os.chdir, "app/dir"); attempt(os.stat, "app/src/a", dir_fd=up)
    """,
    "writes": """
        put("new", os.O_CREAT | os.O_WRONLY); put("src/a", os.O_WRONLY); put("src/a", os.O_APPEND)
        put("src/new", os.O_CREAT); put("src/a", os.O_CREAT); put("src/a", os.O_RDONLY | os.O_TRUNC)
        put("src/b", os.O_CREAT | os.O_EXCL | os.O_WRONLY); put("src", os.O_WRONLY)
        put("src/none", os.O_WRONLY); put("none/new", os.O_CREAT | os.O_WRONLY)
        put("src", os.O_TMPFILE | os.O_RDWR); put("out/new", os.O_CREAT | os.O_WRONLY)
        put("/etc/vx-new", os.O_CREAT | os.O_WRONLY); put("/dev/null", os.O_WRONLY)
    """,
    "makes": """
        attempt(os.mkdir, "src"); attempt(os.mkdir, "made"); attempt(os.mkdir, "src/made")
        attempt(os.mkdir, "dir"); attempt(os.mkdir, "/usr"); attempt(os.makedirs, "out/x/y")
        attempt(os.symlink, "a", "src/link"); attempt(os.symlink, "a", "out/link")
        attempt(os.link, "src/a", "src/hard"); attempt(os.link, "out/f", "src/hard2")
        attempt(os.mkfifo, "src/fifo"); attempt(os.mkdir, "src/none/x"); attempt(os.symlink, "a", "src/a")
    """,
    "removes": """
        attempt(os.unlink, "src/a"); attempt(os.unlink, "src/none"); attempt(os.rmdir, "src/sub")
        attempt(os.unlink, "none/x"); attempt(os.unlink, "out/f"); attempt(os.rmdir, "out/kept")
        attempt(os.unlink, "secret"); attempt(os.unlink, "/etc/vx-none")
    """,
    "moves": """
        attempt(os.rename, "src/a", "src/z"); attempt(os.rename, "src/a", "out/z")
        attempt(os.rename, "out/f", "out/g"); attempt(os.rename, "out/kept", "out/away")
        attempt(os.rename, "src/none", "src/none2"); attempt(os.rename, "out/g", "src/g")
        attempt(os.rename, "out/none", "out/kept")
    """,
    "changes": """
        attempt(os.chmod, "src/a", 0o600); attempt(os.utime, "src/b"); attempt(os.truncate, "src/a", 0)
        attempt(os.chown, "src/a", -1, -1); attempt(os.chmod, "src/none", 0); attempt(os.chmod, "out/f", 0o600)
        attempt(os.utime, "src/link-to-a", follow_symlinks=False); attempt(os.chmod, "src/to-out", 0o600)
        attempt(os.lchown, "src/to-out", 0, 0); attempt(os.chmod, "secret", 0)
    """,
    "links": """
        put("src/to-secret", 0); put("src/to-out", os.O_WRONLY); put("src/dangling", os.O_CREAT | os.O_RDWR)
        put("out/to-src", os.O_WRONLY); put("src/round", 0); put("to-secret2", 0); put("src/to-ui/x", 0)
        put("src/to-secret", os.O_NOFOLLOW)
    """,
    "turned": """
        os.mkdir("out/one"); os.symlink("one", "out/turn"); put("out/turn/x", os.O_CREAT | os.O_RDWR)
        os.unlink("out/turn"); os.symlink("../dir", "out/turn"); put("out/turn/in", 0)
        os.rename("out/turn", "out/turn2"); os.symlink("../src", "out/turn")
        put("out/turn/b", os.O_WRONLY); put("out/turn2/in2", 0)
    """,
    "places": """
        new = os.O_CREAT | os.O_RDWR
        here = os.open(".", os.O_PATH); elsewhere = os.open("src", os.O_PATH)
        for turn in range(3):
            put(f"a{turn}", new); os.fchdir(elsewhere); put(f"b{turn}", new); os.fchdir(here)
        for place in ("src", "sub", "../../out", "kept"):
            os.chdir(place); put(f"../../c-{place[-3:]}", new); put(f"../d-{place[-3:]}", new)
            child = os.fork()
            if child == 0:
                os.chdir("/usr"); put(f"../etc/vx-{place[-3:]}", new); os._exit(0)
            put(f"../../e-{place[-3:]}", new); os.waitpid(child, 0); put(f"../f-{place[-3:]}", new)
        os.chdir("../..")
        import threading
        def away():
            os.chdir("src"); put("thread", new)
        thread = threading.Thread(target=away); thread.start(); thread.join(); put("main", new)
        os.chdir(".."); attempt(os.chdir, "none"); put("stayed", new); os.makedirs("out/x/y")
        os.chdir("out/x/y"); put("../../../before", new); os.rename("../../x", "../../z")
        put("../../../after", new); os.chdir("/"); put("etc/vx-z", new)
        os.open("out/done", new, dir_fd=here)
    """,
    "programs": """
        attempt(os.execv, "./tool", ["tool"]); attempt(os.execv, "/no/such", ["x"])
        attempt(os.execv, "src/a", ["x"]); os.execv("/bin/cat", ["cat", "secret2"])
    """,
    "connections": """
        def dial(host, port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
            with socket.socket(family, kind) as one:
                attempt(one.connect, (host, port))
        dial("192.0.2.1", 80); dial("127.0.0.1", 1); dial("0.0.0.0", 1); dial("127.9.9.9", 5)
        dial("192.0.2.2", 53, kind=socket.SOCK_DGRAM)
        dial("2001:db8::1", 443, socket.AF_INET6); dial("::1", 9, socket.AF_INET6)
        dial("::ffff:192.0.2.3", 81, socket.AF_INET6); dial("fe80::1", 82, socket.AF_INET6)
    """,
    "children": """
        if os.fork() == 0:
            os.chdir("/usr"); put("../etc/vx-x", os.O_CREAT | os.O_RDWR); put("share", 0); os._exit(0)
        os.wait(); put("secret", 0)
        import threading
        thread = threading.Thread(target=put, args=("secret2", 0)); thread.start(); thread.join()
    """,
}


@pytest.fixture
def ground(site: Site) -> Site:
    """A project with granted and hidden files, and links from some to others."""
    for path in ("src/a", "src/b", "secret", "secret2", "dir/in", "dir/in2", "out/f", "tool"):
        site.write(f"app/{path}", "x")
    site.write("ui/lib/x")
    for path in ("src/sub", "out/kept"):
        os.mkdir(site.path(f"app/{path}"))
    os.chmod(site.path("app/tool"), 0o755)
    for target, link in (
        *(("../secret", "src/to-secret"), ("../out/f", "src/to-out"), ("../none", "src/dangling")),
        *(("../src/b", "out/to-src"), ("round", "src/round"), ("secret2", "to-secret2")),
        *(("../../ui/lib", "src/to-ui"), ("a", "src/link-to-a")),
    ):
        os.symlink(target, site.path(f"app/{link}"))
    with open(os.fsencode(site.path("app/")) + b"odd\n\xff", "w"):
        pass
    return site


@pytest.mark.parametrize("what", LINES)
def test_a_supervisor_tells_what_strace_tells(
    ground: Site, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(re.sub(r"^ {8}", "", line) for line in LINES[what].splitlines())
    script = ground.write("app/src/try.py", f"{TRY}{lines}\n")
    sandbox = Sandbox(read=("src",), write=("out/",), deny_write=("out/kept",))
    command = f"python3 -I -S -B {script} 2> /dev/null; true"
    heard = told(ground, command, sandbox)
    for path in ("out/one", "out/x/y", "out/x", "out/z/y", "out/z"):
        if os.path.isdir(place := ground.path(f"app/{path}")):
            for name in os.listdir(place):
                os.unlink(f"{place}/{name}")
            os.rmdir(place)
    for path in ("out/new", "out/g", "out/link", "out/turn", "out/turn2"):
        if os.path.lexists(place := ground.path(f"app/{path}")):
            os.unlink(place)
    ground.write("app/out/f", "x")
    traced = told_by_strace(ground, command, sandbox, monkeypatch)
    assert heard.findings, "something is denied"
    assert os.path.exists(ground.path("app/out/done")) == (what == "places"), "it came to its end"
    assert heard == traced


def test_the_number_of_a_thread_may_come_to_be_that_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = table(platform.machine(), looks=False)
    told = {"calls": calls, "kinds": {str(tmp_path): "read"}, "roots": (str(tmp_path),)}
    supervisor = Supervisor(-1, os.open(os.devnull, os.O_WRONLY), told)
    name = ctypes.create_string_buffer(b"name")
    clone = next(number for number, call in calls.items() if call[0] == "clone")
    openat = next(number for number, call in calls.items() if call[0] == "openat")
    arguments = [0xFFFFFF9C, ctypes.addressof(name), 0, 0, 0, 0]
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        supervisor._hear(1, clone, arguments)
        supervisor._hear(os.getpid(), openat, arguments)
        assert supervisor._homes == {os.getpid(): f"{tmp_path}/{place}/"}
    os.close(supervisor._log)


def test_what_is_granted_is_not_told(site: Site) -> None:
    site.write("app/src/deep/er/a", "x")
    command = "cp -r src out/copy && mv out/copy out/moved && rm -r out/moved && ls / > /dev/null"
    os.mkdir(site.path("app/out"))
    assert told(site, command, Sandbox(read=("src",), write=("out/",))) == Report()


def test_who_supervises_ends_with_the_box_and_holds_nobody_up(site: Site) -> None:
    command = (
        "cd /usr/bin; for i in 1 2 3 4 5 6 7 8; do (for f in *; do [ -e $f ]; done) & done; wait"
    )
    assert told(site, command, Sandbox(read=("src",))).findings == ()


def test_a_supervisor_that_is_killed_is_found_out(site: Site) -> None:
    """The calls it was to hear of fail; the walls do not depend on it."""
    site.write("app/secret")
    os.mkdir(site.path("app/out"))
    os.mkfifo(site.path("app/out/gate"))
    gate = os.open(site.path("app/out/gate"), os.O_RDWR)
    command = "read go < out/gate; cat secret"

    def kill(nursery: Nursery, tree: Tree) -> None:
        os.kill(_supervisor(nursery.pid, tree.pid), signal.SIGKILL)
        os.write(gate, b"go\n")

    sandbox = Sandbox(read=("src",), write=("out/",))
    code, report = asyncio.run(site.report(command, sandbox, kill))
    os.close(gate)
    assert code != 0
    assert report.lost


def _supervisor(nursery: int, leader: int) -> int:
    """The one beside the leader, once those of the boxes before are gone."""

    def others() -> set[int]:
        with open(f"/proc/{nursery}/task/{nursery}/children") as file:
            return {int(pid) for pid in file.read().split()} - {leader}

    wait_for(lambda: len(others()) == 1, "one supervisor")
    return others().pop()


@pytest.mark.parametrize("asks_first", [True, False])
def test_hearing_outlives_a_killed_caller_and_ends_with_the_last(
    asks_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not asks_first and notify.forgets(os.uname().release):
        pytest.skip("this kernel would let it wait for ever")
    monkeypatch.setattr(notify, "forgets", lambda _release: asks_first)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            _call_twice(theirs)
        finally:
            os._exit(0)
    with ours, theirs:
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    callers: list[int] = []
    for caller, _, _ in notify.heard(listener):
        if not callers:
            os.kill(caller, signal.SIGKILL)
        callers.append(caller)
    os.close(listener)
    os.waitpid(pid, 0)
    assert len(callers) == 2
    assert callers[1] == pid


def _call_twice(channel: socket.socket) -> None:
    """Call once in a child and then here, so that who has the channel hears of both."""
    machine = platform.machine()
    mkdirat = NUMBERS[machine]["mkdirat"]
    listener = notify.install(notifying_program(machine, {mkdirat: None}), machine)
    socket.send_fds(channel, [b"l"], [listener])
    os.close(listener)
    if child := os.fork():
        os.waitpid(child, 0)
    with contextlib.suppress(FileExistsError):
        os.mkdir("/", dir_fd=os.open(".", os.O_RDONLY))


def test_there_is_no_second_one_around_a_process() -> None:
    machine = platform.machine()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            notify.install(notifying_program(machine, {}), machine)
            notify.install(notifying_program(machine, {}), machine)
        except OSError as error:
            os.write(write, str(error.errno).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        assert file.read() == b"16"  # EBUSY
    os.waitpid(pid, 0)


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_the_numbers_are_the_kernels(machine: str) -> None:
    if not os.path.exists(_HEADERS[machine]):
        pytest.skip("the kernel's headers are not installed")
    with open(_HEADERS[machine]) as file:
        known = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read()))
    known.setdefault("newfstatat", known.get("fstatat", ""))
    newer = {"fchmodat2"}  # Linux 6.6
    for name, number in NUMBERS[machine].items():
        assert name in newer or known[name] == str(number), name


def test_every_call_that_strace_is_asked_for_has_a_number() -> None:
    assert NUMBERS["x86_64"].keys() == CALLS.keys() | TURNS | {"connect"}
    assert NUMBERS["aarch64"].keys() < NUMBERS["x86_64"].keys()
    for numbers in NUMBERS.values():
        assert all(a != b for a, b in pairwise(sorted(numbers.values())))
