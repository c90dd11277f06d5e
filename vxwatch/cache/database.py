"""Opens the database of a cache: made if it is missing, made anew if it is damaged.

A database that a newer vx made is left alone, and one that may not be written is only read. Every
failure is a `CacheError`, so that a run goes on without a cache.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from vxwatch.workspace.home import make

NAME = "cache.db"
VERSION = 3
"""Moves with the tables. An older database is made anew: it is a cache."""

PATIENCE = 20.0
"""Seconds that one process waits for another to end its writing."""

_TABLES = """
CREATE TABLE entries (
  key TEXT NOT NULL PRIMARY KEY, task TEXT NOT NULL, made INTEGER NOT NULL,
  used INTEGER NOT NULL, seconds REAL NOT NULL, artifact TEXT, size INTEGER NOT NULL,
  items BLOB NOT NULL, log BLOB NOT NULL, digest TEXT NOT NULL);
CREATE INDEX entries_artifact ON entries (artifact);
CREATE TABLE present (
  root TEXT NOT NULL, task TEXT NOT NULL, key TEXT NOT NULL, stamps BLOB NOT NULL,
  PRIMARY KEY (root, task));
CREATE TABLE components (key TEXT NOT NULL PRIMARY KEY, made INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, root TEXT NOT NULL, command TEXT NOT NULL, started INTEGER NOT NULL,
  seconds REAL, signal INTEGER);
CREATE TABLE results (
  run INTEGER NOT NULL, task TEXT NOT NULL, key TEXT, status TEXT NOT NULL, code INTEGER,
  started INTEGER NOT NULL, seconds REAL NOT NULL, cpu REAL NOT NULL, rss INTEGER NOT NULL,
  attempts INTEGER NOT NULL, detail TEXT NOT NULL, faults INTEGER NOT NULL);
CREATE TABLE cycles (
  run INTEGER NOT NULL PRIMARY KEY, number INTEGER NOT NULL, started INTEGER NOT NULL,
  seconds REAL NOT NULL, paths TEXT NOT NULL);
CREATE TABLE durations (
  root TEXT NOT NULL, task TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (root, task));
CREATE INDEX results_run ON results (run);
CREATE INDEX results_task ON results (task, started);
"""
_SETUP = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    # A machine that loses its power may lose the last commits, never the database.
    "PRAGMA synchronous = NORMAL",
)
_WAL = 4000
"""Pages, of 4 KiB, that are written before they are put in their places: each time the disk is waited for."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class CacheError(Exception):
    """The cache cannot be used now; what is wrong, in the user's terms."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Told:
    """Blocks in which what goes wrong with the files of a cache becomes a `CacheError`.

    `damaged`: the database turned out not to be what SQLite wrote.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.damaged = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(fault, sqlite3.Error):
            self.damaged |= is_damage(fault)
            raise CacheError(f"{self._directory}: {fault}") from fault
        if isinstance(fault, OSError):
            name = fault.filename if isinstance(fault.filename, str) else self._directory
            raise CacheError(f"{name}: {fault.strerror or fault}") from fault


class Opened(NamedTuple):
    """A database, which any thread may use, but one at a time.

    `renewed`: a damaged one was thrown away. `read_only`: nothing can be written.
    """

    connection: sqlite3.Connection
    renewed: bool = False
    read_only: bool = False


def connect(directory: str, *, to_read: bool = False) -> Opened:
    """The database of the cache in a directory, only `to_read` or not. Raises `CacheError`."""
    with Told(directory):
        path = f"{directory}/{NAME}"
        if to_read and not os.path.exists(path):
            raise CacheError(f"there is none in {directory}")
        if to_read or _is_read_only(directory, path):
            return Opened(_open_to_read(path), read_only=True)
        make(directory)
        try:
            return Opened(_open(path))
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                raise
        return Opened(*_made_anew(directory, path))


def mend(directory: str) -> bool:
    """Make the database anew if it is damaged; whether it was. Raises `CacheError`."""
    with Told(directory):
        connection, renewed = _made_anew(directory, f"{directory}/{NAME}")
        connection.close()
        return renewed


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the database is not what SQLite wrote."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        if not _is_current(connection):
            with _alone(os.path.dirname(path)):
                _lay_out(connection)
        connection.execute(_SETUP[-1])
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL}")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_read_only(directory: str, path: str) -> bool:
    return os.path.exists(path) and not all(
        os.access(place, os.W_OK, effective_ids=True) for place in (directory, path)
    )


def _open_to_read(path: str) -> sqlite3.Connection:
    """A connection that needs to write nothing, not even beside the database.

    Where nobody has it open, SQLite would make files to share it by; so it is told that nobody
    writes. Were that wrong, digests would tell what was read half-written.
    """
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        return _open_at(f"file:{name}?mode=ro")
    except sqlite3.OperationalError:
        return _open_at(f"file:{name}?mode=ro&immutable=1")


def _open_at(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        place, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        _refuse_older(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_older(connection: sqlite3.Connection) -> None:
    if not _is_current(connection):
        raise CacheError("the cache was made by an older vx, and can only be read")


def _is_current(connection: sqlite3.Connection) -> bool:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise CacheError(
            "the cache was made by a newer vx",
            "update vx, or give this one another cache_dir",
        )
    return version == VERSION


def _lay_out(connection: sqlite3.Connection) -> None:
    for statement in _SETUP:
        connection.execute(statement)
    with writing(connection):
        if _is_current(connection):
            return
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (name,) in names.fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextlib.contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that holds the only right to write from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _made_anew(directory: str, path: str) -> tuple[sqlite3.Connection, bool]:
    """Throw a damaged database away, unless another process has just done so."""
    with _alone(f"{directory}/mending"):
        if not _is_damaged(path):
            return _open(path), False
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + suffix)
        return _open(path), True


def _is_damaged(path: str) -> bool:
    try:
        with contextlib.closing(_open(path)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return True
        raise
    return bool(found[0] != "ok")


@contextlib.contextmanager
def _alone(place: str) -> Iterator[None]:
    """Hold the lock on a file or directory, which ends with the process at the latest."""
    flags = os.O_RDONLY if os.path.isdir(place) else os.O_RDWR | os.O_CREAT
    handle = os.open(place, flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
