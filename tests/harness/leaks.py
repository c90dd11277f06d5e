"""No process, no port and no temp file outlives a test.

`LeakCheck` stands around one test. It blames only what descends from this test process and
was not there before, and only files in the temp directory that it made for the test, so tests
that run beside each other never blame one another. What it finds it removes, so that one
leaky test does not fail the next.
"""

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time

from tests.harness import processes
from tests.harness.ports import Ports, is_free
from tests.harness.waiting import patience

GRACE = 5.0
"""Seconds that processes get after a test to finish ending."""


class LeakCheck:
    """Snapshot before a test, comparison after it.

    Between `begin` and `end` the environment's TMPDIR is `directory`: short, because unix
    socket names are bounded, and open to all users, because tests may drop privileges.
    """

    def __init__(self, home: str, ports: Ports) -> None:
        self.directory = ""
        self._home = home
        self._ports = ports
        self._children: frozenset[int] = frozenset()
        self._sockets: frozenset[str] = frozenset()
        self._tmpdir: str | None = None

    def begin(self) -> None:
        """Remember what is there and give the test a temp directory."""
        self._ports.given.clear()
        self.directory = tempfile.mkdtemp(prefix="t", dir=self._home)
        os.chmod(self.directory, 0o1777)
        self._tmpdir = os.environ.get("TMPDIR")
        self._point_to(self.directory)
        self._children = processes.children_now()
        self._sockets = frozenset(_sockets())

    def end(self, grace: float | None = None) -> list[str]:
        """What the test left, one line each; processes get `grace` seconds, or `GRACE`."""
        try:
            left = self._processes(patience(GRACE if grace is None else grace))
            left += [f"listening socket {name}" for name in self._listeners()]
            left += [f"port {port}" for port in self._ports.given if not is_free(port)]
            return left + [f"temp file {path}" for path in _leftovers(self.directory)]
        finally:
            self._point_to(self._tmpdir)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _processes(self, grace: float) -> list[str]:
        end = time.monotonic() + grace
        while processes.children_now() - self._children:
            processes.reap(self._children)
            if time.monotonic() > end:
                rest = processes.descendants(self._children)
                ports = _held_ports([seen.pid for seen in rest])
                processes.kill_all(self._children)
                return [f"process {seen.line}{ports.get(seen.pid, '')}" for seen in rest]
            time.sleep(0.005)
        return []

    def _listeners(self) -> list[str]:
        names = []
        for link, fd in _sockets().items():
            if link in self._sockets:
                continue
            with socket.socket(fileno=os.dup(fd)) as ours:
                if ours.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    names.append(str(ours.getsockname()))
                    os.close(fd)
        return names

    @staticmethod
    def _point_to(directory: str | None) -> None:
        if directory is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = directory
        tempfile.tempdir = None


def _sockets() -> dict[str, int]:
    """Our own open sockets, by the kernel's name for them."""
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{entry}")
            if link.startswith("socket:"):
                found[link] = int(entry)
    return found


def _leftovers(directory: str) -> list[str]:
    """What vx put there (its names begin with vx), and every socket, wherever it lies."""
    left = [os.path.join(directory, name) for name in os.listdir(directory) if name[:2] == "vx"]
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode) and not path.startswith(tuple(left)):
                left.append(path)
    return left


def _held_ports(pids: list[int]) -> dict[int, str]:
    """The listening ports of these processes, as text for the report."""
    import psutil

    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            rows = psutil.Process(pid).net_connections("tcp")
            ports = sorted({row.laddr.port for row in rows if row.status == psutil.CONN_LISTEN})
            if ports:
                found[pid] = f"  holds port {', '.join(map(str, ports))}"
    return found
