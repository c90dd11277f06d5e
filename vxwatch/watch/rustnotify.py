"""The notification service of the `watchfiles` package, with what it lacks made up for.

An instance of it watches a fixed list of directories on a thread of its own. More directories
get further instances, merged into one when it has been quiet, or when there are many; an old
one ends only after a test file proves that everything before the new one was told. A burst
that may have overflowed the kernel's queue, and a pause of this process, count as lost
events, because it does not tell an overflow. A file name that is no UTF-8 breaks an instance
for good: a new one takes over, without the directory that holds the name. What cannot be made
up for: a write through a mapping is not told, and a file that is written on and on counts as
quiet between two looks.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Literal

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from vxwatch.watch.debounce import BOUND
from vxwatch.watch.notifier import Raw

STEP = 0.01
"""Seconds between two looks of an instance at what its own thread has gathered."""
MERGE_AFTER = 1.0
MOST_INSTANCES = 8
BURST = 4000
"""Paths in one batch that may mean an overflow: the kernel's queue holds 16,384 events."""
_LATE = 1.0
_BEAT = 0.5
_PROOF_TIMEOUT = 10.0
_MOST_FAILURES = 20

_MODIFIED = 2
_Changes = set[tuple[int, str]] | Literal["signal", "stop", "timeout"] | BaseException


class RustNotifier:
    """A notifier by watchfiles; made on the event loop that is to be told."""

    lag = 1.0
    settles = STEP
    bulky = True

    def __init__(self, arrived: Callable[[], None], scratch: str) -> None:
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._proof = tempfile.mkdtemp(prefix="watch-", dir=scratch)
        self._numbers = itertools.count()
        self._raw = Raw()
        self._failures = 0
        self._wanted: set[str] = set()
        self._unfit: set[str] = set()
        self._instances: list[_Instance] = []
        self._ending: list[_Instance] = []
        self._merging: asyncio.TimerHandle | None = None
        self._beaten = self._loop.time()
        self._beat = self._loop.call_later(_BEAT, self._check_time)
        try:
            self._start([])
        except (OSError, WatchfilesRustInternalError) as error:
            self._beat.cancel()
            shutil.rmtree(self._proof, ignore_errors=True)
            (code,) = _refused([self._proof], error).values()
            raise OSError(code, os.strerror(code)) from error

    def add(self, directories: Iterable[str]) -> dict[str, int]:
        """Watch these by a further instance; gives those that were refused."""
        asked = list(directories)
        refused = {
            path: errno.EILSEQ for path in asked if path in self._unfit or not _is_utf8(path)
        }
        fit = [path for path in asked if path not in refused]
        if fit:
            refused |= self._start_most(fit)
            self._wanted.update(path for path in fit if path not in refused)
            self._merge_later(MERGE_AFTER if len(self._instances) < MOST_INSTANCES else 0.0)
        return refused

    def drop(self, directories: Iterable[str]) -> None:
        """Watch these no longer; the system's watches go when instances are merged."""
        self._wanted.difference_update(directories)

    async def ready(self) -> bool:
        """Have every instance prove itself."""
        proofs = [instance.proven for instance in self._instances]
        self._prove()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROOF_TIMEOUT):
                for proof in proofs:
                    await proof.wait()
        return all(proof.is_set() for proof in proofs)

    def take(self) -> Raw:
        """What happened since the last call."""
        raw, self._raw = self._raw, Raw()
        return raw

    async def aclose(self) -> None:
        """End; no thread, descriptor or file is left. Idempotent."""
        self._beat.cancel()
        if self._merging is not None:
            self._merging.cancel()
        instances = self._instances + self._ending
        self._instances, self._ending = [], []
        for instance in instances:
            instance.stop()
        for instance in instances:
            instance.join()
        shutil.rmtree(self._proof, ignore_errors=True)

    def _start_most(self, directories: list[str]) -> dict[str, int]:
        """Start an instance for as many as the system allows; gives the others."""
        refused: dict[str, int] = {}
        rest = directories
        while rest:
            try:
                self._start(rest)
            except (OSError, WatchfilesRustInternalError) as error:
                out = _refused(rest, error)
                refused |= out
                rest = [path for path in rest if path not in out]
            else:
                break
        return refused

    def _start(self, directories: list[str]) -> None:
        if self._failures > _MOST_FAILURES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._instances.append(_Instance([self._proof, *directories], self._told))

    def _merge_later(self, delay: float) -> None:
        if self._merging is not None:
            self._merging.cancel()
        self._merging = self._loop.call_later(delay, self._merge)

    def _merge(self) -> None:
        """Put one instance in the place of all, or of all but the first where that is too much.

        For a while both watch, which the system's limit may not bear.
        """
        self._merging = None
        for old in (self._instances[:], self._instances[1:]):
            if len(old) <= 1:
                return
            try:
                self._start(sorted(self._wanted & _all(old)))
            except (OSError, WatchfilesRustInternalError):
                continue
            self._retire(old)
            return

    def _retire(self, old: list["_Instance"]) -> None:
        self._instances = [instance for instance in self._instances if instance not in old]
        self._ending += old
        name = self._prove()
        for instance in old:
            instance.last = name

    def _prove(self) -> str:
        """Make and remove a file that every instance tells of; gives its path."""
        path = os.path.join(self._proof, str(next(self._numbers)))
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.unlink(path)
        return path

    def _told(self, instance: "_Instance", changes: _Changes) -> None:
        """An instance has changes to tell, or has ended."""
        if isinstance(changes, BaseException):
            self._replace_failed(instance)
        elif isinstance(changes, str):
            self._ending = [other for other in self._ending if other is not instance]
            return
        else:
            self._raw.lost |= len(changes) > BURST
            for kind, path in changes:
                if path.startswith(self._proof):
                    instance.proven.set()
                    if path == instance.last:
                        instance.stop()
                else:
                    self._raw.add(path, kind != _MODIFIED)
        if self._raw.paths or self._raw.lost:
            self._arrived()

    def _replace_failed(self, instance: "_Instance") -> None:
        """Have the watcher add everything again, and poll the directory that broke it."""
        self._failures += 1
        self._instances = [other for other in self._instances if other is not instance]
        bad = {path for path in instance.directories if path in self._wanted and _is_unfit(path)}
        self._unfit |= bad
        self._wanted -= bad
        self._raw.refused |= dict.fromkeys(bad, errno.EILSEQ)
        self._raw.lost = True

    def _check_time(self) -> None:
        """Count events as lost when this process was stopped for a while."""
        now = self._loop.time()
        if now - self._beaten > _BEAT + _LATE:
            self._raw.lost = True
            self._arrived()
        self._beaten = now
        self._beat = self._loop.call_later(_BEAT, self._check_time)


