"""Trees in a bwrap box: who is told what, and that a box ends whole and is never deaf."""

import asyncio
import os
import shutil
import signal
import time

import pytest

from tests.harness.processes import alive
from tests.harness.trees import ENVIRONMENT, Heard, end, until
from vxwatch.process.nursery import Launch, Nursery

pytestmark = pytest.mark.sandbox

BWRAP = (shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session")
SPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL")
TOLD = ("--info-fd", "3", "--json-status-fd", "4")
VIEW = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


def box(*command: str, options: tuple[str, ...] = ()) -> Launch:
    argv = (*BWRAP, *SPACES, *TOLD, *VIEW, *options, "--", *command)
    return Launch(argv, "/", ENVIRONMENT, boxed=True)


def boxed_sh(command: str) -> Launch:
    return box("/bin/sh", "-c", command)


def test_the_init_and_the_exit_code_of_a_box_are_told() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(boxed_sh("echo up; sleep 0.2; exit 5"), heard)
            await heard.until(b"up\n")
            assert tree.init is not None
            with open(f"/proc/{tree.init}/status") as file:  # noqa: ASYNC230  # in memory
                inside = next(line.split() for line in file if line.startswith("NSpid"))
            assert inside[1:] == [str(tree.init), "1"]
            ended = await tree.wait()
            assert (ended.code, ended.started) == (5, True)
            await end(tree)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "launch",
    [box("/bin/true", options=("--ro-bind", "/no/such", "/x")), box("/no/such/command")],
    ids=["a bind that fails", "a command that is missing"],
)
def test_a_box_that_was_never_built_is_told_from_a_command_that_failed(launch: Launch) -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(launch, heard)
            ended = await tree.wait()
            assert (ended.code, ended.started) == (1, False)
            assert heard.stderr.startswith(b"bwrap: ")
            failed = await nursery.launch(boxed_sh("exit 1"), heard)
            ended = await failed.wait()
            assert (ended.code, ended.started) == (1, True)

    asyncio.run(scenario())


def test_the_polite_signal_reaches_the_inside_of_a_box() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            command = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done"
            tree = await nursery.launch(boxed_sh(command), heard)
            await heard.until(b"up\n")
            ended = await end(tree)
            assert (ended.code, ended.started, heard.stdout) == (5, True, b"up\nbye\n")

    asyncio.run(scenario())


def test_a_deaf_box_is_killed_with_all_that_is_in_it() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            command = (
                "trap '' TERM; (setsid sh -c 'sleep 600 & env -i sleep 600' &);"
                "echo up; while :; do sleep 0.05; done"
            )
            tree = await nursery.launch(boxed_sh(command), heard)
            await heard.until(b"up\n")
            assert tree.init is not None
            init = tree.init
            await until(lambda: len(_members(init)) >= 5)
            inside = _members(init)
            ended = await end(tree, grace=0.1)
            assert (ended.code, ended.started) == (128 + signal.SIGKILL, True)
            assert not any(alive(pid) for pid in inside)

    asyncio.run(scenario())


def test_a_box_is_gone_only_when_everybody_in_it_is() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            for _ in range(15):
                heard = Heard()
                # bwrap ends with its command and does not wait for the others in the box.
                tree = await nursery.launch(
                    boxed_sh("for i in 1 2 3 4 5; do (setsid sleep 600 &); done; exit 3"), heard
                )
                assert tree.init is not None
                assert (await tree.wait()).code == 3
                await end(tree)
                assert not alive(tree.init)

    asyncio.run(scenario())


def test_a_stopped_bwrap_is_ended_with_its_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxwatch.process.tree._FOLLOW", 600)  # no second, harder attempt

    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(boxed_sh("echo up; sleep 600"), heard)
            await heard.until(b"up\n")
            os.kill(tree.pid, signal.SIGSTOP)
            await end(tree, signal.SIGKILL)
            assert not alive(tree.pid)

    asyncio.run(scenario())


def test_a_polite_stop_at_any_moment_of_a_birth_is_not_lost() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            for moment in range(24):
                launch = box("/bin/sh", "-c", "while :; do sleep 0.05; done")
                tree = await nursery.launch(launch, Heard())
                await asyncio.sleep(moment * 0.001)
                begun = time.monotonic()
                await end(tree, grace=60)
                assert time.monotonic() - begun < 30, moment

    asyncio.run(scenario())


def test_a_cancelled_birth_leaves_nothing() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            # It waits before it has an init to name, for arguments that never come.
            read, write = os.pipe()
            argv = (*BWRAP, *SPACES, *TOLD, "--args", "9", *VIEW, "--", "/bin/true")
            launch = Launch(argv, "/", ENVIRONMENT, fds={9: read}, boxed=True)
            birth = asyncio.create_task(nursery.launch(launch, Heard()))
            await asyncio.sleep(0.3)
            birth.cancel()
            with pytest.raises(asyncio.CancelledError):
                await birth
            os.close(read)
            os.close(write)
            with open(f"/proc/{nursery._helper.pid}/task/{nursery._helper.pid}/children") as file:  # noqa: ASYNC230
                assert file.read() == ""

    asyncio.run(scenario())


def _members(init: int) -> list[int]:
    """All processes of the init's pid namespace."""
    space = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == space:
                found.append(int(name))
        except OSError:
            continue
    return found
