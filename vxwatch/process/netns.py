"""Work inside the network of a box, done by a forked child of the nursery.

The helper stands outside every other wall of the box: it keeps its own files and pids and only
enters the network namespace, so nothing of ours can be seen or touched from inside. It ends as
soon as the box has ended or nobody waits for it any more, which it learns from the poll object
that it is given, and it never outlives the nursery, whose child it is.
"""

import contextlib
import ctypes
import errno
import fcntl
import select
import socket
import struct

LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_NS_GET_USERNS = 0xB701
_SIOCGIFFLAGS, _IFF_UP = 0x8913, 1


def enter(network: int) -> None:
    """Enter this network namespace, given as a descriptor.

    A normal user has the right to do so only inside the user namespace that owns it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _CLONE_NEWNET) == 0:
        return
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    if libc.setns(owner, _CLONE_NEWUSER) or libc.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def dial(port: int, ends: select.poll) -> socket.socket:
    """A connection to the port on 127.0.0.1 or ::1, tried until there is one."""
    pause = 4.0  # milliseconds
    while True:
        for family, host in LOOPBACK:
            with contextlib.suppress(OSError):
                return _connect(family, host, port)
        _pause(pause, ends)
        pause = min(pause * 1.25, 40.0)


def listen(port: int, ends: select.poll) -> list[socket.socket]:
    """Listeners on both loopback addresses; on 127.0.0.1 alone where there is no ::1."""
    while not _loopback_is_up():  # bwrap names its init before it has set the loopback up
        _pause(2.0, ends)
    listeners = []
    for family, host in LOOPBACK:
        try:
            listeners.append(socket.create_server((host, port), family=family, backlog=1024))
        except OSError as error:
            absent = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
            if not (absent and family == socket.AF_INET6):
                raise
    return listeners


def _connect(family: int, host: str, port: int) -> socket.socket:
    connection = socket.socket(family)
    try:
        connection.settimeout(1.0)
        connection.connect((host, port))
        # Dialling an ephemeral port on which nobody listens can connect a socket to itself.
        if connection.getsockname() == connection.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to itself")
    except OSError:
        connection.close()
        raise
    return connection


def _pause(milliseconds: float, ends: select.poll) -> None:
    if ends.poll(milliseconds):
        raise ConnectionAbortedError(errno.ECONNABORTED, "the box or who waited for it is gone")


def _loopback_is_up() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16s24x", b"lo"))
    flags: int = struct.unpack_from("16xH", answer)[0]
    return bool(flags & _IFF_UP)
