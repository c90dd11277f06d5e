"""Launches shell commands in a nursery and keeps what they write."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.harness.waiting import patience
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.process.pipes import Stream
from vxwatch.process.tree import Exit, Tree

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


class Heard:
    """What a tree wrote, and the wait for some of it."""

    def __init__(self) -> None:
        self.stdout = b""
        self.stderr = b""
        self._news = asyncio.Event()

    async def __call__(self, stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            self.stdout += data
        else:
            self.stderr += data
        self._news.set()

    async def until(self, text: bytes) -> bytes:
        """Everything on stdout, once it holds this text."""
        async with asyncio.timeout(patience(10)):
            while text not in self.stdout:
                self._news.clear()
                await self._news.wait()
        return self.stdout


def sh(command: str, **options: Any) -> Launch:
    """A launch of `sh -c`, in / and with little environment unless told otherwise."""
    argv = ("/bin/sh", "-c", command)
    return Launch(**{"argv": argv, "cwd": "/", "env": ENVIRONMENT, **options})


async def end(tree: Tree, sig: int = signal.SIGTERM, grace: float = 20.0) -> Exit:
    """Stop the tree with nobody in a hurry; fails when that takes far too long."""
    async with asyncio.timeout(patience(grace + 10)):
        return await tree.stop(sig, grace, asyncio.Event())


async def until(fact: Callable[[], bool]) -> None:
    """Wait for a fact of which nothing tells."""
    async with asyncio.timeout(patience(10)):
        while not fact():  # noqa: ASYNC110  # no event tells of another process
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(command: str, ready: bytes = b"up\n", **options: Any) -> AsyncIterator[Tree]:
    """A nursery with one tree that has said it is up."""
    async with Nursery.open() as nursery:
        heard = Heard()
        tree = await nursery.launch(sh(command, **options), heard)
        await heard.until(ready)
        yield tree
