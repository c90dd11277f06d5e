"""Watchers under test: one of each engine, what it told so far, and waiting for more."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator

from tests.harness.waiting import patience
from vxwatch.watch.engines import Engine, open_watcher
from vxwatch.watch.scope import Scope
from vxwatch.watch.watcher import TreeWatcher

ENGINES: tuple[Engine, ...] = ("inotify", "watchfiles", "poll")


class Heard:
    """Everything a watcher told, in sets that only grow."""

    def __init__(self, watcher: TreeWatcher, notices: list[str]) -> None:
        self.watcher = watcher
        self.notices = notices
        self.paths: set[str] = set()
        self.rescan: set[str] = set()
        self._more = asyncio.Event()

    def covers(self, *paths: str) -> bool:
        """Whether each path was told, or lies in a directory to look through."""
        return not self.missing(paths)

    def missing(self, paths: tuple[str, ...]) -> list[str]:
        return [path for path in paths if path not in self.paths and not self._rescanned(path)]

    async def until(self, *paths: str, seconds: float = 10.0) -> None:
        """Wait until all of these were told."""
        await self.until_true(
            lambda: self.covers(*paths), lambda: f"not told: {self.missing(paths)}", seconds
        )

    async def until_true(
        self, fact: Callable[[], bool], what: Callable[[], str], seconds: float = 10.0
    ) -> None:
        try:
            async with asyncio.timeout(patience(seconds)):
                while not fact():
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(
                f"{what()}; told {sorted(self.paths)[:40]}, {self.rescan}"
            ) from None

    def forget(self) -> None:
        self.paths.clear()
        self.rescan.clear()

    async def collect(self) -> None:
        while True:
            batch = await self.watcher.next()
            self.paths |= batch.paths
            self.rescan |= batch.rescan
            self._more.set()

    def _rescanned(self, path: str) -> bool:
        return any(path == top or path.startswith(top and top + "/") for top in self.rescan)


@contextlib.asynccontextmanager
async def watching(scope: Scope, engine: Engine) -> AsyncIterator[Heard]:
    """A watcher of the scope whose batches are collected from the start."""
    notices: list[str] = []
    with scratch() as directory:
        async with open_watcher(scope, directory, notices.append, engine) as watcher:
            heard = Heard(watcher, notices)
            collecting = asyncio.ensure_future(heard.collect())
            try:
                yield heard
            finally:
                collecting.cancel()
                await asyncio.wait([collecting])
        assert os.listdir(directory) == []


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def write(path: str, text: str = "x") -> None:
    """Write a file whose directory may be missing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
