"""From the mounts of a box to what bubblewrap is told.

Only the words; `runtime` opens what is bound and starts it. The mounts and the directory travel
as bytes in a descriptor (`--args`), so that neither shows in a process list or meets its limits.
Everything is bound by an open descriptor: a path that is swapped for a link after it was looked at
still binds what was looked at, and bubblewrap closes each one before the command starts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vxwatch.sandbox.policy import Mount

INFO_FD, STATUS_FD = 3, 4
"""Where the nursery puts the pipes that tell the init's pid and the command's exit."""
ARGS_FD, FILTER_FD, BLOCK_FD, LOG_FD, FIRST_BIND_FD = 5, 6, 7, 8, 9
"""`LOG_FD` stays open in the first process of the box alone, for a tracer to write to."""

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
_PROC_COVERS = ("sysrq-trigger", "irq", "bus", "fs")


@dataclass(frozen=True, slots=True)
class Programs:
    """Absolute paths of what a box is started with; the task's own PATH never decides these."""

    bwrap: str
    sh: str


def command_line(
    programs: Programs,
    command: str,
    *,
    blocked: bool,
    tracer: tuple[str, ...] = (),
    on_terminal: bool = False,
) -> tuple[str, ...]:
    """The argv that starts the box. `blocked`: the command waits for a byte on `BLOCK_FD`.

    `tracer` are the words of a tracer that starts the command and writes to `LOG_FD`.
    `on_terminal`: it stays in the session of the terminal, into which the filter lets nobody type;
    bwrap is deaf to the signals of the keys then, and the command is not.
    """
    log = ("--sync-fd", str(LOG_FD)) if tracer else ()
    block = ("--block-fd", str(BLOCK_FD)) if blocked else ()
    session = () if on_terminal else ("--new-session",)
    hearing = ("/usr/bin/env", "--default-signal=INT,QUIT,TERM,HUP") if on_terminal else ()
    return (
        *(programs.bwrap, "--die-with-parent", *session, *_NAMESPACES, "--cap-drop", "ALL"),
        *("--args", str(ARGS_FD), "--seccomp", str(FILTER_FD), *block, *log),
        *("--info-fd", str(INFO_FD), "--json-status-fd", str(STATUS_FD)),
        *("--", *hearing, *tracer, programs.sh, "-c", command),
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What else differs between boxes.

    `directory` is where the command starts, `room` how many bytes each scratch may hold.
    `root_user`: the box runs as uid 0, for whom the kernel's settings in /proc would be writable.
    `own_proc`: /proc shows the processes of the box alone.
    """

    directory: str
    room: int
    root_user: bool
    own_proc: bool = True


def arguments(mounts: Iterable[Mount], descriptors: Mapping[str, int], shape: Shape) -> bytes:
    """What `--args` reads.

    `descriptors` holds the number in the child for each bound path, and for each blank one that
    is read for its content, which is none.
    """
    mounts = tuple(mounts)
    room = str(shape.room)
    words = ["--ro-bind", "/", "/", "--dev", "/dev"]
    # The task owns what is made here, and could fill it, or make room for itself by a chmod.
    words += ["--perms", "1777", "--size", room, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108 - the box's own
    if shape.own_proc:
        words += ["--proc", "/proc"]
    if shape.root_user and shape.own_proc:
        words += ["--ro-bind", "/proc/sys", "/proc/sys"]
        for name in _PROC_COVERS:
            words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for mount in mounts:
        words += _words(mount, descriptors, room)
    for mount in reversed(mounts):
        if mount.kind == "mask":
            words += ["--remount-ro", mount.path]
    words += ["--chdir", shape.directory]
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def _words(mount: Mount, descriptors: Mapping[str, int], room: str) -> Iterator[str]:
    match mount.kind:
        case "read":
            yield from ("--ro-bind-fd", str(descriptors[mount.path]), mount.path)
        case "write" | "desk":
            yield from ("--bind-fd", str(descriptors[mount.path]), mount.path)
        case "blank":
            content = str(descriptors[mount.path])
            yield from ("--perms", "0444", "--ro-bind-data", content, mount.path)
        case "mask":
            yield from ("--perms", "0755" if mount.filled else "0555", "--tmpfs", mount.path)
        case "scratch":
            yield from ("--perms", "1777", "--size", room, "--tmpfs", mount.path)
        case "folder":
            yield from ("--perms", "0755", "--dir", mount.path)
        case "link":
            yield from ("--symlink", mount.target, mount.path)
        case "saved":
            return
