"""How a tree ends: politely, surely, wholly, and nothing but that tree."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.processes import alive
from tests.harness.trees import Heard, end, running, sh, until
from tests.harness.waiting import patience
from vxwatch.errors import UserError
from vxwatch.process import kin
from vxwatch.process.nursery import Nursery
from vxwatch.process.tree import Tree

DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"
POLITE = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done"


def test_a_polite_tree_runs_its_traps() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh(POLITE), heard)
            await heard.until(b"up\n")
            ended = await end(tree)
            assert (ended.code, heard.stdout) == (5, b"up\nbye\n")
            assert not alive(tree.pid)

    asyncio.run(scenario())


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_the_signal_is_the_one_that_was_asked_for(sig: signal.Signals) -> None:
    async def scenario() -> None:
        async with running("echo up; exec sleep 600") as tree:
            assert (await end(tree, sig)).code == 128 + sig

    asyncio.run(scenario())


def test_a_deaf_tree_is_killed_when_its_grace_is_over() -> None:
    async def scenario() -> None:
        async with running(DEAF) as tree:
            begun = time.monotonic()
            ended = await end(tree, grace=0.3)
            assert ended.code == 128 + signal.SIGKILL
            assert time.monotonic() - begun >= 0.3
            assert not alive(tree.pid)

    asyncio.run(scenario())


def test_a_hurry_ends_the_grace() -> None:
    async def scenario() -> None:
        async with running(DEAF) as tree:
            hurry = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, hurry.set)
            async with asyncio.timeout(patience(10)):
                ended = await tree.stop(signal.SIGTERM, 600, hurry)
            assert ended.code == 128 + signal.SIGKILL

    asyncio.run(scenario())


def test_the_polite_signal_comes_once_however_often_one_asks() -> None:
    async def scenario() -> None:
        counting = "n=0; trap 'n=$((n+1))' TERM; trap 'exit $n' USR1; echo up; while :; do sleep 0.05; done"
        async with running(counting) as tree:
            stops = [asyncio.create_task(end(tree)) for _ in range(3)]
            await asyncio.sleep(0.3)  # time in which a second signal would come
            os.kill(tree.pid, signal.SIGUSR1)
            ended = await asyncio.gather(*stops)
            assert [one.code for one in ended] == [1, 1, 1]
            assert (await end(tree)).code == 1

    asyncio.run(scenario())


def test_a_stop_waits_for_the_group_not_for_the_leader_alone() -> None:
    async def scenario() -> None:
        cleanup = "trap 'sleep 0.5; echo cleaned; exit' TERM; while :; do sleep 0.05; done"
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh(f"({cleanup}) & sleep 0.1; echo up; wait"), heard)
            await heard.until(b"up\n")
            ended = await end(tree)
            assert ended.code == 128 + signal.SIGTERM
            assert heard.stdout == b"up\ncleaned\n"
            assert not ended.output_cut

    asyncio.run(scenario())


def test_a_zombie_does_not_keep_a_group_alive() -> None:
    async def scenario() -> None:
        # The middle process leaves the group and the session, ignores what its child became,
        # and hides its mark: the zombie stays in the group for as long as nobody kills it.
        holder = (
            "import os, sys, time\n"
            "if os.fork() == 0: os._exit(0)\n"
            "os.setsid(); print('up', flush=True); time.sleep(600)"
        )
        command = f'env -i {sys.executable} -I -S -c "{holder}" & wait'
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh(command), heard)
            await heard.until(b"up\n")
            begun = time.monotonic()
            await end(tree, grace=60)
            assert time.monotonic() - begun < 30

    asyncio.run(scenario())


def test_a_stopped_tree_hears_the_polite_signal() -> None:
    async def scenario() -> None:
        async with running(POLITE) as tree:
            os.kill(tree.pid, signal.SIGSTOP)
            await until(lambda: _state(tree.pid) == "T")
            assert (await end(tree)).code == 5

    asyncio.run(scenario())


def test_a_stopped_deaf_tree_is_killed() -> None:
    async def scenario() -> None:
        async with running(DEAF) as tree:
            os.killpg(tree.pid, signal.SIGSTOP)
            assert (await end(tree, signal.SIGKILL)).code == 128 + signal.SIGKILL

    asyncio.run(scenario())


def test_cancelling_the_caller_does_not_end_the_stop() -> None:
    async def scenario() -> None:
        async with running(
            "trap 'sleep 0.4; exit 5' TERM; echo up; while :; do sleep 0.05; done"
        ) as tree:
            stop = asyncio.create_task(end(tree))
            await asyncio.sleep(0.05)
            stop.cancel()
            await asyncio.sleep(0.05)
            assert not stop.done()
            stop.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stop
            assert not alive(tree.pid)
            assert (await tree.wait()).code == 5

    asyncio.run(scenario())


def test_cancelling_a_wait_ends_nothing() -> None:
    async def scenario() -> None:
        async with running(POLITE) as tree:
            wait = asyncio.create_task(tree.wait())
            await asyncio.sleep(0.01)
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
            assert alive(tree.pid)
            assert (await end(tree)).code == 5

    asyncio.run(scenario())


def test_a_cancelled_launch_leaves_nothing() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            await (await nursery.launch(sh("true"), Heard())).wait()
            for turns in range(8):
                launch = asyncio.create_task(nursery.launch(sh("sleep 600"), Heard()))
                for _ in range(turns):
                    await asyncio.sleep(0)
                launch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await end(await launch)  # where the cancel came too late
            await until(lambda: _children(_parent(nursery)) == [])

    asyncio.run(scenario())


async def _with_daemon(
    nursery: Nursery, how: str = "setsid", work: str = "exec sleep 600"
) -> tuple[Tree, int]:
    """A tree that has ended and left a daemon in a session of its own; the daemon's pid."""
    heard = Heard()
    command = f"({how} sh -c 'echo $$; exec >&- 2>&-; {work}' &) ; exit 3"
    tree = await nursery.launch(sh(command), heard)
    await heard.until(b"\n")
    assert (await tree.wait()).code == 3
    return tree, int(heard.stdout)


