"""Lets a box save the files that it is granted one by one, and leave nothing beside them.

Many tools save a file by writing another one and renaming that over it, for which they need its
directory. In place of that directory the box gets a desk: one of vx's own, on which the granted
files lie as hard links, so that what is written into them is written. A file that was put in the
place of one is put into its place on the host as well, as soon as it is seen. All else on the desk
goes with it, also when vx is killed: the nursery knows it. Nothing on the host is changed but
these files.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vxwatch.process.leftovers import remove
from vxwatch.sandbox.opening import Placeholders, open_real
from vxwatch.sandbox.policy import Mount

if TYPE_CHECKING:
    from vxwatch.process.nursery import Nursery

_HOME = ".vx"
_FILES = "files"
_SPARE = "spare"
_EVENTS = 0x2 | 0x8 | 0x80 | 0x100
"""<sys/inotify.h>: MODIFY, CLOSE_WRITE, MOVED_TO, CREATE."""
_BREATH = 0.02
"""Seconds in which more changes gather after one was heard of."""
_LOOK_AGAIN = 0.5
"""Seconds between looks at a desk of which the kernel does not tell us."""

_Identity = tuple[int, int]
_Seen = tuple[_Identity, int, int]
"""A file: which one it is, its size, and when it was written."""


class Desk:
    """One desk. `path` is what to show in place of `directory`, a real path.

    It is kept in step with the host from `begin` on until `settle`, which needs the box to be gone.
    `barred`: who works at it may not put anything into that directory, though we could.
    """

    def __init__(self, directory: str, names: Iterable[str], host: int, holder: str) -> None:
        self.directory = directory
        self.path = f"{holder}/{_FILES}"
        self._host = host
        self._holder = os.open(holder, os.O_PATH | os.O_CLOEXEC)
        self._desk = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
        self._shared: dict[str, _Seen | None] = dict.fromkeys(names)
        self.barred = False
        self._failure: OSError | None = None
        self._events = -1
        self._again: asyncio.TimerHandle | None = None
        self._settled = False

    def lay(self) -> None:
        """Put the host's files on it. Raises `OSError`."""
        for name in self._shared:
            with contextlib.suppress(FileNotFoundError):
                _link(name, self._host, name, self._desk)
                self._shared[name] = _seen(name, self._desk)

    def begin(self) -> None:
        """Follow what becomes of the files."""
        loop = asyncio.get_running_loop()
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._events >= 0:
            if libc.inotify_add_watch(self._events, os.fsencode(self.path), _EVENTS) >= 0:
                loop.add_reader(self._events, self._heard)
                return
            os.close(self._events)
            self._events = -1
        self._again = loop.call_later(_LOOK_AGAIN, self._follow)

    def _heard(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._events)
        self._again = loop.call_later(_BREATH, self._follow)

    def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        if self._events < 0:
            self._again = loop.call_later(_LOOK_AGAIN, self._follow)
        else:
            with contextlib.suppress(BlockingIOError):
                os.read(self._events, 1 << 16)
            loop.add_reader(self._events, self._heard)
        self._save_all()

    def _save_all(self) -> None:
        for name in self._shared:
            try:
                self._save(name)
            except OSError as error:
                self._failure = error

    def _save(self, name: str) -> None:
        """Let the host have what lies on the desk under this name, if that was changed here."""
        now, before = _seen(name, self._desk), self._shared[name]
        if now is None or now == before:
            return
        theirs = _seen(name, self._host)
        if theirs is not None and theirs[0] == now[0]:
            self._shared[name] = now
            _tell(name, self._host)
            return
        self._check_bar()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_SPARE, dir_fd=self._holder)
        _link(name, self._desk, _SPARE, self._holder)
        saved = _seen(_SPARE, self._holder)
        if saved is not None:
            os.rename(_SPARE, name, src_dir_fd=self._holder, dst_dir_fd=self._host)
            self._shared[name] = saved

    def settle(self) -> None:
        """Save what is still to be saved, and remove what the box removed. Raises `OSError`."""
        if self._settled:
            return
        self._settled = True
        self._stop()
        self._failure = None  # of an attempt that is made again now
        self._save_all()
        for name, before in self._shared.items():
            theirs = _seen(name, self._host)
            gone = not os.path.lexists(f"{self.path}/{name}")
            if gone and before is not None and theirs is not None and theirs[0] == before[0]:
                self._check_bar()
                os.unlink(name, dir_fd=self._host)
        if self._failure is not None:
            raise self._failure

    def _check_bar(self) -> None:
        if self.barred:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def replaced(self) -> str | None:
        """A file for which the host has another one by now that was not saved here."""
        for name, before in self._shared.items():
            theirs = _seen(name, self._host)
            known = None if before is None else before[0]
            if theirs is not None and theirs[0] not in {known, _identity(name, self._desk)}:
                return f"{self.directory}/{name}"
        return None

    def strays(self, mounts: Mapping[str, Mount]) -> Iterator[tuple[str, bool]]:
        """What else lies on it, by the name it has in a box with these mounts; is it a directory."""
        yield from self._strays(self.path, self.directory, mounts)

    def _strays(
        self, place: str, shown: str, mounts: Mapping[str, Mount]
    ) -> Iterator[tuple[str, bool]]:
        with os.scandir(place) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = f"{shown}/{entry.name}"
            mount, directory = mounts.get(path), entry.is_dir(follow_symlinks=False)
            kind = mount.kind if mount else None
            if kind == "folder" and directory:
                yield from self._strays(entry.path, path, mounts)
            elif kind == "saved":
                if not entry.is_file(follow_symlinks=False):
                    yield path, directory
            elif kind in {None, "folder"} or (mount and not _as_made(entry, mount)):
                yield path, directory

    def _stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
        if self._events >= 0:
            asyncio.get_running_loop().remove_reader(self._events)
            os.close(self._events)
            self._events = -1

    def close(self) -> None:
        """Save what can be saved, and let go of it."""
        with contextlib.suppress(OSError):
            self.settle()
        for descriptor in (self._host, self._desk, self._holder):
            os.close(descriptor)


