"""Two processes never hold the lock of one task, and a dead one holds none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from vxwatch.cache.locks import Held, Lock, TaskLocks

HOLDER = """
import sys, time
from vxwatch.cache.locks import Lock, TaskLocks
taken = TaskLocks(sys.argv[1]).take("app#build", 12.5)
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
    while not isinstance(taken := locks.take("app#build", 0.0), Lock):
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
        assert locks.take("app#build", 0.0) == Held(other.pid, 12.5)
        another = locks.take("app#test", 0.0)
        assert isinstance(another, Lock)
        another.release()
        other.stdin.close()
    mine = locks.take("app#build", 0.0)
    assert isinstance(mine, Lock)
    mine.release()
    assert os.listdir(tmp_path / ".vx" / "locks") == []


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with start(HOLDER, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        other.send_signal(signal.SIGKILL)
    taken = TaskLocks(str(tmp_path)).take("app#build", 0.0)
    assert isinstance(taken, Lock)
    taken.release()


def test_locks_whose_files_come_and_go_still_exclude(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    others = [start(COUNTER, str(tmp_path), str(counter)) for _ in range(3)]
    for other in others:
        with other:
            assert other.wait(60) == 0
    assert counter.read_text() == "180"


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    locks = TaskLocks(str(tmp_path))
    first = locks.take("app#build", 0.0)
    assert isinstance(first, Lock)
    os.unlink(next((tmp_path / ".vx" / "locks").iterdir()))
    os.rmdir(tmp_path / ".vx" / "locks")
    first.release()
    second = locks.take("app#build", 0.0)
    assert isinstance(second, Lock)
    second.release()
    assert (tmp_path / ".vx" / ".gitignore").read_text() == "*\n"


def test_tasks_with_strange_names_have_locks_of_their_own(tmp_path: Path) -> None:
    locks = TaskLocks(str(tmp_path))
    names = ["a/b#c", "a_b#c", "//#c", "x" * 300 + "#1", "x" * 300 + "#2", "\udcff#c", "ü#c"]
    taken = [locks.take(name, 0.0) for name in names]
    assert all(isinstance(one, Lock) for one in taken)
    for one in taken:
        assert isinstance(one, Lock)
        one.release()
