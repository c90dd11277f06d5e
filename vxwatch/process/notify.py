"""Hears of system calls from the kernel before they happen, and lets them go on.

A filter stops the calls that it lists until who holds its descriptor, outside of what it filters,
has answered (seccomp_unotify(2), Linux 5.5). It takes two switches of context a call, where ptrace
takes four, and on one core where the kernel can wake the other side there; and what is filtered may
still be traced. Nothing here answers anything but "go on": what is denied is denied by mounts. It
imports little, because forks of the nursery run it.
"""

import ctypes
import errno
import fcntl
import os
import select
import struct
from collections.abc import Iterator

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_PR_SET_NO_NEW_PRIVS = 38
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_SYNC_WAKE_UP, _CONTINUE = 1, 1
_NOTICE = struct.Struct("<QI4xi12x6Q")  # struct seccomp_notif: id, pid, number and arguments
_BLANK = bytes(_NOTICE.size)
_NUMBER = 8  # bytes at the beginning of a notice, and of its answer
_GO_ON = struct.pack("<qiI", 0, 0, _CONTINUE)
_PAGE, _LONGEST = 4096, 4096

Notice = tuple[int, int, list[int]]
"""Who calls, as a thread id that is valid here, the number of the call, and its arguments."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


_libc = ctypes.CDLL(None, use_errno=True)


def install(program: bytes, machine: str) -> int:
    """Put this process and what it starts behind a filter; the descriptor of its notifications.

    From then on it gains no rights by executing a file. Raises `OSError`: the kernel is too old,
    or somebody hears already of the calls of a filter around this one.
    """
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    content = ctypes.create_string_buffer(program, len(program))
    whole = _Program(len(program) // 8, ctypes.addressof(content))
    # With the second flag, since Linux 5.19, no signal takes back a call that is being judged.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        number = _SECCOMP[machine]
        listener: int = _libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(whole))
        if listener >= 0:
            return listener
        if ctypes.get_errno() != errno.EINVAL:
            break
    raise OSError(ctypes.get_errno(), "seccomp")


def heard(listener: int) -> Iterator[Notice]:
    """The calls, each let go when the next one is asked for, until nobody is left who could call."""
    try:  # since Linux 6.6
        fcntl.ioctl(listener, _SET_FLAGS, _SYNC_WAKE_UP)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTTY):
            raise
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    tell, unpack = fcntl.ioctl, _NOTICE.unpack  # this is all that a task waits for
    polls = always = forgets(os.uname().release)
    while not polls or ready.poll()[0][1] & select.POLLIN:
        polls = always
        try:
            notice = tell(listener, _RECEIVE, _BLANK)
            _, pid, number, *arguments = unpack(notice)
            yield pid, number, arguments
            tell(listener, _SEND, notice[:_NUMBER] + _GO_ON)
        except (FileNotFoundError, InterruptedError):
            polls = True  # who called was killed, or nobody is left


def forgets(release: str) -> bool:
    """Whether this kernel lets who waits for a call wait on when nobody is left: before 6.11."""
    major, minor = (part if part.isdecimal() else "0" for part in (release + "..").split(".")[:2])
    return (int(major), int(minor)) < (6, 11)


class Memory:
    """Reads what the calls of other processes point to. Raises `OSError`."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_PAGE + 1)
        ours, self._theirs = _Vector(ctypes.addressof(self._buffer), _PAGE), _Vector(0, 0)
        self._vectors = ctypes.byref(ours), 1, ctypes.byref(self._theirs), 1, 0

    def text(self, pid: int, address: int) -> bytes:
        """The bytes up to a NUL; none if they are more than a path can have."""
        found = b""
        while len(found) < _LONGEST:
            part = self._fetch(pid, address, _PAGE - address % _PAGE)
            self._buffer[part] = b"\0"
            text: bytes = self._buffer.value
            if len(text) < part:
                return found + text if found else text
            found += text
            address += part
        return b""

    def read(self, pid: int, address: int, length: int) -> bytes:
        """Up to that many bytes, at most a page."""
        got = self._fetch(pid, address, length)
        return self._buffer.raw[:got]

    def _fetch(self, pid: int, address: int, length: int) -> int:
        self._theirs.base, self._theirs.length = address, length
        got: int = _libc.process_vm_readv(pid, *self._vectors)
        if got <= 0:
            raise OSError(ctypes.get_errno() or errno.EFAULT, "process_vm_readv")
        return got