def test_ending_a_tree_takes_its_own_daemons_and_leaves_those_of_others() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            one, its = await _with_daemon(nursery)
            other, others = await _with_daemon(nursery)
            await end(one)
            assert not alive(its)
            assert alive(others)
            await end(other)
            assert not alive(others)

    asyncio.run(scenario())


def test_who_executes_one_program_after_the_other_shows_its_mark_at_any_time(
    tmp_path: Path,
) -> None:
    again = tmp_path / "again"
    again.write_text('exec sh "$0"\n')
    with subprocess.Popen(["sh", again], env={**os.environ, kin.MARK: "m"}) as restless:
        try:
            assert all(kin.carries(restless.pid, "m") for _ in range(20_000))
            assert not kin.carries(restless.pid, "n")
        finally:
            restless.kill()
    assert not kin.carries(restless.pid, "m")


def test_who_has_no_environment_carries_no_mark() -> None:
    with subprocess.Popen(
        ["env", "-i", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bare:
        assert bare.stdin is not None
        assert bare.stdout is not None
        bare.stdout.readline()
        assert not kin.carries(bare.pid, "m")
        bare.stdin.close()


def test_a_daemon_without_a_mark_dies_when_no_tree_lives() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            server = await nursery.launch(sh("sleep 600"), Heard())
            # Of two generations: the second is bequeathed to us when the first is killed.
            tree, daemon = await _with_daemon(nursery, "env -i setsid", "sleep 600 & wait")
            await end(tree)
            assert alive(daemon)
            await end(server)
            await until(lambda: _children(_parent(nursery)) == [])
            assert not alive(daemon)

    asyncio.run(scenario())


def test_a_tree_that_has_ended_by_itself_is_stopped_at_once() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("exit 9"), Heard())
            assert (await tree.wait()).code == 9
            assert (await end(tree, grace=600)).code == 9

    asyncio.run(scenario())


def test_what_a_leader_left_in_its_group_gets_the_polite_signal() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh(f"({POLITE}) & sleep 0.2; exit 0"), heard)
            await heard.until(b"up\n")
            ended = await tree.wait()
            assert (ended.code, ended.output_cut) == (0, True)
            begun = time.monotonic()
            await end(tree, grace=60)
            assert time.monotonic() - begun < 30
            assert nothing_in_group(tree.pid)

    asyncio.run(scenario())


def test_everything_is_dead_when_the_block_is_left() -> None:
    async def scenario() -> list[int]:
        async with Nursery.open() as nursery:
            heard = Heard()
            storm = "for i in 1 2 3 4 5; do (setsid sh -c 'setsid sleep 600 & env -i sleep 600' &); done; echo up; "
            tree = await nursery.launch(sh(storm + DEAF), heard)
            await heard.until(b"up\n")
            return [tree.pid, _parent(nursery), *_children(_parent(nursery))]

    begun = time.monotonic()
    assert not any(alive(pid) for pid in asyncio.run(scenario()))
    assert time.monotonic() - begun < patience(5)


def test_a_tree_that_will_not_die_is_told_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A process that the kernel cannot end is not to be had; one whose death a tracer keeps is.
    monkeypatch.setattr("vxwatch.process.tree._FOLLOW", 0.05)
    monkeypatch.setattr("vxwatch.process.tree._DIE", 0.05)
    monkeypatch.setattr("vxwatch.process.nursery._END", 0.05)

    async def scenario() -> None:
        async with running(DEAF) as tree:
            with _traced(tree.pid):
                with pytest.raises(UserError, match=f"process {tree.pid} does not end") as failure:
                    await end(tree, signal.SIGKILL)
                assert failure.value.slug == "process-stuck"

    with pytest.raises(UserError, match="does not end"):  # and it is what the session ends with
        asyncio.run(scenario())


@contextlib.contextmanager
def _traced(pid: int) -> Iterator[None]:
    """Keep this process from being reaped by its parent, once it is dead."""
    seize = (
        "import ctypes, sys, time\n"
        f"failed = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, {pid}, 0, 0)\n"
        "print(ctypes.get_errno() if failed else 0, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen((sys.executable, "-c", seize), stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None
        try:
            if int(tracer.stdout.readline()):
                pytest.skip("this host lets nobody trace a process")
            yield
        finally:
            tracer.kill()


def test_an_error_in_the_block_ends_everything_and_comes_out() -> None:
    seen: list[int] = []

    async def scenario() -> None:
        async with running(DEAF) as tree:
            seen.append(tree.pid)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(scenario())
    assert not alive(seen[0])


def _stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2].split()


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _parent(nursery: Nursery) -> int:
    return nursery._helper.pid


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def nothing_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
