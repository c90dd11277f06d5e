"""The kernel's inotify, by the C library: one instance, one descriptor on the event loop.

Watches are added and removed one by one, names are bytes, an overflow of the kernel's queue
is told, and waiting costs nothing. A directory that is reachable by several names (a bind
mount) tells its events under each. It follows no tree and never reads a file.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import sys
import tempfile
import termios
from collections.abc import Callable, Iterable

from vxwatch.watch.notifier import Raw

# <sys/inotify.h>; the numbers are the kernel's interface and the same on every machine.
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED, _MOVED_TO, _CREATE, _DELETE, _SELF = 0xC0, 0x80, 0x100, 0x200, 0xC00
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x4000_0000
_ONLYDIR, _EXCL_UNLINK = 0x0100_0000, 0x0400_0000
# CLOSE_WRITE beside MODIFY: what is written through a mapping makes no MODIFY.
_MASK = (
    (_MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _SELF)
    | _ONLYDIR
    | _EXCL_UNLINK
)
_STRUCTURAL = _MOVED | _CREATE | _DELETE | _SELF | _UNMOUNT | _IGNORED
# Another file may have come with the number of the one that went: ext4 gives numbers anew at once.
_REWRITTEN = _MODIFY | _MOVED_TO | _CREATE
_HEADER = struct.Struct("iIII")
_BREATH = 0.001
"""Seconds in which events gather after some were read: a writer that never pauses would else
wake us for each of its writes."""
_PROOF_TIMEOUT = 10.0


class Inotify:
    """A notifier by inotify; made on the event loop that is to be told."""

    lag = 1.0
    settles = 0.0
    bulky = False

    def __init__(self, arrived: Callable[[], None], scratch: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._arrived = arrived
        self._watches: dict[str, int] = {}
        self._names: dict[int, set[str]] = {}
        self._raw = Raw()
        self._proven = asyncio.Event()
        self._proof = tempfile.mkdtemp(prefix="watch-", dir=scratch)
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._listen()
        for code in self.add([self._proof]).values():
            self._close()
            raise OSError(code, os.strerror(code))

    def add(self, directories: Iterable[str]) -> dict[str, int]:
        """Watch these; gives those that the kernel refused, with the `errno`."""
        refused = {}
        for directory in directories:
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), _MASK)
            if watch < 0:
                refused[directory] = ctypes.get_errno()
            elif self._watches.get(directory) != watch:
                self.drop([directory])
                self._watches[directory] = watch
                self._names.setdefault(watch, set()).add(directory)
        return refused

    def drop(self, directories: Iterable[str]) -> None:
        """Watch these no longer."""
        for directory in directories:
            watch = self._watches.pop(directory, None)
            if watch is not None:
                names = self._names[watch]
                names.discard(directory)
                if not names:
                    del self._names[watch]
                    # Fails when the kernel has dropped the watch with the directory already.
                    self._libc.inotify_rm_watch(self._fd, watch)

    async def ready(self) -> bool:
        """Make a file in a directory of ours and wait until we are told of it."""
        descriptor, _ = tempfile.mkstemp(dir=self._proof)
        os.close(descriptor)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROOF_TIMEOUT):
                await self._proven.wait()
        self.drop([self._proof])
        shutil.rmtree(self._proof, ignore_errors=True)
        return self._proven.is_set()

    def take(self) -> Raw:
        """What happened since the last call, up to this moment."""
        if self._fd >= 0:
            self._read()
        raw, self._raw = self._raw, Raw()
        return raw

    async def aclose(self) -> None:
        """End; no descriptor and no file is left. Idempotent."""
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            if self._resting is not None:
                self._resting.cancel()
            os.close(self._fd)
            self._fd = -1
            shutil.rmtree(self._proof, ignore_errors=True)

    def _listen(self) -> None:
        self._resting = None
        self._loop.add_reader(self._fd, self._hear)

    def _hear(self) -> None:
        self._loop.remove_reader(self._fd)
        self._resting = self._loop.call_later(_BREATH, self._listen)
        self._read()
        if self._raw.paths or self._raw.lost:
            self._arrived()

    def _read(self) -> None:
        """Read what is there now, and no more: it may come as fast as it is read."""
        size = bytearray(4)
        fcntl.ioctl(self._fd, termios.FIONREAD, size)
        if left := int.from_bytes(size, sys.byteorder):
            self._parse(os.read(self._fd, left))

    def _parse(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, at)
            at += _HEADER.size + length
            if mask & _OVERFLOW:
                self._raw.lost = True
            name = os.fsdecode(data[at - length : at].rstrip(b"\0")) if length else ""
            for directory in self._names.get(watch, ()):
                path = f"{directory.rstrip('/')}/{name}" if name else directory
                self._raw.add(path, bool(mask & _STRUCTURAL), written=bool(mask & _REWRITTEN))
                if mask & _MOVED_TO and mask & _IS_DIRECTORY:
                    self._raw.shifted.add(path)
                if directory == self._proof:
                    self._proven.set()
            if mask & _IGNORED:
                for directory in self._names.pop(watch, ()):
                    del self._watches[directory]
