"""A nursery's process that was started ahead serves the nursery that is opened, or is gone."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.harness.processes import Seen, descendants
from tests.harness.trees import Heard, sh
from tests.harness.waiting import patience, wait_for
from vxwatch.process import ahead
from vxwatch.process.nursery import Nursery


def nurseries() -> list[Seen]:
    return [seen for seen in descendants() if any("nursery_main" in word for word in seen.argv)]


def the_nursery() -> Seen:
    """The only one, once it can be told from others: its arguments show a moment after its start."""
    (one,) = wait_for(nurseries, "a nursery")
    return one


async def _three(nursery: Nursery) -> int | None:
    tree = await nursery.launch(sh("exit 3"), Heard())
    async with asyncio.timeout(patience(10)):
        return (await tree.wait()).code


def test_the_nursery_that_is_opened_takes_it_over() -> None:
    async def scenario(pid: int) -> None:
        async with Nursery.open() as nursery:
            assert nursery.pid == pid
            assert await _three(nursery) == 3
        assert nurseries() == []
        async with Nursery.open() as other:
            assert other.pid != pid
            assert await _three(other) == 3

    with ahead.started():
        asyncio.run(scenario(the_nursery().pid))
    assert nurseries() == []


@pytest.mark.parametrize("fault", [None, KeyboardInterrupt])
def test_it_is_gone_where_none_is_opened(fault: type[BaseException] | None) -> None:
    pid = 0
    with suppress(KeyboardInterrupt), ahead.started():
        pid = the_nursery().pid
        if fault is not None:
            raise fault
    assert nurseries() == []
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_nursery_that_is_to_lend_the_terminal_is_another_one() -> None:
    with ahead.started():
        one = the_nursery()
        other = ahead.begin(own_session=False)
        assert other.process.pid != one.pid
        other.pair.close()
        assert other.process.wait(patience(10)) == 0
    assert nurseries() == []


def test_one_that_was_stopped_meanwhile_goes_on() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            assert await _three(nursery) == 3

    with ahead.started():
        one = the_nursery()
        os.kill(one.pid, signal.SIGSTOP)
        wait_for(lambda: the_nursery().state == "T", "that it is stopped")
        asyncio.run(scenario())


def test_where_no_process_can_be_started_it_is_for_the_nursery_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    with ahead.started():
        assert nurseries() == []


def test_kill_9_of_who_started_it_ends_it() -> None:
    code = (
        "import sys; from vxwatch.process.ahead import started\n"
        "with started(): print('up', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        the_nursery()
        process.kill()
    wait_for(lambda: not nurseries(), "the end of what was started")
