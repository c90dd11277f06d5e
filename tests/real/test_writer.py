"""Standard output from a thread: full pipes, readers that leave, full disks."""

import asyncio
import errno
import fcntl
import os
import threading
import time
from collections.abc import Generator

import pytest

from vxwatch.output.writer import HIGH_WATER, Writer


def test_a_reader_that_leaves_ends_the_writing_and_nothing_else() -> None:
    reader, end = os.pipe()
    writer = Writer()
    os.close(reader)
    writer.write(end, b"lost")
    writer.close(5)
    os.close(end)
    assert writer.failure is None


def test_a_full_disk_is_kept_for_the_exit_code() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = Writer()
    writer.write(full, b"text")
    writer.close(5)
    os.close(full)
    assert writer.failure is not None
    assert writer.failure.strerror == "No space left on device"


def test_everything_arrives_in_order_through_a_small_pipe() -> None:
    reader, end = os.pipe()
    pieces = [bytes([65 + i % 26]) * 5000 for i in range(200)]
    writer = Writer()
    for piece in pieces:
        writer.write(end, piece)
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(reader, 65536), b"")))
    thread.start()
    writer.close(10)
    os.close(end)
    thread.join(10)
    os.close(reader)
    assert b"".join(read) == b"".join(pieces)


def test_a_stalled_reader_holds_back_who_waits_and_not_the_loop() -> None:
    reader, end = os.pipe()
    writer = Writer()

    async def produce() -> str:
        for _ in range(HIGH_WATER // 50_000 + 4):
            writer.write(end, b"x" * 50_000)
        room = writer.drained()
        assert room is not None
        blocked = asyncio.ensure_future(asyncio.wait_for(room, 10))
        await asyncio.sleep(0)
        state = "blocked" if not blocked.done() else "free"
        await asyncio.to_thread(lambda: [os.read(reader, 65536) for _ in range(12)])
        await blocked
        return state

    try:
        assert asyncio.run(produce()) == "blocked"
        writer.close(0.01)
    finally:
        os.close(reader)
        writer.close(10)
        os.close(end)


def test_a_pipe_that_floods_gets_more_room_and_a_chosen_size_stays() -> None:
    sizes = []
    for chosen in (0, 4096):
        reader, end = os.pipe()
        if chosen:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, chosen)
        writer = Writer()
        writer.write(end, b"few")
        writer.write(end, bytes(200_000))
        left = 200_003
        while left:
            left -= len(os.read(reader, 65536))
        writer.close(10)
        sizes.append(fcntl.fcntl(end, fcntl.F_GETPIPE_SZ))
        os.close(end)
        os.close(reader)
    assert sizes == [262_144, 4096]


def test_pieces_are_fetched_when_their_turn_comes_and_closed_in_any_case() -> None:
    fetched: list[int] = []
    closed = threading.Event()

    def pieces() -> Generator[bytes]:
        try:
            for number in range(100):
                fetched.append(number)
                yield bytes(65536)
        finally:
            closed.set()

    reader, end = os.pipe()
    writer = Writer()
    writer.write_all(end, pieces(), 0)
    writer.write(end, b"after")
    assert writer.drained() is None
    time.sleep(0.2)  # time in which all could be fetched
    assert len(fetched) < 20
    os.close(reader)
    assert closed.wait(10)
    writer.close(10)
    os.close(end)
    assert len(fetched) < 20


def test_pieces_that_cannot_be_fetched_are_a_failure_and_the_rest_is_written() -> None:
    def pieces() -> Generator[bytes]:
        yield b"one"
        raise OSError(errno.EIO, "Input/output error")

    reader, end = os.pipe()
    writer = Writer()
    writer.write_all(end, pieces(), 3)
    writer.write(end, b"two")
    writer.close(10)
    os.close(end)
    assert os.read(reader, 100) == b"onetwo"
    os.close(reader)
    assert writer.failure is not None


def test_what_comes_while_somebody_holds_the_terminal_waits() -> None:
    reader, end = os.pipe()
    writer = Writer()

    async def produce() -> list[bytes]:
        writer.write(end, b"before ")
        await writer.hold()
        seen = [os.read(reader, 100)]
        writer.write(end, b"x" * HIGH_WATER)
        writer.write(end, b"after")
        room = asyncio.ensure_future(asyncio.wait_for(_room(writer), 20))
        await asyncio.sleep(0.05)
        assert not room.done()
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        os.set_blocking(reader, True)
        writer.release(b"")
        seen.append(await asyncio.to_thread(_read, reader, HIGH_WATER + 5))
        await room
        return seen

    try:
        first, rest = asyncio.run(produce())
    finally:
        writer.close(1.0)
        os.close(reader)
        os.close(end)
    assert first == b"before "
    assert rest == b"x" * HIGH_WATER + b"after"


async def _room(writer: Writer) -> None:
    waiting = writer.drained()
    if waiting is not None:
        await waiting


def _read(number: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(number, size - len(data))
    return data
