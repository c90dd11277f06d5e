"""Standard output from a thread: full pipes, readers that leave, full disks."""

import asyncio
import os
import threading

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
        blocked = asyncio.ensure_future(asyncio.wait_for(writer.drained(), 10))
        await asyncio.sleep(0)
        state = "blocked" if not blocked.done() else "free"
        await asyncio.to_thread(lambda: [os.read(reader, 65536) for _ in range(8)])
        await blocked
        return state

    try:
        assert asyncio.run(produce()) == "blocked"
        writer.close(0.01)
    finally:
        os.close(reader)
        writer.close(10)
        os.close(end)
