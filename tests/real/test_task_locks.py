"""Two processes never hold the lock of one task, and a dead one holds none."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vxwatch.cache.locks import Held, Lock, TaskLocks

HOLDER = """
import sys, time
from vxwatch.cache.locks import Lock, TaskLocks
taken = TaskLocks(sys.argv[1]).take("app#build")
assert isinstance(taken, Lock), taken
print("held", flush=True)
sys.stdin.read()
taken.release()
"""
COUNTER = """
import os, sys, time
from vxwatch.cache.locks import Lock, TaskLocks
locks, counter = TaskLocks(sys.argv[1]), sys.argv[2]
for _ in range(60):
    while not isinstance(taken := locks.take("app#build"), Lock):
        time.sleep(0.0005)
    with open(counter) as file:
        number = int(file.read())
    os.sched_yield()
    with open(counter, "w") as file:
        file.write(str(number + 1))
    taken.release()
"""


def start(code: str, *words: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-c", code, *words]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_who_holds_a_lock_is_named_until_it_lets_go(tmp_path: Path) -> None:
    locks = TaskLocks(str(tmp_path))
    with start(HOLDER, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        assert locks.take("app#build") == Held(other.pid)
        another = locks.take("app#test")
        assert isinstance(another, Lock)
        another.release()
        other.stdin.close()
    assert isinstance(locks.take("app#build"), Lock)
    locks.close()


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with start(HOLDER, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        other.send_signal(signal.SIGKILL)
    locks = TaskLocks(str(tmp_path))
    assert isinstance(locks.take("app#build"), Lock)
    locks.close()


def test_locks_exclude(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    others = [start(COUNTER, str(tmp_path), str(counter)) for _ in range(3)]
    for other in others:
        with other:
            assert other.wait(60) == 0
    assert counter.read_text() == "180"


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    locks = TaskLocks(str(tmp_path))
    first = locks.take("app#build")
    assert isinstance(first, Lock)
    shutil.rmtree(tmp_path / ".vx")
    second = locks.take("app#test")
    assert isinstance(second, Lock)
    with start(HOLDER, str(tmp_path)) as other:  # it does not know of the first
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        assert locks.take("app#build") == Held(other.pid)
        other.stdin.close()
    first.release()
    second.release()
    locks.close()
    assert (tmp_path / ".vx" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("name", ["a_b#c", "//#c", "x" * 300 + "#2", "\udcff#c", "ü#c"])
def test_every_task_has_a_lock_of_its_own(tmp_path: Path, name: str) -> None:
    with start(HOLDER, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        locks = TaskLocks(str(tmp_path))
        assert isinstance(locks.take(name), Lock)
        locks.close()
        other.stdin.close()
