"""A save or a restore that fails or dies at any point leaves a cache that is right."""

import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.owner import as_an_owner
from tests.harness.soaking import soak, soaks
from vxwatch.cache.database import NAME
from vxwatch.cache.log import Log
from vxwatch.cache.prune import prune
from vxwatch.cache.reuse import Cache
from vxwatch.cache.store import TEMPORARY, Store
from vxwatch.model import Globs, Project, Task

TASK = Task("app", "build", command="make", outputs=Globs(("dist/**",)))
PROJECTS = {"app": Project("app", "", (), None, (), {"build": TASK})}


class Faults:
    """Fails the nth of the calls by which files change, with this error."""

    NAMES = ("open", "rename", "unlink", "mkdir", "write", "fchmod", "symlink", "makedirs")

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._left = -1
        self._error = errno.ENOSPC
        for name in self.NAMES:
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def arm(self, nth: int, error: int) -> None:
        self._left, self._error = nth, error

    def disarm(self) -> bool:
        """Whether no call failed."""
        unused, self._left = self._left >= 0, -1
        return unused

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            if self._left == 0:
                self._left = -1
                raise OSError(self._error, os.strerror(self._error))
            self._left -= 1
            return call(*args, **named)

        return wrapped


@contextmanager
def cache(root: str, told: list[str]) -> Iterator[Cache]:
    place = f"{root}/../cache"
    found = Cache(root, PROJECTS, lambda: Store(place), lambda text, _: told.append(text))
    try:
        yield found
    finally:
        found.close()


def make(root: str, text: str) -> None:
    os.makedirs(f"{root}/dist/sub", exist_ok=True)
    Path(root, "dist", "a").write_text(text)
    Path(root, "dist", "sub", "b").write_text(text * 1000)
    os.symlink("a", f"{root}/dist/link")


def is_made(root: str, text: str) -> bool:
    """Whether the outputs are exactly that."""
    found = {os.path.join(d, n) for d, dirs, files in os.walk(f"{root}/dist") for n in dirs + files}
    return (
        found == {f"{root}/dist/{name}" for name in ("a", "sub", "sub/b", "link")}
        and Path(root, "dist", "a").read_text() == text
        and Path(root, "dist", "sub", "b").read_text() == text * 1000
        and os.readlink(f"{root}/dist/link") == "a"
    )


def save(use: Cache, key: str) -> bool:
    with use.capture(TASK) as made:
        return made is not None and use.keep(made, TASK, key, Log(), 1.0)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "w").mkdir()
    return str(tmp_path / "w")


def test_what_lies_where_outputs_belong_is_noticed(root: str) -> None:
    with cache(root, []) as use:
        assert not use.outputs.has_files(TASK)
        os.symlink("nowhere", f"{root}/dist")
        assert use.outputs.has_files(TASK)
        os.unlink(f"{root}/dist")
        make(root, "one")
        assert use.outputs.has_files(TASK)


def is_sound(root: str) -> bool:
    with sqlite3.connect(f"{root}/../cache/{NAME}") as connection:
        found = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return found == [("ok",)]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_save_that_fails_at_any_step_is_told_and_loses_nothing_else(
    root: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    make(root, "old")
    with cache(root, []) as use:
        assert save(use, "old")
        use.prepare(TASK)
    make(root, "new")
    faults = Faults(monkeypatch)
    nth, failed = 0, 0
    unused = False
    while not unused:
        told: list[str] = []
        with cache(root, told) as use:
            faults.arm(nth, error)
            saved = save(use, "new")
            unused = faults.disarm()
        assert len(told) == (0 if saved else 1), told
        failed += not saved
        nth += 1
        assert os.listdir(f"{root}/../cache/{TEMPORARY}") == []
    assert failed > 4
    with cache(root, []) as use:
        for key in ("old", "new"):
            reused = use.reuse(TASK, key)
            assert reused is not None
            assert is_made(root, key)
    assert is_sound(root)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_restore_that_fails_at_any_step_is_a_miss(
    root: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    make(root, "saved")
    with cache(root, []) as use:
        assert save(use, "k")
    faults = Faults(monkeypatch)
    nth, misses = 0, 0
    unused, reused = False, None
    while not unused:
        shutil.rmtree(f"{root}/dist", ignore_errors=True)
        os.makedirs(f"{root}/dist")
        Path(root, "dist", "stray").write_text("x")
        Path(root, "dist", "a").write_text("other")
        told: list[str] = []
        with cache(root, told) as use:
            faults.arm(nth, error)
            reused = use.reuse(TASK, "k")
            unused = faults.disarm()
        misses += reused is None
        assert len(told) == (1 if reused is None else 0), told
        assert reused is None or is_made(root, "saved")
        nth += 1
    assert misses > 8
    assert reused is not None


@pytest.mark.parametrize("limit", [0, 1, 100, 1000, 5000])
def test_a_save_past_the_limit_of_a_file_is_told(root: str, limit: int) -> None:
    """As on a full disk: a write is cut anywhere, within the artifact or the database."""
    make(root, "x")
    Path(root, "dist", "random").write_bytes(os.urandom(20_000))
    code = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.dirname(__file__)))!r})
