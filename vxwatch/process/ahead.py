"""Starts the nursery's process, also before there is an event loop that could serve it.

It takes as long to come up as an event loop does to load. Whoever knows that tasks will run has it
come up meanwhile; the nursery that is opened then takes it over. Should that never be, it is ended
with the block, or ends by itself when vx does, because the pair ends then.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from vxwatch.process import kin

_START = "import sys; sys.path.append(sys.argv[2]); from vxwatch.process.nursery_main import main; main(int(sys.argv[1]))"


class Begun:
    """The process and our end of its pair; `before` are the children that vx had before it.

    `close` ends it, unless somebody has taken it over.
    """

    def __init__(self, *, own_session: bool) -> None:
        """Without a session of its own it leaves our group only. Raises OSError."""
        kin.become_subreaper()
        self.before = frozenset(kin.children_of(os.getpid()))
        self.pair, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._taken = False
        with theirs:
            try:
                self.process = _start(theirs.fileno(), own_session=own_session)
            except BaseException:
                self.pair.close()
                raise

    def take(self) -> None:
        """Whoever calls this ends it."""
        self._taken = True

    def close(self) -> None:
        """End it: it has started nothing."""
        if not self._taken:
            self.pair.close()
            self.process.kill()
            self.process.wait()


_ahead: list[Begun] = []


@contextmanager
def started() -> Iterator[None]:
    """Inside the block the nursery that is opened next finds its process started."""
    begun = None
    with suppress(OSError):  # whoever starts it then meets this again, and tells it
        begun = Begun(own_session=True)
    if begun is None:
        yield
        return
    with closing(begun):
        _ahead.append(begun)
        try:
            yield
        finally:
            _ahead.clear()


def begin(*, own_session: bool) -> Begun:
    """The process that was started ahead, if it is of this kind, or a new one. Raises OSError."""
    begun = _ahead.pop() if _ahead and own_session else Begun(own_session=own_session)
    begun.take()
    return begun


def _start(link: int, *, own_session: bool) -> "subprocess.Popen[bytes]":
    # Isolated, so that nothing on a path of the user's is imported; without VX_TREE, so
    # that the vx of an outer task may end this one and leave the sweep to its nursery.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, str(link), _home()],
        pass_fds=(link,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != kin.MARK},
        cwd="/",
        start_new_session=own_session,
        process_group=None if own_session else 0,
    )


def _home() -> str:
    """The directory that holds this package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
