"""What ran when, how it ended, and what its key was made of.

Written a few rows at a time, since a run must not wait for it; a crash may lose the last of
them. Keys are recorded with what they fold, so that two of them can be compared later.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import zstandard

from vxwatch.cache.key import Key
from vxwatch.cache.store import Store, spelled
from vxwatch.model import TaskId
from vxwatch.outcome import Outcome

STARTED = ("ran", "failed", "ready")
"""The statuses of tasks whose command was started."""

_MOST_WAITING, _MOST_UNCHANGED = 64, 4096
_MOST_KNOWN = 4096
"""Keys that are remembered to be written down: a watch makes new ones for as long as it lives."""
_MOST_PATHS = 1000
_SECOND = 1_000_000_000
_LEVEL = 1
_NEVER = 1 << 62
_OF_RUN = """
SELECT task, key, status, code, started, seconds, cpu, rss, attempts, detail, rowid
FROM results WHERE run = ? ORDER BY rowid
"""
_IN_CYCLE = """
SELECT task, key, status, code, started, seconds, cpu, rss, attempts, detail, rowid
FROM results WHERE run = ? AND task = ? AND started >= ? ORDER BY rowid DESC LIMIT 1
"""
_LAST = """
SELECT run, task, key, status, code, results.started, results.seconds, cpu, rss, attempts, detail,
  results.rowid
FROM results JOIN runs ON runs.id = run
WHERE root = ? AND task = ? AND key IS NOT NULL AND results.rowid < ?
ORDER BY results.rowid DESC LIMIT 1
"""
_DONE = """
SELECT run, task, key, status, code, results.started, results.seconds, cpu, rss, attempts, detail,
  results.rowid
FROM results JOIN runs ON runs.id = run
WHERE root = ? AND task = ? AND key IS NOT NULL AND status IN ('ran', 'failed', 'restored', 'ready')
ORDER BY results.rowid DESC LIMIT 1
"""
_CYCLE = """
SELECT run, number, cycles.started, cycles.seconds, paths FROM cycles JOIN runs ON runs.id = run
WHERE root = ? ORDER BY cycles.started DESC LIMIT 1
"""


class Run(NamedTuple):
    """A run of vx in a workspace. `started` is in nanoseconds of the wall clock.

    `seconds` is None while it lasts, and where it ended without saying so.
    """

    id: int
    command: str
    started: int
    seconds: float | None
    signal: int | None


class Result(NamedTuple):
    """How a task ended in a run; `key` is None where none was made.

    `place` orders results by when they were written down.
    """

    task: TaskId
    key: str | None
    status: str
    code: int | None
    started: int
    seconds: float
    cpu: float
    rss: int
    attempts: int
    detail: str
    place: int


class CycleDone(NamedTuple):
    """The last cycle of a watch. `started` is in nanoseconds of the wall clock.

    `paths` holds the first of the changes that caused it.
    """

    run: int
    number: int
    started: int
    seconds: float
    paths: tuple[str, ...]


class Recorder:
    """Writes down one run while it goes on. Every method may raise `CacheError`."""

    def __init__(self, store: Store, root: str, command: str, begun: int | None = None) -> None:
        """`command` must not hold the value of a secret.

        `begun` is when the run began, in nanoseconds of the wall clock; None for now.
        """
        self._store = store
        self._root = spelled(root)
        self._begun = store.clock() if begun is None else begun
        self._waiting: list[tuple[Any, ...]] = []
        self._keys: dict[str, bytes] = {}
        self._known: set[str] = set()
        self._seconds: dict[str, float] = {}
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        with store.changing() as connection:
            self.id = connection.execute(
                "INSERT INTO runs (root, command, started) VALUES (?,?,?)",
                (self._root, spelled(command), self._begun),
            ).lastrowid

    def ended(
        self, outcome: Outcome, key: str | None, started: int, made: Iterable[Key] = ()
    ) -> None:
        """A task ended; texts of the outcome must not hold the value of a secret.

        `made` are keys that can be compared from then on: its own, and those of groups that it
        folds, which nobody else tells.
        """
        for one in made:
            if one.hex not in self._known:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known.add(one.hex)
                self._keys[one.hex] = _packed(one, self._compressor)
        if outcome.status == "ran":
            self._seconds[spelled(outcome.task)] = outcome.seconds
        self._waiting.append(
            (
                *(self.id, spelled(outcome.task), key, outcome.status),
                *(outcome.code, started, outcome.seconds, outcome.cpu, outcome.peak_rss),
                *(outcome.attempts, spelled(outcome.detail), outcome.faults),
            )
        )
        most = _MOST_WAITING if outcome.status in STARTED else _MOST_UNCHANGED
        if len(self._waiting) >= most or outcome.status == "failed":
            self.flush()

    def cycle(self, number: int, started: int, seconds: float, paths: Iterable[str]) -> None:
        """A cycle ended; what waits is written down. The paths must not hold the value of a secret."""
        self.flush()
        named = json.dumps([spelled(path) for path in islice(paths, _MOST_PATHS)])
        with self._store.changing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO cycles VALUES (?,?,?,?,?)",
                (self.id, number, started, seconds, named),
            )

    def flush(self) -> None:
        """Write down what waits."""
        now = self._store.clock()
        with self._store.changing() as connection:
            connection.executemany(
                "INSERT INTO results VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", self._waiting
            )
            connection.executemany(
                "INSERT OR IGNORE INTO components VALUES (?,?,?)",
                [(name, now, data) for name, data in self._keys.items()],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO durations VALUES (?,?,?)",
                [(self._root, task, seconds) for task, seconds in self._seconds.items()],
            )
        for written in (self._waiting, self._keys, self._seconds):
            written.clear()

    def end(self, signal: int | None) -> None:
        """The run is over."""
        self.flush()
        seconds = (self._store.clock() - self._begun) / _SECOND
        with self._store.changing() as connection:
            connection.execute(
                "UPDATE runs SET seconds = ?, signal = ? WHERE id = ?", (seconds, signal, self.id)
            )


def runs(store: Store, root: str, most: int = 20) -> list[Run]:
    """The last runs of the workspace at `root`, the latest first."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT id, command, started, seconds, signal FROM runs WHERE root = ?"
            " ORDER BY id DESC LIMIT ?",
            (spelled(root), most),
        ).fetchall()
    return [Run(*row) for row in rows]


