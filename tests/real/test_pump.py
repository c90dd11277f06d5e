"""Bytes carried between pairs of sockets: all of them, in order, and no longer than they must be."""

import contextlib
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.harness.waiting import wait_for
from vxwatch.process.pump import RESET_ON_CLOSE, Pump

Pair = tuple[socket.socket, socket.socket]


class Carried:
    """A pump that runs in a thread until the test is over, and the ends of its pairs."""

    def __init__(self) -> None:
        self.pump = Pump()
        self._wake = os.eventfd(0)
        self._stop = False
        self.pump.watch(self._wake, self._woken)
        self._todo: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _woken(self) -> None:
        os.eventfd_read(self._wake)

    def _run(self) -> None:
        while not self._stop:
            while self._todo:
                self._todo.pop(0)()
            self.pump.turn()

    def pair(self, early: bytes = b"") -> Pair:
        """Two ends that are joined by the pump."""
        (one, ours), (other, theirs) = tcp(), tcp()
        self._todo.append(lambda: self.pump.add(ours, theirs, early))
        os.eventfd_write(self._wake, 1)
        return one, other

    def close(self) -> None:
        self._stop = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        for end in self.pump._ends.values():
            end.socket.close()


def tcp() -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), 30)
        served, _ = listener.accept()
    return client, served


@pytest.fixture
def carried() -> Iterator[Carried]:
    made = Carried()
    yield made
    made.close()


def read_all(one: socket.socket) -> bytes:
    data = bytearray()
    while part := one.recv(1 << 16):
        data += part
    return bytes(data)


def send_all(one: socket.socket, data: bytes, *, close: bool = False) -> None:
    """Send this and end, in an orderly way or not."""
    one.sendall(data)
    if close:
        one.close()
    else:
        one.shutdown(socket.SHUT_WR)


def test_both_ways_and_each_end_by_itself(carried: Carried) -> None:
    one, other = carried.pair()
    with one, other:
        one.sendall(b"question")
        one.shutdown(socket.SHUT_WR)
        assert read_all(other) == b"question"
        other.sendall(b"answer")
        assert one.recv(6, socket.MSG_WAITALL) == b"answer"
        other.shutdown(socket.SHUT_WR)
        assert read_all(one) == b""
        wait_for(lambda: carried.pump.pairs == 0, "the pair is closed")


def test_what_came_before_comes_first(carried: Carried) -> None:
    one, other = carried.pair(b"early ")
    with one, other:
        one.sendall(b"late")
        one.shutdown(socket.SHUT_WR)
        assert read_all(other) == b"early late"


def test_a_flood_waits_for_who_reads_slowly_and_others_go_on(carried: Carried) -> None:
    flood = random.Random(1).randbytes(30_000_000)
    one, other = carried.pair()
    quick, quicker = carried.pair()
    with one, other, quick, quicker:
        sender = threading.Thread(target=send_all, args=(one, flood))
        sender.start()
        for _ in range(50):
            quick.sendall(b"ping")
            assert quicker.recv(4, socket.MSG_WAITALL) == b"ping"
        assert sender.is_alive()  # nothing but buffers has taken it
        assert read_all(other) == flood
        sender.join()


def test_both_directions_are_full_at_once(carried: Carried) -> None:
    one, other = carried.pair()
    with one, other:
        ends = (one, other)
        flood = b"x" * 9_000_000
        senders = [threading.Thread(target=send_all, args=(end, flood)) for end in ends]
        for sender in senders:
            sender.start()
        assert [len(read_all(end)) for end in ends] == [9_000_000] * 2
        for sender in senders:
            sender.join()


def test_a_reset_reaches_the_other_end(carried: Carried) -> None:
    one, other = carried.pair()
    with other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        one.close()
        with pytest.raises(ConnectionResetError):
            other.recv(1)
    wait_for(lambda: carried.pump.pairs == 0, "the pair is closed")


def test_what_was_sent_before_a_reset_arrives(carried: Carried) -> None:
    answer = b"y" * 5_000_000
    for _ in range(5):
        one, other = carried.pair()
        with one:
            one.sendall(b"a request that nobody reads")
            other.recv(1)
            sender = threading.Thread(target=send_all, args=(other, answer), kwargs={"close": True})
            sender.start()
            got = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while part := one.recv(1 << 16):
                    got += part
            sender.join()
        # The kernel itself may drop the tail of who closes with something unread; never the pump.
        assert answer.startswith(got)
        assert got
    wait_for(lambda: carried.pump.pairs == 0, "the pairs are closed")


def test_an_end_that_takes_nothing_more_can_still_speak(carried: Carried) -> None:
    one, other = carried.pair()
    with one, other:
        other.shutdown(socket.SHUT_RD)
        one.sendall(b"into the void")
        other.sendall(b"heard")
        other.shutdown(socket.SHUT_WR)
        assert read_all(one) == b"heard"
