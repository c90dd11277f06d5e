"""A copy of the process does its part, and is gone when the block ends or vx is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.harness.processes import alive
from tests.harness.waiting import wait_for
from vxwatch.process.twin import SHORTEST, Twin, pays


def test_it_pays_where_there_is_much_to_do_and_another_core() -> None:
    cores = os.sched_getaffinity(0)
    assert pays(SHORTEST) == (len(cores) > 1)
    assert not pays(SHORTEST / 2)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert not pays(SHORTEST)
    finally:
        os.sched_setaffinity(0, cores)


def test_it_makes_its_part_beside_ours() -> None:
    ours = os.getpid()
    with Twin(lambda: iter([os.getpid(), b"\xff\0", ("a\udcff", True)])) as twin:
        made = twin.result()
    assert made is not None
    assert made[0] != ours
    assert made[1:] == [b"\xff\0", ("a\udcff", True)]


def test_many_answers_wait_for_nobody() -> None:
    with Twin(lambda: (bytes(1 << 16) for _ in range(64))) as twin:
        made = twin.result()
    assert made == [bytes(1 << 16)] * 64


def _fails() -> Iterator[int]:
    yield 1
    raise OSError


def _dies() -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@pytest.mark.parametrize("work", [_fails, _dies, lambda: [object()]], ids=["raise", "die", "what"])
def test_one_that_fails_has_no_result(work: object, capfd: pytest.CaptureFixture[str]) -> None:
    assert callable(work)
    with Twin(work) as twin:
        assert twin.result() is None
    assert capfd.readouterr() == ("", "")


def _endless() -> Iterator[int]:
    while True:
        time.sleep(0.01)
        yield 1


def test_it_is_gone_when_the_block_is_left() -> None:
    with Twin(_endless) as twin:
        pid = twin.pid
    assert not os.path.exists(f"/proc/{pid}")


def test_it_ends_soon_when_its_process_is_killed() -> None:
    code = (
        "from tests.real.test_twin import _endless\nfrom vxwatch.process.twin import Twin\nimport time\n"
        "with Twin(_endless) as twin:\n    print(twin.pid, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    wait_for(lambda: not alive(pid), "the copy is gone")
