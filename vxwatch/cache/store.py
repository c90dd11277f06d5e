"""The entries of a cache: what a task made under a key, kept in a database and in artifacts.

Any number of processes may use one cache at once. An artifact is named by its own digest, written
beside its place, and put there within the transaction that writes its row; so a row is never
without an artifact that was whole, and a crash loses the entry that was being written, no other.
Nothing is synced to the disk for its own sake: what a power loss leaves half-written is found by
its digest, like any damage. What is damaged is a miss, and is removed.

Every method may raise `CacheError`, after which a run goes on without a cache. All methods may
be called from any thread.
"""

import contextlib
import fcntl
import io
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import xxhash

from vxwatch.cache import log as logs
from vxwatch.cache.archive import DamagedError, verify
from vxwatch.cache.content import Clock
from vxwatch.cache.database import NAME, CacheError, Told, connect, mend, writing
from vxwatch.cache.manifest import Item, UnsoundError, unpack
from vxwatch.cache.ondisk import Presence
from vxwatch.model import TaskId

ARTIFACTS = "artifacts"
TEMPORARY = "tmp"
SUFFIX = ".tar.zst"

_USED = 3600 * 1_000_000_000
"""How old the note of an entry's last use may grow before a use renews it."""

_COLUMNS = "key, task, made, used, seconds, artifact, size, items, log, digest"
_MANY = 500
_DIGEST = 16  # bytes


class Entry(NamedTuple):
    """What a task made under a key, in `seconds`. `made` is in nanoseconds of the wall clock.

    `artifact` is None where there are no items. `log` is packed (`vxwatch.cache.log`).
    """

    key: str
    task: TaskId
    made: int
    seconds: float
    artifact: str | None
    size: int
    items: bytes
    log: bytes

    def unpacked(self, declared: Callable[[str], bool]) -> tuple[Item, ...]:
        """The items, each of which must be declared. Raises `UnsoundError`."""
        return unpack(self.items, declared)

    def chunks(self) -> list[logs.Chunk]:
        """What the task wrote. Raises `UnsoundError`."""
        try:
            return logs.unpack(self.log)
        except ValueError as error:
            raise UnsoundError(str(error)) from None


class Pending:
    """An artifact that is being written. `file` is where to."""

    def __init__(self, file: io.FileIO, path: str) -> None:
        self.file = file
        self.path = path