class _Instance:
    """One list of directories and the thread that waits for what happens in them."""

    def __init__(
        self, directories: list[str], told: Callable[["_Instance", _Changes], None]
    ) -> None:
        self.directories = directories
        self.proven = asyncio.Event()
        self.last: str | None = None
        self._rust = RustNotify(directories, False, False, 0, False, False)
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vx-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end within a step; what it has not told is not told any more."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        changes: _Changes = set()
        while isinstance(changes, set):
            try:
                changes = self._rust.watch(int(BOUND * 1000), int(STEP * 1000), 0, self._stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop must hear of it
                changes = error
            self._loop.call_soon_threadsafe(self._told, self, changes)
        self._rust.close()


def _refused(directories: list[str], error: Exception) -> dict[str, int]:
    """Which directories an instance could not be made for, and why; at least one.

    The package keeps the system's text and the quoted path, but no error number.
    """
    text = str(error)
    at = next((i for i, path in enumerate(directories) if f'"{path}"' in text), None)
    if "watch limit" in text:
        return dict.fromkeys(directories[at:], errno.ENOSPC)
    number = re.search(r"os error (\d+)", text)
    code = int(number[1]) if number else errno.EIO
    if at is not None:
        return {directories[at]: code}
    # A name that the package escapes: not known which, so all of them are worth polling.
    return dict.fromkeys(directories, errno.EIO if code in {errno.ENOENT, errno.EACCES} else code)


def _all(instances: list[_Instance]) -> set[str]:
    return {path for instance in instances for path in instance.directories}


def _is_unfit(directory: str) -> bool:
    """Whether the directory holds a name that breaks an instance."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return not all(_is_utf8(entry.name) for entry in entries)
    return False


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
