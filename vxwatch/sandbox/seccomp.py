"""The system call filter of every box, as bytes for `bwrap --seccomp`.

It closes the ways around the namespaces: sockets of families that reach the host (AF_UNIX through
a visible path, AF_VSOCK), io_uring (makes sockets and opens files past any filter), kernel keys,
and typing into a terminal. A call through a foreign entry point (32-bit, x32) ends its process,
because the numbers there mean other calls. It never restricts files: mounts do that.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _NOTIFY, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_NUMBER, _ARCH = 0, 4
"""Offsets in the kernel's `struct seccomp_data`; both machines below are little-endian."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32_BIT = 0x40000000
_AT_EMPTY_PATH = 0x1000


@dataclass(frozen=True, slots=True)
class _Machine:
    """The audit number of an architecture and its numbers of the calls that are looked at."""

    arch: int
    socket: int
    ioctl: int
    keys: tuple[int, ...]
    io_uring_setup: int = 425
    x32: bool = False


_MACHINES = {
    "x86_64": _Machine(0xC000003E, socket=41, ioctl=16, keys=(248, 249, 250), x32=True),
    "aarch64": _Machine(0xC00000B7, socket=198, ioctl=29, keys=(217, 218, 219)),
}


def supported(machine: str) -> bool:
    """Whether there is a filter for this machine, named as by `uname -m`."""
    return machine in _MACHINES


def filter_program(machine: str, *, unix: bool = False) -> bytes:
    """The classic BPF program for this machine; KeyError if there is none (see `supported`).

    `unix` lets unix sockets through.
    """
    numbers = _MACHINES[machine]
    program = [_load(_ARCH), *_unless(numbers.arch, _KILL), _load(_NUMBER)]
    if numbers.x32:
        program += [_instruction(_AT_LEAST, _X32_BIT, 0, 1), _give(_KILL)]
    program += _when(numbers.io_uring_setup, [_give(_ERRNO | _ENOSYS)])
    for key in numbers.keys:
        program += _when(key, [_give(_ERRNO | _EPERM)])
    program += _when(numbers.ioctl, _terminal())
    program += _when(numbers.socket, _families(unix=unix))
    return b"".join([*program, _give(_ALLOW)])


def notifying_program(machine: str, numbers: Mapping[int, int | None]) -> bytes:
    """A program that has the supervisor hear of these calls before they happen.

    A number leads to the argument whose flags may say that an open file is meant and no name,
    of which nobody needs to hear; None if it has no such flags. KeyError for a machine that is
    not `supported`.
    """
    program = [_load(_ARCH), *_unless(_MACHINES[machine].arch, _ALLOW), _load(_NUMBER)]
    for number, flags in numbers.items():
        program += _when(number, [_give(_NOTIFY)] if flags is None else _named(flags))
    return b"".join([*program, _give(_ALLOW)])


def _named(flags: int) -> list[bytes]:
    nameless = _instruction(_ANY_BIT, _AT_EMPTY_PATH, 0, 1)
    return [_load(_argument(flags)), nameless, _give(_ALLOW), _give(_NOTIFY)]


def _terminal() -> list[bytes]:
    typing = [
        instruction
        for request in (_TIOCSTI, _TIOCLINUX)
        for instruction in _when(request, [_give(_ERRNO | _EPERM)])
    ]
    return [_load(_argument(1)), *typing, _give(_ALLOW)]


def _families(*, unix: bool) -> list[bytes]:
    check = [_load(_argument(0))]
    for family in (_AF_INET, _AF_INET6, _AF_NETLINK, *((_AF_UNIX,) if unix else ())):
        check += _when(family, [_give(_ALLOW)])
    return [*check, *_when(_AF_UNIX, [_give(_ERRNO | _EPERM)]), _give(_ERRNO | _EAFNOSUPPORT)]


def _argument(index: int) -> int:
    """Where the low half of an argument is; the calls looked at ignore the high half."""
    return 16 + 8 * index


def _when(value: int, block: list[bytes]) -> list[bytes]:
    """Run the block, which must end in a return, if the loaded word is this value."""
    return [_instruction(_EQUAL, value, 0, len(block)), *block]


def _unless(value: int, result: int) -> list[bytes]:
    return [_instruction(_EQUAL, value, 1, 0), _give(result)]


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _give(result: int) -> bytes:
    return _instruction(_RETURN, result)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, operand)
