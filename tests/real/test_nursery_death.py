"""Nothing is left when vx is killed, and nothing when the nursery is."""

import asyncio
import json
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import pytest

from tests.harness.processes import alive, children_now, look, reap
from tests.harness.waiting import patience, wait_for
from vxwatch.process.launching import Launch, body_of
from vxwatch.process.tree import NurseryLostError, Tree

# A session with a deaf tree, daemons with and without the mark, a held stdin, registered paths;
# it says who is who and then waits. Daemons write their pids into the directory of the test.
_SESSION = r"""
import asyncio, json, os, sys
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.process.tree import NurseryLostError

async def ignore(stream, data):
    pass

def touch(path):
    open(path, "w").close()

async def main(place):
    async with Nursery.open() as nursery:
        daemons = (
            "for i in 1 2 3; do"
            "  (setsid sh -c 'echo $$ > a$0; (setsid sh -c \"echo \\$\\$ > b$0; exec sleep 600\" &) ; sleep 600' $i &);"
            "  (env -i setsid sh -c 'echo $$ > c$0; exec sleep 600' $i &);"
            "done; trap '' TERM INT HUP; echo $$ > d0; sleep 600; :"
        )
        launch = Launch(("/bin/sh", "-c", daemons), place, dict(os.environ), stdin="held")
        await nursery.launch(launch, ignore)
        await nursery.launch(Launch(("/bin/sleep", "600"), place, dict(os.environ)), ignore)
        for name in ("empty", "written", "replaced"):
            touch(name)
            await nursery.register(os.path.join(place, name), untouched=True)
        for name in ("made", "used"):
            os.mkdir(name)
            await nursery.register(os.path.join(place, name), untouched=True)
        for name in ("promised", "kept", "never"):
            await nursery.announce(os.path.join(place, name))
        touch("promised"); open("kept", "w").write("by a task")
        await nursery.register(os.path.join(place, "socket"))
        await nursery.register(os.path.join(place, "spared"))
        await nursery.forget(os.path.join(place, "spared"))
        open("written", "w").write("by a task")
        touch("socket"); touch("spared"); touch("other"); os.rename("other", "replaced")
        touch("used/file")
        touch(nursery.directory + "/something")
        told = {"directory": nursery.directory, "nursery": nursery._helper.pid}
        print(json.dumps(told), flush=True)
        await asyncio.sleep(600)

os.chdir(sys.argv[1])
try:
    asyncio.run(main(sys.argv[1]))
except NurseryLostError:
    print("lost", flush=True)
    sys.exit(70)
"""

_DAEMONS = (*(f"{kind}{number}" for kind in "abc" for number in (1, 2, 3)), "d0")


@dataclass(slots=True)
class Session:
    process: subprocess.Popen[bytes]
    place: str
    directory: str
    nursery: int
    pids: list[int]

    def gone(self) -> bool:
        return not any(alive(pid) for pid in (*self.pids, self.nursery))

    def left(self) -> list[str]:
        """What is there of the paths it made."""
        names = ("empty", "written", "replaced", "made", "used", "promised", "kept", "socket")
        return [
            name for name in (*names, "spared") if os.path.lexists(os.path.join(self.place, name))
        ]


@contextmanager
def session(place: str, argv: tuple[str, ...] = ()) -> Iterator[Session]:
    argv = argv or (sys.executable, "-c", _SESSION, place)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        pids = [_pid(os.path.join(place, name)) for name in _DAEMONS]
        yield Session(process, place, told["directory"], told["nursery"], pids)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _state(pid: int) -> str:
    seen = look(pid)
    return seen.state if seen else ""


def _pid(path: str) -> int:
    def written() -> str:
        try:
            with open(path) as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""

    return int(wait_for(written, f"{path} holds a pid"))


@pytest.mark.parametrize("victim", ["vx", "group"])
def test_after_kill_9_of_vx_nothing_is_left(victim: str, tmp_path: object) -> None:
    with session(str(tmp_path)) as live:
        assert not live.gone()
        begun = time.monotonic()
        if victim == "vx":
            live.process.kill()
        else:
            os.killpg(live.process.pid, signal.SIGKILL)
        wait_for(live.gone, "everything is gone", context=lambda: str([look(p) for p in live.pids]))
        assert time.monotonic() - begun < patience(1)
        assert not os.path.exists(live.directory)
        assert live.left() == ["written", "replaced", "used", "kept", "spared"]


