"""Nothing is left when vx is killed, and nothing when the nursery is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.harness.processes import alive, look
from tests.harness.waiting import patience, wait_for

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
        names = ("empty", "written", "replaced", "made", "used", "socket", "spared")
        return [name for name in names if os.path.lexists(os.path.join(self.place, name))]


@contextmanager
def session(place: str) -> Iterator[Session]:
    argv = (sys.executable, "-c", _SESSION, place)
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
        assert live.left() == ["written", "replaced", "used", "spared"]


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
        assert live.left() == ["written", "replaced", "used", "spared"]


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
        assert live.left() == ["written", "replaced", "used", "spared"]


_EARLY = r"""
import asyncio, os, sys
from vxwatch.process.nursery import Launch, Nursery
async def ignore(stream, data): pass
async def main():
    async with Nursery.open() as nursery:
        print("up", flush=True)
        while True:
            await nursery.launch(Launch(("/bin/sh", "-c", "(setsid sleep 600 &); exec sleep 600"), "/", {**os.environ}), ignore)
asyncio.run(main())
"""


def test_kill_9_at_any_moment_of_a_start_leaves_nothing() -> None:
    # The fixture that stands around every test finds what is left.
    for delay in (0, 0.005, 0.015, 0.03, 0.06, 0.12):
        process = subprocess.Popen((sys.executable, "-c", _EARLY), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.stdout.close()
        process.wait()