from tests.real.test_cache_faults import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
told = []
with cache({root!r}, told) as use:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
    assert not save(use, "k")
    assert use.reuse(TASK, "k") is None
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert 1 <= len(told) <= 2, told
with cache({root!r}, told) as use:
    assert save(use, "k")
    assert use.reuse(TASK, "k") is not None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert is_sound(root)


LOOPER = """
import sys
sys.path.insert(0, {path!r})
from tests.real.test_cache_faults import *
number = 0
while True:
    text = "abc"[number % 3]
    with cache({root!r}, []) as use:
        if use.reuse(TASK, text) is None:
            use.prepare(TASK)
            make({root!r}, text)
            assert save(use, text)
        assert is_made({root!r}, text)
        if number % 7 == 6:
            prune(use.store, None, 500)
        if number == 0:
            print("up", flush=True)
    number += 1
"""


@pytest.mark.soak
@soaks()
def test_a_process_that_is_killed_at_any_time_leaves_a_sound_cache(root: str) -> None:
    soak(lambda: check_kills(root))


def check_kills(root: str) -> None:
    path = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    code = LOOPER.format(path=path, root=root)
    for number in range(8):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as looper:
            assert looper.stdout is not None
            assert looper.stdout.readline() == b"up\n"
            time.sleep(0.003 + 0.017 * number % 0.11 + random.random() / 100)  # any time will do
            looper.send_signal(signal.SIGKILL)
        assert is_sound(root)
        told: list[str] = []
        for text in "abc":
            with cache(root, told) as use:
                if use.reuse(TASK, text) is None:
                    use.prepare(TASK)
                    make(root, text)
                    assert save(use, text), told
                assert is_made(root, text)
        assert told == []
    with Store(f"{root}/../cache") as store:
        prune(store, None, None)
    assert os.listdir(f"{root}/../cache/{TEMPORARY}") == []


def test_what_is_read_of_a_damaged_entry_is_never_used(root: str) -> None:
    """Every byte of an artifact and of the rows counts."""
    make(root, "x")
    with cache(root, []) as use:
        assert save(use, "k")
        assert use.store is not None
        entry = use.store.entry("k")
        assert entry is not None
        assert entry.artifact is not None
        path = use.store.path(entry.artifact)
    content = Path(path).read_bytes()
    for at in range(0, len(content), max(1, len(content) // 40)):
        Path(path).write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        with cache(root, []) as use:
            shutil.rmtree(f"{root}/dist")
            assert use.reuse(TASK, "k") is None
            assert not os.path.exists(f"{root}/dist/a")
            use.prepare(TASK)
            make(root, "x")
            assert save(use, "k")


def test_what_takes_long_is_left_unfinished_when_it_is_to_stop(root: str) -> None:
    make(root, "x")
    told: list[str] = []
    with cache(root, told) as use:
        assert save(use, "k")
    shutil.rmtree(f"{root}/dist")
    with cache(root, told) as use:
        use.stop()
        assert use.reuse(TASK, "k") is None
        shutil.rmtree(f"{root}/dist")
        make(root, "y")
        assert not save(use, "other")
    with cache(root, told) as use:
        reused = use.reuse(TASK, "k")
        assert reused is not None
        assert is_made(root, "x")
        assert use.reuse(TASK, "other") is None
    assert told == []


def test_an_entry_that_is_saved_again_takes_the_place_of_the_old_one(root: str) -> None:
    with cache(root, []) as use:
        for text in ("x", "y"):
            use.prepare(TASK)
            make(root, text)
            assert save(use, "k")
    assert len([*Path(root, "..", "cache", "artifacts").rglob("*.zst")]) == 1
    shutil.rmtree(f"{root}/dist")
    with cache(root, []) as use:
        assert use.reuse(TASK, "k") is not None
    assert is_made(root, "y")


@pytest.mark.parametrize("filled", [False, True])
def test_a_read_only_cache_is_one_warning(filled: bool) -> None:
    with as_an_owner() as place:
        root = f"{place}/w"
        os.mkdir(root)
        make(root, "x")
        if filled:
            with cache(root, []) as use:
                assert save(use, "k")
        else:
            os.mkdir(f"{place}/cache")
        parts = [f"{place}/cache", *(d for d, _, _ in os.walk(f"{place}/cache"))]
        files = [f"{d}/{name}" for d in parts for name in os.listdir(d)]
        for path in {*parts, *files}:
            os.chmod(path, 0o555)
        told: list[str] = []
        with cache(root, told) as use:
            assert use.reuse(TASK, "other") is None
            use.prepare(TASK)
            make(root, "y")
            assert not save(use, "other")
        for path in parts:
            os.chmod(path, 0o755)
        assert len(told) == 1, told