def test_after_kill_9_of_the_nursery_vx_clears_up_and_says_so(tmp_path: object) -> None:
    with session(str(tmp_path)) as live:
        begun = time.monotonic()
        os.kill(live.nursery, signal.SIGKILL)
        assert live.process.wait(patience(10)) == 70
        assert live.gone()
        assert time.monotonic() - begun < patience(2)
        assert live.process.stdout is not None
        assert live.process.stdout.read() == b"lost\n"
        assert not os.path.exists(live.directory)
        assert live.left() == ["written", "replaced", "used", "kept", "spared"]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_nursery_ends_by_nothing_but_the_end_of_vx(
    sig: signal.Signals, tmp_path: object
) -> None:
    with session(str(tmp_path)) as live:
        os.kill(live.nursery, sig)
        time.sleep(0.1)  # time in which it would end
        assert alive(live.nursery)
        assert all(alive(pid) for pid in live.pids)


def test_a_stopped_vx_that_is_killed_leaves_nothing(tmp_path: object) -> None:
    with session(str(tmp_path)) as live:
        os.kill(live.process.pid, signal.SIGSTOP)
        os.kill(live.process.pid, signal.SIGKILL)
        wait_for(live.gone, "everything is gone")


def test_a_stopped_nursery_goes_on_when_vx_is_killed(tmp_path: object) -> None:
    with session(str(tmp_path)) as live:
        os.kill(live.nursery, signal.SIGSTOP)
        live.process.kill()
        wait_for(live.gone, "everything is gone")
        assert live.left() == ["written", "replaced", "used", "kept", "spared"]


def test_who_was_a_child_before_vx_was_outlives_the_nursery(tmp_path: object) -> None:
    started = f'setsid sleep 600 & echo $! > {tmp_path}/before; exec {sys.executable} -c "$0" $1'
    argv = ("/bin/sh", "-c", started, _SESSION, str(tmp_path))
    with session(str(tmp_path), argv) as live:
        stranger = _pid(f"{tmp_path}/before")
        os.kill(live.nursery, signal.SIGKILL)
        assert live.process.wait(patience(10)) == 70
        assert live.gone()
        assert alive(stranger)
        os.kill(stranger, signal.SIGKILL)


