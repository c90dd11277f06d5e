"""What becomes of one server that several ask for at once: they take turns, and the last one holds."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    nullcontext,
    suppress,
)
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.harness.waiting import wait_for
from vxwatch.events import Event, Outcome
from vxwatch.masking import Masker
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, make_plan
from vxwatch.session.servers import Server
from vxwatch.session.session import Session

SLOW = (
    "trap 'echo end >> log; sleep 0.1; echo gone >> log; exit 0' TERM; "
    "echo start >> log; sleep 0.3; echo READY; while :; do sleep 0.05; done"
)


class Silent:
    """A renderer that shows nothing."""

    def __call__(self, event: Event, /) -> None:
        pass

    def quiet(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def drained(self) -> None:
        return None


@asynccontextmanager
async def served(
    place: Path, restart: str = "on-change", command: str = SLOW
) -> AsyncIterator[Server]:
    """The server of a session that runs meanwhile."""
    (place / "vx.toml").write_text(
        f'[tasks.web]\ncommand = """{command}"""\n'
        f'[tasks.web.persistent]\nready_when = "READY"\nrestart = "{restart}"\n'
    )
    options = Options("watch", ("web",), str(place))
    plan = make_plan(options)
    with closing(Knowledge(plan, options, os.environ)) as known:
        async with Session(plan, options, Silent(), os.environ, Masker(), known) as session:
            session.learn()
            yield session.server(session.workspace.task(plan.requested[0]))


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test as one that pytest can call."""

    @wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**given), 60))

    return run


def lives(place: Path) -> list[str]:
    """What the lives of the server did, in order."""
    return (place / "log").read_text().split()


async def _started(place: Path, times: int) -> None:
    def fact() -> bool:
        return (place / "log").exists() and lives(place).count("start") >= times

    await asyncio.to_thread(wait_for, fact, f"start {times}")


def _statuses(outcomes: list[Outcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


@in_a_loop
async def test_the_same_wish_of_several_is_one_start(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        wishes = [server.ensure(server.task, "1") for _ in range(5)]
        assert _statuses(await asyncio.gather(*wishes)) == ["ready"] * 5
        assert lives(tmp_path) == ["start"]
        assert (await server.ensure(server.task, "1")).status == "kept"


@in_a_loop
async def test_a_wish_gives_up_the_start_of_an_earlier_one_and_all_hear_of_the_last(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as server:
        first = asyncio.create_task(server.ensure(server.task, "1"))
        await _started(tmp_path, 1)
        others = [asyncio.create_task(server.ensure(server.task, str(n))) for n in (2, 3, 4)]
        assert _statuses(await asyncio.gather(first, *others)) == ["ready"] * 4
        assert server.fingerprint == "4"
        assert lives(tmp_path) == ["start", "end", "gone", "start"]


@in_a_loop
async def test_a_restart_is_another_process_and_starts_once_for_all_who_ask(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, "never") as server:
        await server.ensure(server.task, "1")
        asked = await asyncio.gather(server.restart(), server.restart())
        assert _statuses(list(asked)) == ["ready"] * 2
        assert lives(tmp_path) == ["start", "end", "gone", "start"]


@pytest.mark.parametrize("amid_a_cycle", [True, False])
@in_a_loop
async def test_what_a_restart_amid_a_cycle_began_from_fits_no_wish(
    tmp_path: Path, amid_a_cycle: bool
) -> None:
    """What it depends on may have been restored to another state then, and back to this one."""
    async with served(tmp_path) as server:
        await server.ensure(server.task, "1")
        server._session.cycling = amid_a_cycle
        assert (await server.restart()).status == "ready"
        server._session.cycling = False
        again = await server.ensure(server.task, "1")
        assert again.status == ("ready" if amid_a_cycle else "kept")


@in_a_loop
async def test_who_no_longer_waits_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = asyncio.create_task(server.ensure(server.task, "1"))
        await _started(tmp_path, 1)
        second = asyncio.create_task(server.ensure(server.task, "1"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).status == "ready"
        assert lives(tmp_path) == ["start"]


@pytest.mark.parametrize("ready", [True, False])
@in_a_loop
async def test_the_end_overtakes_all_wishes(tmp_path: Path, ready: bool) -> None:
    async with served(tmp_path) as server:
        wishes = [asyncio.create_task(server.ensure(server.task, "1"))]
        await _started(tmp_path, 1)
        if ready:
            await wishes[0]
        wishes.append(asyncio.create_task(server.ensure(server.task, "2")))
        wishes.append(asyncio.create_task(server.restart()))
        await asyncio.sleep(0)
        await server.end()
        outcomes = _statuses(await asyncio.gather(*wishes))
        assert outcomes[1:] == ["aborted"] * 2
        assert not server.alive
        assert lives(tmp_path) == ["start", "end", "gone"]


ALONE = (
    "exec 9> lock; flock -n 9 || echo clash >> log; echo $$ >> pids; "
    "trap 'sleep 0.02; exit 0' TERM; sleep 0.0$(( $$ % 10 )); echo READY; "
    "while :; do sleep 0.02; done"
)


def _kill_the_last(place: Path) -> None:
    pids = (place / "pids").read_text().split() if (place / "pids").exists() else []
    if pids:
        with suppress(ProcessLookupError):
            os.kill(int(pids[-1]), signal.SIGKILL)


@in_a_loop
async def test_whatever_is_asked_at_once_one_life_follows_the_other_and_the_last_wish_holds(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get("WISHES", random.randrange(1 << 30)))
    print(f"WISHES={seed}")
    chance = random.Random(seed)
    async with served(tmp_path, "on-crash", ALONE) as server:
        asked: list[asyncio.Task[Outcome]] = []
        for number in range(150):
            match chance.randrange(8):
                case 0:
                    _kill_the_last(tmp_path)
                case 1:
                    asked.append(asyncio.create_task(server.restart()))
                case 2 if asked:
                    chance.choice(asked).cancel()
                case 3:
                    server.give_up(str(number))
                case 4 if not chance.randrange(4):
                    await server.end()
                case _:
                    wish = str(number if chance.randrange(2) else number // 10)
                    asked.append(asyncio.create_task(server.ensure(server.task, wish)))
            await asyncio.sleep(chance.choice((0, 0, 0.005, 0.03, 0.1)))
        assert (await server.ensure(server.task, "last")).ok
        await asyncio.gather(*asked, return_exceptions=True)
        ended = [one for one in asked if not one.cancelled()]
        assert {one.result().status for one in ended} <= {"ready", "kept", "aborted", "failed"}
        assert (server.alive, server.fingerprint) == (True, "last")
    assert not (tmp_path / "log").exists()
