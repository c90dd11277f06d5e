"""Waiting for whichever comes first, with nothing left running behind."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def race(*waits: Coroutine[Any, Any, object], within: float | None = None) -> int | None:
    """The index of the first to finish, or None when `within` seconds (None: no bound) passed.

    The others are cancelled and have ended when this returns. An exception of the winner is
    raised, in the exception group that a TaskGroup makes of it.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return next((i for i, task in enumerate(tasks) if task in done), None)