def test_what_was_registered_last_is_removed_though_vx_left_answers_unread(
    tmp_path: object,
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"from vxwatch.process.nursery_main import main; main({theirs.fileno()})"
    argv = (sys.executable, "-c", code)
    with subprocess.Popen(argv, pass_fds=(theirs.fileno(),)) as nursery, ours:
        theirs.close()
        body = os.memfd_create("launch")
        launch = Launch(("/no/such",), "/", {})
        os.write(body, body_of(launch, "mark", ()))
        socket.send_fds(ours, [marshal.dumps(("spawn", 1))], [body])
        os.close(body)
        assert select.select([ours], [], [], patience(10))[0]  # its answer, left unread
        nursery.send_signal(signal.SIGSTOP)
        wait_for(lambda: _state(nursery.pid) == "T", "it is stopped")
        path = f"{tmp_path}/registered"
        ours.send(marshal.dumps(("register", path.encode(), None)))
        with open(path, "w"):
            pass
        ours.close()
        nursery.send_signal(signal.SIGCONT)
        assert nursery.wait(patience(10)) == 0
        assert not os.path.exists(path)


_BOXED = r"""
import asyncio, os, sys
from vxwatch.process.nursery import Launch, Nursery
async def ignore(stream, data): pass
async def main():
    async with Nursery.open() as nursery:
        argv = ("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-user", "--info-fd", "3", "--json-status-fd", "4",
            "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/sh", "-c", "(setsid sleep 600 &); sleep 600; :")
        argv = (sys.argv[1], *argv[1:])
        tree = await nursery.launch(Launch(argv, "/", {**os.environ}, boxed=True), ignore)
        while not open(f"/proc/{tree.init}/task/{tree.init}/children").read():
            await asyncio.sleep(0.01)
        print(nursery.directory, nursery._helper.pid, tree.pid, tree.init, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.sandbox
def test_a_box_dies_though_vx_and_the_nursery_are_killed_at_once() -> None:
    argv = (sys.executable, "-c", _BOXED, shutil.which("bwrap") or "bwrap")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as vx:
        assert vx.stdout is not None
        directory, *pids = vx.stdout.readline().split()
        nursery, *box = map(int, pids)
        vx.send_signal(signal.SIGSTOP)  # it does not live to see that the nursery is gone
        os.kill(nursery, signal.SIGKILL)
        vx.kill()
        begun = time.monotonic()
        wait_for(lambda: not any(alive(pid) for pid in box), "the box is dead")
        assert time.monotonic() - begun < patience(1)
        os.rmdir(directory)  # nobody was left to do it


_EARLY = r"""
import asyncio, os, sys
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.process.tree import NurseryLostError
async def ignore(stream, data): pass
async def main():
    async with Nursery.open() as nursery:
        dial = asyncio.create_task(nursery.dial(None, 1))  # nobody listens there, so a helper waits
        dial.add_done_callback(lambda _: dial.exception())
        print(nursery._helper.pid, flush=True)
        while True:
            await nursery.launch(Launch(("/bin/sh", "-c", "(setsid sleep 600 &); exec sleep 600"), "/", {**os.environ}), ignore)
try:
    asyncio.run(main())
except NurseryLostError:
    sys.exit(70)
"""

# A nursery that is killed in the moment in which it would take this step.
_DYING = """
import asyncio, sys
from vxwatch.process import ahead
from vxwatch.process.nursery import Nursery
from vxwatch.process.tree import NurseryLostError
ahead._START = (
    "import os, signal, sys; sys.path.append(sys.argv[2]);"
    "from vxwatch.process import kin, nursery_main; from vxwatch.process.nursery_main import main, Nursery;"
    "{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL); main(int(sys.argv[1]))"
)
async def main():
    async with Nursery.open() as nursery:
        print(nursery.directory, flush=True)
        await nursery.register(nursery.directory + "/more")
        await asyncio.sleep(600)
try:
    asyncio.run(main())
except NurseryLostError:
    sys.exit(70)
"""


@pytest.mark.parametrize("victim", ["vx", "nursery"])
def test_kill_9_at_any_moment_of_a_start_leaves_nothing(victim: str) -> None:
    # The fixture that stands around every test finds what is left.
    for delay in (0, 0.005, 0.015, 0.03, 0.06, 0.12):
        with subprocess.Popen((sys.executable, "-c", _EARLY), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            nursery = int(process.stdout.readline())
            time.sleep(delay)
            if victim == "vx":
                process.kill()
            else:
                os.kill(nursery, signal.SIGKILL)
                assert process.wait(patience(10)) == 70


def test_kill_9_before_the_nursery_has_begun_leaves_nothing() -> None:
    for step in ("kin.become_subreaper", "Nursery.serve"):
        code = _DYING.format(step=step)
        with subprocess.Popen((sys.executable, "-c", code), stdout=subprocess.PIPE) as process:
            assert process.wait(patience(10)) == 70
            assert process.stdout is not None
            directory = process.stdout.read().decode().strip()
            assert not os.path.exists(directory)


@pytest.mark.parametrize("output_first", [True, False])
def test_a_tree_whose_output_ends_as_the_nursery_is_lost_says_so_once(output_first: bool) -> None:
    ours, theirs = os.pipe()

    async def lose() -> list[object]:
        loop = asyncio.get_running_loop()
        faults: list[object] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        pump = mock.Mock(task=loop.create_future())
        os.set_blocking(ours, False)
        tree = Tree(mock.Mock(), 1, "mark", [pump], ours)
        steps = [lambda: pump.task.set_result(None), tree.on_lost]
        for step in steps if output_first else reversed(steps):
            step()
        async with asyncio.timeout(patience(10)):
            with pytest.raises(NurseryLostError):
                await tree.wait()
        await asyncio.sleep(0)
        return faults

    assert asyncio.run(lose()) == []
    os.close(theirs)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(ours)


_KILLED_AT = """
import asyncio, os, signal, sys
from vxwatch.process import helper, link, nursery

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def made_and_died(path, mode, mkdir=os.mkdir):
    mkdir(path, mode)
    print(path, flush=True)
    die()

async def main():
    async with nursery.Nursery.open():
        pass

exec(sys.argv[1])
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "step",
    [
        "helper._descriptor_of = die",
        "link.Link.__init__ = die",
        "link.Link.post = die",
        "os.mkdir = die",
        "os.mkdir = made_and_died",
    ],
)
def test_kill_9_of_vx_at_every_step_of_a_start_leaves_nothing(step: str) -> None:
    before = children_now()

    def ended() -> bool:
        reap(skip=before)
        return children_now() <= before

    argv = (sys.executable, "-c", _KILLED_AT, step)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.wait(patience(10)) == -signal.SIGKILL
        assert process.stdout is not None
        directory = process.stdout.read().decode().strip()
    begun = time.monotonic()
    wait_for(ended, "the nursery has ended")
    assert time.monotonic() - begun < patience(1)
    assert not directory or not os.path.exists(directory)
