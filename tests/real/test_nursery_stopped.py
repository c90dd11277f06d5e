"""What somebody has stopped (SIGSTOP) holds nothing up: the nursery, a leader, a member, a box."""

import asyncio
import os
import shutil
import signal
import sys
import time

import pytest

from tests.harness.processes import alive
from tests.harness.trees import ENVIRONMENT, Heard, end, running, sh, until
from tests.harness.waiting import patience
from vxwatch.process.helper import HelperProcess, told_of_children
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.process.tree import NurseryLostError

POLITE = "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"
BWRAP = (shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session")
SPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--info-fd", "3")
VIEW = ("--json-status-fd", "4", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


def boxed(command: str) -> Launch:
    argv = (*BWRAP, *SPACES, *VIEW, "--", "/bin/sh", "-c", command)
    return Launch(argv, "/", ENVIRONMENT, boxed=True)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


@pytest.fixture
def deaf_nursery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nursery that stays stopped, as one that the kernel holds in a spawn does not answer."""
    monkeypatch.setattr(HelperProcess, "_resume_if_stopped", lambda _: None)
    monkeypatch.setattr(HelperProcess, "resume", lambda _: None)
    monkeypatch.setattr("vxwatch.process.tree._ANSWER", 0.1)
    monkeypatch.setattr("vxwatch.process.nursery._END", 0.1)


def test_the_end_of_a_tree_is_told_though_the_nursery_was_stopped() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("sleep 0.2; exit 3"), Heard())
            stop(nursery._helper.pid)
            async with asyncio.timeout(patience(10)):
                assert (await tree.wait()).code == 3

    asyncio.run(scenario())


def test_a_nursery_that_is_stopped_in_the_moment_of_a_spawn_goes_on() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            for turns in range(6):
                launch = asyncio.create_task(nursery.launch(sh("exit 3"), Heard()))
                for _ in range(turns):
                    await asyncio.sleep(0)
                stop(nursery._helper.pid)
                async with asyncio.timeout(patience(10)):
                    assert (await (await launch).wait()).code == 3

    asyncio.run(scenario())


def test_signals_that_come_while_one_is_answered_wait_for_the_loop() -> None:
    async def scenario() -> None:
        calls, last = iter(range(3000)), asyncio.Event()

        def call() -> None:
            if next(calls, None) is None:
                last.set()
            else:
                os.kill(os.getpid(), signal.SIGCHLD)

        with told_of_children(call):
            os.kill(os.getpid(), signal.SIGCHLD)
            async with asyncio.timeout(patience(10)):
                await last.wait()

    asyncio.run(scenario())


def test_a_task_that_stops_the_nursery_again_and_again_holds_up_no_end() -> None:
    async def scenario() -> None:
        async with running("echo up; exec 2>&-; while kill -STOP $PPID; do :; done") as tree:
            begun = time.monotonic()
            await tree.stop(signal.SIGTERM, 0.2, asyncio.Event())
            assert time.monotonic() - begun < patience(4)
            assert not alive(tree.pid)

    asyncio.run(scenario())


def test_who_ends_a_tree_lets_the_nursery_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # Outside the main thread nothing tells of a child that was stopped.
    monkeypatch.setattr(HelperProcess, "_resume_if_stopped", lambda _: None)

    async def scenario() -> None:
        async with running(POLITE) as tree:
            stop(int(_stat(tree.pid)[1]))
            assert (await end(tree)).code == 5

    asyncio.run(scenario())


@pytest.mark.usefixtures("deaf_nursery")
def test_a_nursery_that_does_not_answer_is_killed_and_done_for() -> None:
    seen: list[int] = []

    async def scenario() -> None:
        async with running("(setsid sleep 600 &); " + POLITE) as tree:
            seen.append(tree.pid)
            nursery = int(_stat(tree.pid)[1])
            seen.append(nursery)
            stop(nursery)
            await end(tree, signal.SIGKILL)

    with pytest.raises(NurseryLostError):
        asyncio.run(scenario())
    assert not any(alive(pid) for pid in seen)


@pytest.mark.usefixtures("deaf_nursery")
def test_a_launch_that_never_begins_can_be_cancelled() -> None:
    ends: list[BaseException | None] = []

    async def scenario() -> None:
        async with Nursery.open() as nursery:
            await (await nursery.launch(sh("true"), Heard())).wait()
            stop(nursery._helper.pid)
            launch = asyncio.create_task(nursery.launch(sh("sleep 600"), Heard()))
            launch.add_done_callback(lambda _: ends.append(launch.exception()))
            await asyncio.sleep(0.05)
            launch.cancel()
            await asyncio.wait((launch,), timeout=patience(10))

    with pytest.raises(NurseryLostError):
        asyncio.run(scenario())
    assert isinstance(ends[0], NurseryLostError)


@pytest.mark.usefixtures("deaf_nursery")
def test_a_session_ends_though_its_nursery_does_not_answer() -> None:
    async def scenario() -> list[int]:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh("trap '' TERM; echo up; sleep 600; :"), heard)
            await heard.until(b"up\n")
            stop(nursery._helper.pid)
            return [tree.pid, nursery._helper.pid]

    assert not any(alive(pid) for pid in asyncio.run(scenario()))


@pytest.mark.usefixtures("deaf_nursery")
def test_an_idle_session_ends_though_its_nursery_does_not_answer() -> None:
    async def scenario() -> str:
        async with Nursery.open() as nursery:
            stop(nursery._helper.pid)
            return nursery.directory

    assert not os.path.exists(asyncio.run(scenario()))


def test_a_stopped_child_of_a_polite_leader_is_ended_with_it() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh(f"sleep 600 & echo $!; {POLITE}"), heard)
            await heard.until(b"up\n")
            child = int(heard.stdout.split()[0])
            stop(child)
            await until(lambda: _stat(child)[0] == "T")
            begun = time.monotonic()
            assert (await end(tree, grace=60)).code == 5
            assert time.monotonic() - begun < 30
            assert not alive(child)

    asyncio.run(scenario())


def test_a_stopped_daemon_of_the_tree_is_ended_with_it() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            command = "(setsid sh -c 'echo $$; exec >&- 2>&- sleep 600' &); sleep 600; :"
            tree = await nursery.launch(sh(command), heard)
            daemon = int(await heard.until(b"\n"))
            stop(daemon)
            begun = time.monotonic()
            await end(tree, grace=60)
            assert time.monotonic() - begun < 30
            assert not alive(daemon)

    asyncio.run(scenario())


@pytest.mark.sandbox
@pytest.mark.parametrize("who", ["bwrap", "init", "command", "all"])
def test_a_box_in_which_somebody_is_stopped_ends_politely(who: str) -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(boxed(POLITE), heard)
            await heard.until(b"up\n")
            assert tree.init is not None
            command = _children(tree.init)[0]
            pids = {"bwrap": [tree.pid], "init": [tree.init], "command": [command]}
            for pid in pids.get(who, [tree.pid, tree.init, command]):
                stop(pid)
            begun = time.monotonic()
            assert (await end(tree, grace=60)).code == 5
            assert time.monotonic() - begun < 30
            assert not any(alive(pid) for pid in (tree.pid, tree.init, command))

    asyncio.run(scenario())


@pytest.mark.sandbox
@pytest.mark.parametrize("who", ["bwrap", "init"])
def test_a_box_in_which_somebody_is_stopped_is_killed(who: str) -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(boxed("trap '' TERM; echo up; sleep 600; :"), heard)
            await heard.until(b"up\n")
            assert tree.init is not None
            stop(tree.pid if who == "bwrap" else tree.init)
            begun = time.monotonic()
            await end(tree, grace=0.2)
            assert time.monotonic() - begun < patience(2)
            assert not alive(tree.init)

    asyncio.run(scenario())


def test_the_handler_that_was_there_before_still_hears_of_children() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, _: heard.append(number))
    try:

        async def scenario() -> None:
            async with Nursery.open() as nursery:
                stop(nursery._helper.pid)
                await until(lambda: bool(heard))

        asyncio.run(scenario())
        heard.clear()
        os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "--version"], {}), 0)
        assert heard
    finally:
        signal.signal(signal.SIGCHLD, before)


def _stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2].split()


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
