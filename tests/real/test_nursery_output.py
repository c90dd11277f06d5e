"""Output of a tree: all of it, bounded in memory and in time."""

import asyncio
import os
import signal
import time

import pytest

from tests.harness.processes import alive
from tests.harness.trees import Heard, end, sh
from tests.harness.waiting import patience
from vxwatch.process.nursery import Nursery
from vxwatch.process.pipes import Pump, Stream


def test_nothing_of_a_flood_is_lost_and_the_loop_keeps_turning() -> None:
    async def scenario() -> None:
        turns, size, longest = 0, 0, 0.0

        async def count(_: Stream, data: bytes) -> None:
            nonlocal size
            size += len(data)

        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("head -c 200000000 /dev/zero"), count)
            wait = asyncio.ensure_future(tree.wait())
            while not wait.done():
                begun = time.monotonic()
                await asyncio.sleep(0)
                longest = max(longest, time.monotonic() - begun)
                turns += 1
            ended = wait.result()
        assert (ended.code, ended.output_cut, size) == (0, False, 200_000_000)
        assert turns > 100
        assert longest < patience(0.5)

    asyncio.run(scenario())


def test_a_pipe_that_is_never_empty_does_not_keep_the_loop_to_itself() -> None:
    async def scenario() -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        read = 0

        def refill(_: Stream, data: bytes) -> None:
            nonlocal read
            read += 1
            os.write(writer, data)

        os.write(writer, bytes(1000))
        pump = Pump(reader, "stdout", refill)
        turns = 20
        for _ in range(turns):
            await asyncio.sleep(0)
        pump.abandon()
        await pump.task
        os.close(writer)
        assert 0 < read <= turns

    asyncio.run(scenario())


def test_a_consumer_that_waits_makes_the_writer_wait() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        size = 0

        async def hold(_: Stream, data: bytes) -> None:
            nonlocal size
            size += len(data)
            await gate.wait()

        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("head -c 3000000 /dev/zero; echo done >&2"), hold)
            await asyncio.sleep(0.3)  # time in which an unbounded reader would take it all
            assert 0 < size <= 65536
            assert alive(tree.pid)
            gate.set()
            ended = await tree.wait()
            assert (ended.code, size) == (0, 3_000_005)

    asyncio.run(scenario())


def test_what_a_dead_leader_wrote_reaches_a_slow_consumer_in_full() -> None:
    async def scenario() -> None:
        size = 0

        async def slow(_: Stream, data: bytes) -> None:
            nonlocal size
            await asyncio.sleep(1.5)  # longer than any drain
            size += len(data)

        async with Nursery.open() as nursery:
            # Something left behind holds the pipe, so that the drain's limits apply.
            tree = await nursery.launch(sh("head -c 60000 /dev/zero; sleep 600 & exit 0"), slow)
            ended = await tree.wait()
            assert size == 60_000
            assert ended.output_cut
            await end(tree)

    asyncio.run(scenario())


def test_output_held_open_is_cut_after_a_silence_and_that_is_said() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            begun = time.monotonic()
            tree = await nursery.launch(sh("echo mine; sleep 600 & exit 4"), heard)
            ended = await tree.wait()
            took = time.monotonic() - begun
            assert (ended.code, ended.output_cut, heard.stdout) == (4, True, b"mine\n")
            assert 0.25 <= took < patience(5)
            await end(tree)

    asyncio.run(scenario())


def test_late_output_within_the_silence_still_arrives() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh("(sleep 0.05; echo late) & exit 0"), heard)
            ended = await tree.wait()
            assert (ended.code, ended.output_cut, heard.stdout) == (0, False, b"late\n")

    asyncio.run(scenario())


def test_output_that_never_falls_silent_is_cut_too() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            begun = time.monotonic()
            tree = await nursery.launch(sh("yes & exit 0"), Heard())
            ended = await tree.wait()
            assert ended.output_cut
            assert time.monotonic() - begun < patience(5)
            await end(tree)

    asyncio.run(scenario())


def test_a_tree_that_closes_its_output_lives_on() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("exec >&- 2>&-; sleep 0.3; exit 6"), Heard())
            ended = await tree.wait()
            assert (ended.code, ended.output_cut) == (6, False)

    asyncio.run(scenario())


def test_an_error_of_the_consumer_comes_out_of_the_wait_and_the_tree_can_be_stopped() -> None:
    async def scenario() -> None:
        async def broken(_: Stream, data: bytes) -> None:
            raise KeyError(data)

        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("echo x; trap '' PIPE; sleep 600"), broken)
            with pytest.raises(KeyError):
                await tree.wait()
            assert alive(tree.pid)
            with pytest.raises(KeyError):
                await end(tree, signal.SIGKILL)
            assert not alive(tree.pid)

    asyncio.run(scenario())


def test_a_consumer_that_is_stuck_does_not_hold_up_a_stop() -> None:
    async def scenario() -> None:
        reached = asyncio.Event()

        async def stuck(_: Stream, data: bytes) -> None:
            reached.set()
            await asyncio.Event().wait()

        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("echo x; sleep 600"), stuck)
            await reached.wait()
            ended = await end(tree)
            assert ended.code == 128 + signal.SIGTERM
            assert ended.output_cut

    asyncio.run(scenario())
