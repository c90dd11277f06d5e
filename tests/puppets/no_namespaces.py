"""Runs a program behind a system call filter that refuses namespaces, as containers do."""

import ctypes
import os
import struct
import sys

UNSHARE, CLONE = {"x86_64": (272, 56), "aarch64": (97, 220)}[os.uname().machine]
CLONE3 = 435
LOAD, EQUAL, ANY_BIT, GIVE = 0x20, 0x15, 0x45, 0x06
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
NEW_USER = 0x10000000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


def instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, operand)


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("start", ctypes.c_void_p))


program = b"".join(
    [
        instruction(LOAD, 0),
        instruction(EQUAL, UNSHARE, 0, 1),
        instruction(GIVE, EPERM),
        instruction(EQUAL, CLONE3, 0, 1),
        instruction(GIVE, ENOSYS),
        instruction(EQUAL, CLONE, 0, 3),
        instruction(LOAD, 16),
        instruction(ANY_BIT, NEW_USER, 0, 1),
        instruction(GIVE, EPERM),
        instruction(GIVE, ALLOW),
    ]
)
buffer = ctypes.create_string_buffer(program, len(program))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
given = Program(len(program) // 8, ctypes.addressof(buffer))
if libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(given)):
    raise OSError(ctypes.get_errno(), "no filter")
os.execvp(sys.argv[1], sys.argv[1:])
