"""The system calls that a task can be denied something by: what they are after, and their numbers.

Facts of the kernel, the same for whoever tells of the calls: strace by name, the kernel itself by
number.
"""

from typing import Literal, NamedTuple

Wish = Literal["read", "write", "connect", ""]

NO_DIRECTORY = -1
"""A name without a directory of its own: a relative one is of the working directory."""


class Call(NamedTuple):
    """What a call is after, and where in its arguments the directories and the names are."""

    wish: Wish
    names: tuple[tuple[int, int], ...]


_NAME: tuple[tuple[int, int], ...] = ((NO_DIRECTORY, 0),)
_AT: tuple[tuple[int, int], ...] = ((0, 1),)

CALLS: dict[str, Call] = {
    **dict.fromkeys(("open", "execve", "stat", "lstat"), Call("read", _NAME)),
    **dict.fromkeys(("access", "readlink", "chdir"), Call("read", _NAME)),
    **dict.fromkeys(("openat", "openat2", "execveat"), Call("read", _AT)),
    **dict.fromkeys(("statx", "newfstatat"), Call("read", _AT)),
    **dict.fromkeys(("faccessat", "faccessat2", "readlinkat"), Call("read", _AT)),
    **dict.fromkeys(("creat", "mkdir", "mknod", "unlink"), Call("write", _NAME)),
    **dict.fromkeys(("rmdir", "truncate", "chmod", "chown"), Call("write", _NAME)),
    **dict.fromkeys(("lchown", "utime", "utimes"), Call("write", _NAME)),
    **dict.fromkeys(("mkdirat", "mknodat", "unlinkat"), Call("write", _AT)),
    **dict.fromkeys(("fchmodat", "fchmodat2", "fchownat"), Call("write", _AT)),
    **dict.fromkeys(("futimesat", "utimensat"), Call("write", _AT)),
    "rename": Call("write", ((NO_DIRECTORY, 0), (NO_DIRECTORY, 1))),
    **dict.fromkeys(("renameat", "renameat2"), Call("write", ((0, 1), (2, 3)))),
    "link": Call("write", ((NO_DIRECTORY, 1),)),
    "linkat": Call("write", ((2, 3),)),
    "symlink": Call("write", ((NO_DIRECTORY, 1),)),
    "symlinkat": Call("write", ((1, 2),)),
}

LOOKS = frozenset(
    {"stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"}
    | {"readlink", "readlinkat"}
)
"""The calls that look at a name without opening it: many, and each costs."""

OPENS = {"open": 1, "openat": 2, "openat2": 2}
"""Where the flags are that tell reading from writing; `openat2` has a pointer to them there."""

TURNS = frozenset({"fchdir", "clone", "clone3", "fork", "vfork"})
"""The calls that are denied nothing, after which a relative name may be that of another file: who hears
of them may remember working directories."""

EMPTY_PATHS = {"newfstatat": 3, "statx": 2}
"""Where the flags are that let a call look at an open file in place of a name."""


def _numbers(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


NUMBERS = {
    "x86_64": _numbers("""
        open 2 stat 4 lstat 6 access 21 connect 42 clone 56 fork 57 vfork 58 execve 59
        truncate 76 chdir 80 fchdir 81 rename 82 mkdir 83 rmdir 84 creat 85 link 86 unlink 87 symlink 88 readlink 89 chmod 90 chown 92
        lchown 94 utime 132 mknod 133 utimes 235 openat 257 mkdirat 258 mknodat 259 fchownat 260
        futimesat 261 newfstatat 262 unlinkat 263 renameat 264 linkat 265 symlinkat 266
        readlinkat 267 fchmodat 268 faccessat 269 utimensat 280 renameat2 316 execveat 322
        statx 332 clone3 435 openat2 437 faccessat2 439 fchmodat2 452
    """),
    "aarch64": _numbers("""
        mknodat 33 mkdirat 34 unlinkat 35 symlinkat 36 linkat 37 renameat 38 truncate 45
        faccessat 48 chdir 49 fchdir 50 fchmodat 53 fchownat 54 openat 56 readlinkat 78 newfstatat 79
        utimensat 88 connect 203 clone 220 execve 221 renameat2 276 execveat 281 statx 291
        clone3 435 openat2 437 faccessat2 439 fchmodat2 452
    """),
}
"""By machine, as `uname -m` names it. The kernel's `unistd.h` of each; they never change."""

FLAGS = {
    **OPENS,
    **EMPTY_PATHS,
    "utimensat": 3,
    "fchownat": 4,
    "fchmodat2": 3,
    "faccessat2": 3,
    "execveat": 4,
}
"""Where flags are that tell what a call means."""


Table = dict[int, tuple[str, Wish, tuple[tuple[int, int], ...], int]]
"""By number: a call, its wish, where its names are, and where its flags (-1: it has none)."""


def table(machine: str, *, looks: bool) -> Table:
    """The calls to hear of. `looks`: also those that only look at names.

    KeyError for a machine that is not known.
    """
    numbers = NUMBERS[machine]
    heard: Table = {
        numbers[name]: (name, call.wish, call.names, FLAGS.get(name, -1))
        for name, call in CALLS.items()
        if name in numbers and (looks or name not in LOOKS)
    }
    heard[numbers["connect"]] = ("connect", "connect", (), -1)
    heard |= {numbers[name]: (name, "", (), -1) for name in TURNS if name in numbers}
    return heard