def _as_made(entry: "os.DirEntry[str]", mount: Mount) -> bool:
    """Whether what stands for a mount on the desk was left there; only a link can be replaced."""
    if mount.kind != "link":
        return True
    return entry.is_symlink() and os.readlink(entry.path) == mount.target


def _seen(name: str, directory: int) -> _Seen | None:
    """What is under this name; None for nothing, and for what is no file."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns


def _identity(name: str, directory: int) -> _Identity | None:
    seen = _seen(name, directory)
    return None if seen is None else seen[0]


def _link(name: str, directory: int, new: str, to: int) -> None:
    os.link(name, new, src_dir_fd=directory, dst_dir_fd=to, follow_symlinks=False)


def _tell(name: str, directory: int) -> None:
    """Let those who listen to a directory know that a file in it was written.

    It was written under its other name, of which only listeners there have heard.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        os.close(os.open(name, flags, dir_fd=directory))


async def make_desk(
    directory: str,
    names: Iterable[str],
    keep: "Keep",
    stack: contextlib.AsyncExitStack,
) -> Desk:
    """A desk in place of this directory, for files of these names; the stack takes it back.

    It lies where the kernel can move files from it to the directory: in the `.vx` of the
    workspace, or else in one beside the files. Raises `OSError`.
    """
    with contextlib.ExitStack() as opened:
        host = open_real(directory)
        opened.callback(os.close, host)
        holder = await _holder(host, (keep.root, directory), keep, stack)
        files = f"{holder}/{_FILES}"
        os.mkdir(files, 0o755)
        if keep.owner is not None:
            os.chown(files, *keep.owner)
        made = Desk(directory, names, host, holder)
        made.barred = keep.owner is not None and not _may_write(host, *keep.owner)
        opened.pop_all()
    stack.callback(made.close)
    made.lay()
    made.begin()
    return made


@dataclass(frozen=True, slots=True)
class Keep:
    """Where desks are kept: the workspace's root, and who takes care that nothing outlives it.

    `owner` is the uid and gid of who works at them, None for ours.
    """

    root: str
    placeholders: Placeholders
    nursery: "Nursery"
    owner: tuple[int, int] | None


async def _holder(
    host: int, places: Iterable[str], keep: Keep, stack: contextlib.AsyncExitStack
) -> str:
    """Make a directory of ours in the first of the places on the mount that `host` is on."""
    wanted = _mount(host)
    failure = OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    for place in places:
        home = f"{place}/{_HOME}"
        try:
            held = await keep.placeholders.hold(home, "directory")
            stack.push_async_callback(keep.placeholders.release, held)
            if wanted != _mount_of(home):
                continue
        except OSError as error:  # a directory that is not ours, or a link
            failure = error
            continue
        holder = f"{home}/desk-{secrets.token_hex(4)}"
        await keep.nursery.announce(holder)
        stack.push_async_callback(keep.nursery.forget, holder)
        os.mkdir(holder, 0o700 if keep.owner is None else 0o711)  # bwrap looks up what it binds
        await keep.nursery.register(holder)
        stack.push_async_callback(asyncio.to_thread, remove, holder, None)
        return holder
    raise failure


def _may_write(directory: int, user: int, group: int) -> bool:
    """Whether these may make and remove names in an open directory, going by its mode."""
    status = os.fstat(directory)
    shift = 6 if status.st_uid == user else 3 if status.st_gid == group else 0
    needed = os.W_OK | os.X_OK
    return (status.st_mode >> shift) & needed == needed


def _mount_of(path: str) -> str:
    descriptor = open_real(path)
    try:
        return _mount(descriptor)
    finally:
        os.close(descriptor)


def _mount(descriptor: int) -> str:
    """The mount that an open file is on: no file can be linked or moved to another one."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as lines:
        return next(line for line in lines if line.startswith("mnt_id:"))
