"""What it costs vx to start and end a process, beside the bare calls of the system.

    python bench/spawn.py [--rounds 100]

vx is called in this process, through its nursery: a start, the wait for its exit, and the stop
that makes sure that nothing of it is left; beside it posix_spawn and waitpid of the same program,
in turns. A server is a shell that waits: a polite one ends at SIGTERM, a deaf one when its grace
is over. A nursery starts beside the tasks' planning, so its own start is given apart, as the time
until it answers, and beside a bare Python.
"""

import asyncio
import functools
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import measure
import psutil

from vxwatch.process.nursery import Launch, Nursery

PROGRAM = "/bin/true"
GRACE = 0.2
POLITE = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01 & wait; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.01; done"


async def _ignore(_stream: Literal["stdout", "stderr"], _data: bytes) -> None:
    """The program writes nothing."""


def bare() -> float:
    """Seconds of posix_spawn and waitpid."""
    begun = time.perf_counter()
    os.waitpid(os.posix_spawn(PROGRAM, [PROGRAM], {}), 0)
    return time.perf_counter() - begun


async def spawned(nursery: Nursery) -> float:
    """Seconds of a task from its start until nothing of it is left."""
    begun = time.perf_counter()
    tree = await nursery.launch(Launch((PROGRAM,), "/", {}), _ignore)
    await tree.wait()
    await tree.stop(signal.SIGTERM, GRACE, asyncio.Event())
    return time.perf_counter() - begun


async def stopped(nursery: Nursery, command: str) -> float:
    """Seconds that the stop of a server takes."""
    up = asyncio.Event()

    async def on_output(_stream: Literal["stdout", "stderr"], _data: bytes) -> None:
        up.set()

    environment = {"PATH": os.environ["PATH"]}
    tree = await nursery.launch(Launch(("/bin/sh", "-c", command), "/", environment), on_output)
    await up.wait()
    begun = time.perf_counter()
    await tree.stop(signal.SIGTERM, GRACE, asyncio.Event())
    return time.perf_counter() - begun


async def started() -> float:
    """Seconds from the request for a nursery to its first answer."""
    begun = time.perf_counter()
    async with Nursery.open() as nursery:
        await nursery.launch(Launch((PROGRAM,), "/", {}), _ignore)
        return time.perf_counter() - begun


async def run_all(rounds: int) -> None:
    """Print all tables."""
    spawn, start = "posix_spawn and waitpid", "a bare Python"
    async with Nursery.open() as nursery:
        taken = await measure.in_turns(
            {spawn: _at_once(bare), "vx": lambda: spawned(nursery)},
            rounds,
        )
        measure.compare(taken, spawn)
        more = [vx - plain for plain, vx in zip(*taken.values(), strict=True)]
        print(f"vx takes {statistics.median(more) * 1000:.2f} ms more (median).\n")
        taken = await measure.in_turns(
            {
                "a polite server": lambda: stopped(nursery, POLITE),
                "a deaf one, beyond its grace": lambda: _beyond(stopped(nursery, DEAF)),
            },
            max(3, rounds // 10),
        )
        _stops(taken)
        pss = measure.memory([psutil.Process(nursery.pid)])
    print(f"The nursery has {pss / 2**20:.1f} MiB (PSS).\n")
    argv = [measure.BARE_PYTHON[0], "-I", "-S", "-c", "pass"]
    taken = await measure.in_turns(
        {
            start: _at_once(functools.partial(measure.run_time, argv)),
            "a nursery and a first task": started,
        },
        max(3, rounds // 5),
    )
    measure.compare(taken, start)


def _at_once(case: Callable[[], float]) -> Callable[[], Awaitable[float]]:
    async def awaited() -> float:
        return case()

    return awaited


async def _beyond(stop: Awaitable[float]) -> float:
    return await stop - GRACE


def _stops(taken: dict[str, list[float]]) -> None:
    rows = [
        [name, f"{min(times) * 1000:.1f}", f"{statistics.median(times) * 1000:.1f}"]
        for name, times in taken.items()
    ]
    measure.table(["the stop of", "min ms", "median ms"], rows)


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    with measure.stage():
        print(measure.machine() + "\n")
        asyncio.run(run_all(given.rounds))


if __name__ == "__main__":
    main()
