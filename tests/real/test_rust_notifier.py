"""What is made up for in the watchfiles package."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.harness.watching import Heard, watching, write
from vxwatch.watch import rustnotify
from vxwatch.watch.rustnotify import MOST_INSTANCES, RustNotifier
from vxwatch.watch.scope import Scope


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


@contextlib.asynccontextmanager
async def hearing(root: str) -> AsyncIterator[Heard]:
    async with watching(Scope(root, trees=frozenset({""})), "watchfiles") as heard:
        yield heard


def live(heard: Heard) -> int:
    notifier = heard.watcher._notifier
    assert isinstance(notifier, RustNotifier)
    return len(notifier._instances) + len(notifier._ending)


def watching_threads() -> int:
    return sum(thread.name == "vx-watch" for thread in threading.enumerate())


def test_instances_become_one_when_it_is_quiet(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rustnotify, "MERGE_AFTER", 0.2)

    async def test() -> None:
        async with hearing(root) as heard:
            for number in range(3):
                write(f"{root}/d{number}/f")
                await heard.until(f"d{number}/f")
            await _until_one(heard)
            heard.forget()
            for number in range(3):
                write(f"{root}/d{number}/f", "again")
            await heard.until(*(f"d{number}/f" for number in range(3)))

    run(test())


def test_instances_stay_few_and_merging_loses_nothing(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rustnotify, "MERGE_AFTER", 0.02)

    async def test() -> None:
        async with hearing(root) as heard:
            writing = asyncio.ensure_future(asyncio.to_thread(_write_on, root))
            most = 0
            while not writing.done():
                await asyncio.sleep(0.005)
                most = max(most, live(heard))
            await heard.until(*await writing)
            assert most <= 2 * MOST_INSTANCES  # those that end are there for a moment longer
            await _until_one(heard)

    run(test())


def _write_on(root: str) -> list[str]:
    pause, names = threading.Event(), []
    for number in range(300):
        names.append(
            f"d{number}/deep/f" if number % 3 == 0 else f"d{number - number % 3}/g{number}"
        )
        write(f"{root}/{names[-1]}")
        pause.wait(0.005)
    return names


async def _until_one(heard: Heard) -> None:
    async with asyncio.timeout(20):
        while live(heard) > 1 or watching_threads() > 1:  # noqa: ASYNC110 - numbers, not events
            await asyncio.sleep(0.01)


def test_many_changes_at_once_may_be_too_many(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rustnotify, "BURST", 0)

    async def test() -> None:
        async with hearing(root) as heard:
            write(f"{root}/f")
            await heard.until_true(lambda: "" in heard.rescan, lambda: "no rescan")

    run(test())


def test_a_pause_of_this_process_may_have_lost_events(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rustnotify, "_BEAT", 0.02)
    monkeypatch.setattr(rustnotify, "_LATE", 0.2)

    async def test() -> None:
        async with hearing(root) as heard:
            time.sleep(0.4)  # noqa: ASYNC251 - the loop stands still, as when the process is stopped
            await heard.until_true(lambda: "" in heard.rescan, lambda: "no rescan")

    run(test())


def test_a_name_that_breaks_an_instance_and_is_gone_costs_no_polling(root: str) -> None:
    async def test() -> None:
        async with hearing(root) as heard:
            odd = os.fsencode(root) + b"/\xff"
            os.mkdir(odd)
            os.rmdir(odd)
            await heard.until_true(lambda: "" in heard.rescan, lambda: "no rescan")
            heard.forget()
            write(f"{root}/new/f")
            await heard.until("new/f")
            assert heard.notices == []

    run(test())


def test_an_engine_that_keeps_failing_is_given_up_for_polling(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rustnotify, "_MOST_FAILURES", 2)
    monkeypatch.setattr(rustnotify, "_is_unfit", lambda _: False)

    async def test() -> None:
        async with hearing(root) as heard:
            for number in range(200):
                if heard.notices:
                    break
                write(f"{root}/{os.fsdecode(bytes([255 - number % 50]))}{number}")
                await asyncio.sleep(0.05)
            assert len(heard.notices) == 1
            assert "polling" in heard.notices[0]
            heard.forget()
            write(f"{root}/new/f")
            await heard.until("new/f")

    run(test())
