"""Listening sockets on the host's loopback, and whether somebody else has some there."""

import errno
import socket

from vxwatch.process.netns import LOOPBACK

_BACKLOG = 1024
_NO_SUCH_ADDRESS = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


def listen(port: int) -> list[socket.socket]:
    """Listeners on 127.0.0.1 and ::1, on the first alone where there is no ::1.

    Raises `OSError`, and then holds none.
    """
    listeners: list[socket.socket] = []
    for family, host in LOOPBACK:
        try:
            listeners.append(socket.create_server((host, port), family=family, backlog=_BACKLOG))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno in _NO_SUCH_ADDRESS:
                continue
            for listener in listeners:
                listener.close()
            raise
    return listeners


def somebody_listens(port: int) -> bool:
    """Whether a client of this port of the host's loopback would be heard.

    Asked by binding the port, which fails on a listener alone: a connection would reach it.
    """
    for family, host in LOOPBACK:
        try:
            with socket.socket(family) as question:
                question.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                question.bind((host, port))
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                return True
    return False
