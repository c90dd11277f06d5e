"""Packets with descriptors, as they travel between vx, the nursery and its helpers.

It imports little, because the nursery's start waits for it.
"""

import array
import socket

MOST_DESCRIPTORS = 253
"""The kernel's limit for one packet (SCM_MAX_FD)."""

_SIZE = 65536


def receive(pair: socket.socket) -> tuple[bytes, list[int], bool]:
    """One packet, the descriptors that came along, and whether some of those did not fit.

    The descriptors end with exec; `socket.recv_fds` cannot promise that, since it drops the
    flag that asks for it. They are the caller's to close. An empty packet is the end.
    """
    numbers = array.array("i")
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * numbers.itemsize)
    packet, messages, flags, _ = pair.recvmsg(_SIZE, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in messages:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return packet, list(numbers), bool(flags & socket.MSG_CTRUNC)