class Store:
    """The cache in one directory; `with Store(directory)`."""

    def __init__(
        self, directory: str, clock: Clock = time.time_ns, *, to_read: bool = False
    ) -> None:
        """Open the cache, and make it if it is missing. Raises `CacheError`.

        Where it is `read_only`, because it can only be read or shall only be (`to_read`), whatever
        would change it raises that, too.
        """
        self.directory = directory
        self.clock = clock
        self._lock = threading.RLock()
        self._told = Told(directory)
        opened = connect(directory, to_read=to_read)
        self.to_read = to_read
        self._connection = opened.connection
        self.renewed, self.read_only = opened.renewed, opened.read_only
        self._identity = _identity(directory)
        self._is_tidy = False

    def is_there(self) -> bool:
        """Whether others find what is written here, too: the directory may be gone meanwhile."""
        return _identity(self.directory) == self._identity

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database, and throw it away if it turned out to be damaged."""
        with self._lock, self._told:
            self._connection.close()
            if self._told.damaged and not self.read_only:
                mend(self.directory)

    def entry(self, key: str) -> Entry | None:
        """What is kept under the key."""
        return self.entries([key]).get(key)

    def entries(self, keys: Iterable[str]) -> dict[str, Entry]:
        """What is kept under these keys, by key. A damaged row is removed."""
        wanted = list(keys)
        rows: list[tuple[object, ...]] = []
        with self.reading() as connection:
            for at in range(0, len(wanted), _MANY):
                some = wanted[at : at + _MANY]
                marks = ",".join("?" * len(some))
                query = f"SELECT {_COLUMNS} FROM entries WHERE key IN ({marks})"  # noqa: S608 - marks
                rows += connection.execute(query, some).fetchall()
        found: dict[str, Entry] = {}
        for row in rows:
            entry = _entry(row)
            if entry is not None:
                found[entry.key] = entry
            elif not self.read_only:
                self.drop(str(row[0]))
        return found

    def presences(self, root: str) -> dict[TaskId, tuple[str, bytes]]:
        """For the tasks of the workspace at `root`: the key and the stamps of what is on disk.

        Tasks are `spelled`; the stamps are packed (`unpack_presence`).
        """
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT task, key, stamps FROM present WHERE root = ?", (spelled(root),)
            ).fetchall()
        return {task: (key, stamps) for task, key, stamps in rows}

    def forget(self, root: str, task: TaskId) -> None:
        """The outputs of the task are about to change: nothing is known of them."""
        with self.changing() as connection:
            connection.execute(
                "DELETE FROM present WHERE root = ? AND task = ?", (spelled(root), spelled(task))
            )

    def note(self, root: str, task: TaskId, key: str, packed: bytes) -> None:
        """The outputs of the task are those of the entry, and look like this (`pack_presence`)."""
        with self.changing() as connection:
            _note(connection, root, task, key, packed)
            used = self.clock()
            connection.execute(
                "UPDATE entries SET used = ? WHERE key = ? AND used < ?", (used, key, used - _USED)
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[Pending]:
        """An artifact to write; it is removed at the end of the block unless `save` took it.

        It is locked while it is written, so that whoever tidies up knows it from one that a crash
        left; the first that is written does that.
        """
        with self._told:
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{self.directory}/{TEMPORARY}")
            if not self._is_tidy:
                self._is_tidy = True
                self.tidy()
            file, path = self._locked()
            with file:
                try:
                    yield Pending(file, path)
                finally:
                    # it is gone where `save` took it; what stays here goes with the next one
                    with contextlib.suppress(OSError):
                        os.unlink(path)

    def _locked(self) -> tuple[io.FileIO, str]:
        """A new temporary file that is locked, and its path."""
        while True:
            path = f"{self.directory}/{TEMPORARY}/{os.getpid()}.{os.urandom(8).hex()}"
            file = open(path, "xb", buffering=0)  # noqa: SIM115 - whoever asks closes it
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink:
                    return file, path
            except BaseException:
                file.close()
                raise
            file.close()  # somebody tidied up just before it was locked

    def tidy(self) -> None:
        """Remove the temporary files that crashes left: who writes one holds its lock."""
        with self._told, contextlib.suppress(FileNotFoundError):
            for name in os.listdir(f"{self.directory}/{TEMPORARY}"):
                _remove_if_left(f"{self.directory}/{TEMPORARY}/{name}")

    def save(self, entry: Entry, root: str, presence: Presence, pending: Pending | None) -> None:
        """Keep the entry, and what is on disk of it. `pending` holds its artifact, if it has one."""
        with self.changing() as connection:
            if pending is not None and entry.artifact is not None:
                path = self.path(entry.artifact)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(pending.path, path)
            entry = entry._replace(task=spelled(entry.task))
            row = (
                *(entry.key, entry.task, entry.made, self.clock(), entry.seconds),
                *(entry.artifact, entry.size, entry.items, entry.log, _digest(entry)),
            )
            before = connection.execute(
                "SELECT artifact FROM entries WHERE key = ? AND artifact IS NOT ?",
                (entry.key, entry.artifact),
            ).fetchone()
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?,?,?,?,?,?,?,?,?,?)", row)
            _note(connection, root, entry.task, entry.key, pack_presence(presence))
        if before is not None and isinstance(before[0], str):
            self.sweep([before[0]])

    @contextlib.contextmanager
    def artifact(self, entry: Entry) -> Iterator[BinaryIO | None]:
        """The entry's artifact, whole and verified, to read; None where it has none.

        Raises `DamagedError` if it is missing or not what was saved; then `drop` the entry.
        """
        if entry.artifact is None:
            yield None
            return
        try:
            file = open(self.path(entry.artifact), "rb")  # noqa: SIM115 - closed below
        except FileNotFoundError:
            raise DamagedError("it is not there any more") from None
        except OSError as error:
            raise DamagedError(f"it cannot be read: {error.strerror}") from None
        with file:
            verify(file, entry.artifact, entry.size)
            yield file

    def drop(self, *keys: str) -> None:
        """Remove the entries, and those of their artifacts that no other needs."""
        artifacts: list[str] = []
        with self.changing() as connection:
            for key in keys:
                row = connection.execute(
                    "DELETE FROM entries WHERE key = ? RETURNING artifact", (key,)
                ).fetchone()
                if row is not None and isinstance(row[0], str):
                    artifacts.append(row[0])
        self.sweep(artifacts)

    def sweep(self, artifacts: Iterable[str]) -> None:
        """Remove those of the artifacts that no entry needs.

        In a transaction of its own: who dies in it leaves an artifact too many, never a row
        without its artifact.
        """
        with self.changing() as connection:
            for artifact in artifacts:
                query = "SELECT 1 FROM entries WHERE artifact = ? LIMIT 1"
                if connection.execute(query, (artifact,)).fetchone() is None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.path(artifact))

    def path(self, artifact: str) -> str:
        """Where an artifact lies."""
        return f"{self.directory}/{ARTIFACTS}/{artifact[:2]}/{artifact}{SUFFIX}"

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database, for queries."""
        with self._lock, self._told:
            yield self._connection

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The database in a transaction that no other process writes beside; may be nested."""
        if self.read_only:
            raise CacheError(f"{self.directory} can only be read")
        with self._lock, self._told:
            if self._connection.in_transaction:
                yield self._connection
            else:
                with writing(self._connection):
                    yield self._connection


def _remove_if_left(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)


def _identity(directory: str) -> tuple[int, int] | None:
    """Which database lies in the directory; None if there is none."""
    try:
        status = os.stat(f"{directory}/{NAME}")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _note(connection: sqlite3.Connection, root: str, task: TaskId, key: str, packed: bytes) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO present (root, task, key, stamps) VALUES (?,?,?,?)",
        (spelled(root), spelled(task), key, packed),
    )


def _entry(row: tuple[object, ...]) -> Entry | None:
    key, task, made, _, seconds, artifact, size, items, log, digest = row
    if not (isinstance(key, str) and isinstance(task, str)):
        return None
    if not (isinstance(items, bytes) and isinstance(log, bytes)):
        return None
    if not (isinstance(made, int) and isinstance(size, int) and isinstance(seconds, float)):
        return None
    if artifact is not None and not isinstance(artifact, str):
        return None
    entry = Entry(key, task, made, seconds, artifact, size, items, log)
    return entry if digest == _digest(entry) else None


def _digest(entry: Entry) -> str:
    hasher = xxhash.xxh3_128(
        repr((entry.key, entry.task, entry.artifact, entry.size, len(entry.items))).encode()
    )
    hasher.update(entry.items)
    hasher.update(entry.log)
    return hasher.hexdigest()


def spelled(text: str) -> str:
    """A path or a name as the database takes it: undecodable bytes are escaped."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def pack_presence(presence: Presence) -> bytes:
    """A presence as bytes, under a digest: a damaged one would prove what is not so."""
    words = [str(presence.at)]
    for path, (stamp, content) in presence.paths.items():
        words += (path, " ".join(map(str, stamp)) if stamp else "", content)
    body = "\0".join(words).encode("utf-8", "surrogateescape")
    return xxhash.xxh3_128_digest(body) + body


def unpack_presence(data: bytes) -> Presence | None:
    """The presence in the bytes; None if they are damaged."""
    head, body = data[:_DIGEST], data[_DIGEST:]
    if xxhash.xxh3_128_digest(body) != head or not body:
        return None
    at, *words = body.decode("utf-8", "surrogateescape").split("\0")
    paths: dict[str, tuple[tuple[int, int, int, int, int] | None, str]] = {}
    triples: Mapping[str, tuple[str, str]] = dict(
        zip(words[::3], zip(words[1::3], words[2::3], strict=True), strict=True)
    )
    for path, (stamp, content) in triples.items():
        if stamp:
            size, modified, moved, inode, mode = map(int, stamp.split(" "))
            paths[path] = (size, modified, moved, inode, mode), content
        else:
            paths[path] = None, content
    return Presence(int(at), paths)
