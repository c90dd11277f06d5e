"""Host ports for tests that run beside each other, in this test run and in others.

Each test process owns one block of ports below the range the kernel hands out by itself. The
claim is an abstract unix socket: exclusive on the machine, and gone with the process.
"""

import errno
import random
import socket

_FIRST, _LAST, _BLOCK = 20_000, 32_000, 100


class Ports:
    """Hands out ports that are free on 127.0.0.1 and ::1, each one once per round.

    `given` lists what was handed out; whoever checks that they are free again clears it.
    """

    def __init__(self) -> None:
        self._claim, first = _claim_block()
        self._block = range(first, first + _BLOCK)
        self._next = 0
        self.given: list[int] = []

    def take(self) -> int:
        """A port on which nothing listens now and which no other test is given."""
        for _ in self._block:
            port = self._block[self._next % _BLOCK]
            self._next += 1
            if is_free(port):
                self.given.append(port)
                return port
        raise AssertionError(f"no free port in {self._block}")

    def close(self) -> None:
        """Give the block back."""
        self._claim.close()


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of both loopback addresses."""
    return _can_listen(socket.AF_INET, "127.0.0.1", port) and (
        not has_ipv6() or _can_listen(socket.AF_INET6, "::1", port)
    )


def is_open(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something accepts connections there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(1.0)
        return client.connect_ex((host, port)) == 0


def has_ipv6() -> bool:
    """Whether this host has ::1."""
    return _can_listen(socket.AF_INET6, "::1", 0)


def _can_listen(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, port))
            server.listen(1)
    except OSError as error:
        if error.errno in {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            return False
        raise
    return True


def _claim_block() -> tuple[socket.socket, int]:
    blocks = list(range(_FIRST, _LAST, _BLOCK))
    random.SystemRandom().shuffle(blocks)
    for first in blocks:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0vx-test-ports-{first}")
        except OSError:
            claim.close()
        else:
            return claim, first
    raise AssertionError("every block of test ports is taken")
