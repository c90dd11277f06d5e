"""A leader and its supervisor, started before they are needed while boxes follow each other.

A fork of the nursery takes some milliseconds until all of its memory that it touches is its own, and
a box with a supervisor needs two. So the next ones wait, rehearsed, and the leader behind the filter
of its calls already. Of the nursery's descriptors they have none.
"""

import contextlib
import marshal
import os
import signal
import socket
from collections.abc import Callable, Sequence

from vxwatch.process import notify
from vxwatch.process.birth import be_leader, keep_only, lifted, reported
from vxwatch.process.packets import receive
from vxwatch.process.supervisor import JOB, LISTENER, supervise


class Pairs:
    """The pairs of a nursery: those at work, and one that waits. `adopt` is told of each child."""

    def __init__(self, adopt: Callable[[int], None]) -> None:
        self._adopt = adopt
        self._busy: dict[int, Pair] = {}  # by the pid of the supervisor
        self._spare: Pair | None = None
        self._begun = 0

    def start(self, program: bytes, given: Sequence[int], places: Sequence[int]) -> int:
        """Start a leader whose supervisor uses this filter; its pid.

        `given` begins with the body and ends with the log, `places` are for `start_leader`. Raises
        `StartError`, or `OSError`.
        """
        self.reserve(program)
        assert self._spare is not None
        pair, self._spare = self._spare, None
        self._busy[pair.supervisor] = pair
        self._begun += 1
        pair.start(given[0], places, given[-1])
        return pair.leader

    def reserve(self, program: bytes) -> None:
        """Have a pair that waits, of this filter. Raises `OSError`."""
        if self._spare is not None and self._spare.program != program:
            self.dismiss()
        self._spare = self._spare or self._make(program)

    @property
    def has_spare(self) -> bool:
        """Whether a pair waits."""
        return self._spare is not None

    def dismiss(self) -> None:
        """Let the pair that waits end."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def ended(self, pid: int, status: int) -> int | None:
        """A child has ended; the leader that goes on without a supervisor because of that."""
        if self._spare and pid in (self._spare.leader, self._spare.supervisor):
            self.dismiss()
        for one in self._busy.values():
            if one.leader == pid:
                one.leader = 0  # the number may be another child's soon
        pair = self._busy.pop(pid, None)
        if pair is None:
            return None
        if status:
            return pair.leader or None
        # Now, when the box that it would have held up has ended. The first one is a trial.
        if self._spare is None and self._begun > 1:
            with contextlib.suppress(OSError):
                self._spare = self._make(pair.program)
        return None

    def _make(self, program: bytes) -> "Pair":
        pair = Pair(program)
        self._adopt(pair.leader)
        self._adopt(pair.supervisor)
        return pair


class Pair:
    """Two children of this process, `leader` and `supervisor`, by pid.

    `program` is the filter: they fit a box that needs this one. Both end when they are closed
    unused. Raises `OSError`.
    """

    def __init__(self, program: bytes) -> None:
        self.program = program
        kind = socket.AF_UNIX, socket.SOCK_SEQPACKET
        self._told, hears = socket.socketpair(*kind)
        self._led, waits = socket.socketpair(*kind)
        told, led = self._told, self._led
        with hears, waits:
            try:
                self.supervisor = _fork(lambda: supervise(hears), hears)
                self.leader = _fork(lambda: _wait(waits, told, program), waits, told)
            except OSError:
                told.close()
                led.close()
                raise

    def start(self, body: int, places: Sequence[int], log: int) -> None:
        """Have the leader start what the body says, supervised; `places` as for `start_leader`.

        Once. Raises `StartError`, or `OSError` where one of the two is gone.
        """
        read, write = os.pipe()
        with open(read, "rb", buffering=0) as report, self._told, self._led:
            try:
                socket.send_fds(self._told, [JOB], [body, log])
                socket.send_fds(self._led, [JOB], [body, write, *places])
            finally:
                os.close(write)
            reported(report)

    def close(self) -> None:
        """Nobody needs them."""
        self._told.close()
        self._led.close()


def _fork(work: Callable[[], None], *kept: socket.socket) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)  # what signals us is not to wake the nursery
            keep_only((0, 1, 2, *(one.fileno() for one in kept)))
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def _wait(waits: socket.socket, told: socket.socket, program: bytes) -> None:
    """Be the leader of what comes, if it comes."""
    _rehearse()
    with (
        contextlib.suppress(OSError),
        told,
    ):  # it runs all the same, and no record says that it began
        listener = notify.install(program, os.uname().machine)
        try:
            socket.send_fds(told, [LISTENER], [listener])
        finally:
            os.close(listener)  # if it was not sent, each call that is heard of fails
    # From here on what is heard of waits until the supervisor has the box, too.
    _, given, _ = receive(waits)
    if given:
        body_file, report, *places = given
        body = marshal.loads(os.pread(body_file, os.fstat(body_file).st_size, 0))  # noqa: S302  # from vx
        with lifted(places, (0, *body["targets"])) as moved:
            be_leader(body, moved, report)


def _rehearse() -> None:
    """Do once what is to go fast."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(ours, [JOB], [0, 1, 2])
        _, given, _ = receive(theirs)
        marshal.loads(marshal.dumps({"targets": (3, 4)}))  # noqa: S302  # our own
        with lifted(given, range(len(given))):
            pass
        for number in given:
            os.close(number)
