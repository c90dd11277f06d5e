"""What a pipe takes is written by the caller, in order with what is not, and without a wait.

So is what goes to /dev/null, which takes everything.
"""

import os
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from vxwatch.output.writer import HIGH_WATER, Writer


def test_what_a_pipe_takes_is_there_when_the_call_returns() -> None:
    reader, end = os.pipe()
    os.set_blocking(reader, False)
    writer = Writer()
    for word in (b"one ", b"two "):
        writer.write(end, word)
        assert os.read(reader, 100) == word
    writer.close(5)
    os.close(end)
    os.close(reader)


def test_what_nobody_is_to_read_never_waits() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    writer = Writer()
    for _ in range(20):
        writer.write(null, b"x" * HIGH_WATER)
        assert writer.drained() is None
    writer.close(5)
    os.close(null)
    assert writer.failure is None


def test_a_full_pipe_holds_up_nobody_and_loses_nothing() -> None:
    reader, end = os.pipe()
    writer = Writer()
    for _ in range(10):
        writer.write(end, b"x" * 50_000)  # would wait for ever if it waited
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(reader, 7777), b"")))
    thread.start()
    writer.close(10)
    os.close(end)
    thread.join(10)
    os.close(reader)
    assert b"".join(read) == b"x" * 500_000


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 150_000), max_size=12))
def test_the_order_is_that_of_the_calls(sizes: list[int]) -> None:
    reader, end = os.pipe()
    pieces = [bytes((65 + i,)) * size for i, size in enumerate(sizes)]
    read: list[bytes] = []
    thread = threading.Thread(
        target=lambda: read.extend(iter(lambda: os.read(reader, 30_000), b""))
    )
    thread.start()
    writer = Writer()
    for piece in pieces:
        writer.write(end, piece)
    writer.close(10)
    os.close(end)
    thread.join(10)
    os.close(reader)
    assert b"".join(read) == b"".join(pieces)