def run(store: Store, root: str, number: int) -> Run | None:
    """The run of that id, None if the workspace at `root` has none such."""
    with store.reading() as connection:
        row = connection.execute(
            "SELECT id, command, started, seconds, signal FROM runs WHERE root = ? AND id = ?",
            (spelled(root), number),
        ).fetchone()
    return None if row is None else Run(*row)


def results(store: Store, run: int) -> list[Result]:
    """How the tasks of a run ended, in that order."""
    with store.reading() as connection:
        rows = connection.execute(_OF_RUN, (run,)).fetchall()
    return [Result(*row) for row in rows]


def last_result(
    store: Store, root: str, task: TaskId, before: int | None = None
) -> tuple[int, Result] | None:
    """How the task ended when it was last looked at (before the result of that place) and had a key.

    The run in which that was comes first.
    """
    latest = before if before is not None else _NEVER
    with store.reading() as connection:
        row = connection.execute(_LAST, (spelled(root), spelled(task), latest)).fetchone()
    return None if row is None else (row[0], Result(*row[1:]))


def last_done(store: Store, root: str, task: TaskId) -> tuple[int, Result] | None:
    """How the task ended when something was last done about it, and in which run."""
    with store.reading() as connection:
        row = connection.execute(_DONE, (spelled(root), spelled(task))).fetchone()
    return None if row is None else (row[0], Result(*row[1:]))


def last_cycle(store: Store, root: str) -> CycleDone | None:
    """The last cycle that ended in the workspace at `root`."""
    with store.reading() as connection:
        row = connection.execute(_CYCLE, (spelled(root),)).fetchone()
    if row is None:
        return None
    run, number, started, seconds, paths = row
    return CycleDone(run, number, started, seconds, tuple(json.loads(paths)))


def result_in(store: Store, cycle: CycleDone, task: TaskId) -> Result | None:
    """How the task ended in the cycle; None if that did not look at it."""
    with store.reading() as connection:
        row = connection.execute(_IN_CYCLE, (cycle.run, spelled(task), cycle.started)).fetchone()
    return None if row is None else Result(*row)


def components(store: Store, key: str) -> dict[str, str] | None:
    """What a key was made of, by name (`Key.components`); None if that is not known."""
    with store.reading() as connection:
        row = connection.execute("SELECT data FROM components WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    try:
        text = zstandard.ZstdDecompressor().decompress(row[0])
        found: dict[str, str] = json.loads(text)
    except (zstandard.ZstdError, ValueError):
        return None
    return found


def durations(store: Store, root: str) -> dict[TaskId, float]:
    """The seconds that the tasks of the workspace took when they last succeeded; `spelled` names."""
    with store.reading() as connection:
        return dict(
            connection.execute(
                "SELECT task, seconds FROM durations WHERE root = ?", (spelled(root),)
            )
        )


def flaky(store: Store, keys: Mapping[TaskId, str]) -> set[TaskId]:
    """Those of the tasks that failed and passed on the same key, which these are.

    One that passed at a later attempt did so, too. What a command did not fail by itself says nothing.
    """
    found: set[TaskId] = set()
    with store.reading() as connection:
        for task, key in keys.items():
            rows = connection.execute(
                "SELECT DISTINCT status, faults > 0 FROM results WHERE task = ? AND key = ?"
                " AND status IN ('ran', 'failed')",
                (spelled(task), key),
            ).fetchall()
            passed = any(status == "ran" for status, _ in rows)
            if passed and any(failed for _, failed in rows):
                found.add(task)
    return found


def _packed(key: Key, compressor: zstandard.ZstdCompressor) -> bytes:
    return compressor.compress(json.dumps(key.components).encode())
