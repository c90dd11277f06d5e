"""What the watch loop is given: what really changed, settled, and nothing twice or never."""

import asyncio
import contextlib
import hashlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.harness.waiting import patience
from tests.harness.watching import ENGINES, scratch, write
from vxwatch.watch import judge, loop
from vxwatch.watch.engines import Engine, open_watcher
from vxwatch.watch.gitlock import GitLock, git_directory
from vxwatch.watch.judge import FREE
from vxwatch.watch.loop import ChangeFeed
from vxwatch.watch.scope import Scope
from vxwatch.watch.watcher import Batch

TICK = 0.02
"""File times may be this coarse."""

every_engine = pytest.mark.parametrize("engine", ENGINES)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


class Index:
    """Content by path, as a session keeps it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen = self._walk("")

    def refresh(self, paths: Collection[str]) -> frozenset[str]:
        return frozenset().union(*(self.rescan(path) for path in paths))

    def rescan(self, tree: str) -> frozenset[str]:
        now = self._walk(tree)
        before = {path: seen for path, seen in self.seen.items() if _within(path, tree)}
        for path in before:
            del self.seen[path]
        self.seen |= now
        return frozenset(path for path in now | before if now.get(path) != before.get(path))

    def _walk(self, tree: str) -> dict[str, bytes]:
        top = os.path.join(self.root, tree).rstrip("/")
        files = [os.path.join(here, name) for here, _, names in os.walk(top) for name in names]
        found = {}
        for path in files or [top]:
            with contextlib.suppress(OSError):
                found[os.path.relpath(path, self.root)] = _digest(path)
        return {
            path: seen for path, seen in found.items() if not path.startswith((".git", "dist/"))
        }


def _digest(path: str) -> bytes:
    if os.path.islink(path):
        return os.fsencode(os.readlink(path))
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read()).digest()


def _within(path: str, tree: str) -> bool:
    return not tree or path == tree or path.startswith(f"{tree}/")


class Feed:
    """A feed over a whole directory with its index and what it said to the user."""

    def __init__(self, root: str, feed: ChangeFeed, index: Index, notices: list[str]) -> None:
        self.root = root
        self.feed = feed
        self.index = index
        self.notices = notices

    async def next(self, seconds: float = 10.0) -> frozenset[str]:
        async with asyncio.timeout(patience(seconds)):
            return await self.feed.next()

    async def until(self, *paths: str) -> list[frozenset[str]]:
        """Deliveries until all these paths were given."""
        given: list[frozenset[str]] = []
        while not frozenset().union(*given).issuperset(paths):
            given.append(await self.next())
        return given

    async def nothing_before(self, path: str) -> None:
        """Change the path, and see that it is the first to be given."""
        write(f"{self.root}/{path}", str(random.random()))
        assert await self.next() == {path}


@contextlib.asynccontextmanager
async def feeding(root: str, engine: Engine = "inotify", **options: Any) -> AsyncIterator[Feed]:
    notices: list[str] = []
    scope = Scope(
        root,
        trees=frozenset({""}),
        pruned=lambda paths: [p for p in paths if os.path.basename(p) in {".git", "dist"}],
    )
    with scratch() as directory:
        watcher = open_watcher(scope, directory, lambda _: None, engine)
        index = Index(root)
        changes = ChangeFeed(watcher, root, index.refresh, index.rescan, notices.append, **options)
        async with changes:
            index.rescan("")
            yield Feed(root, changes, index, notices)


@every_engine
def test_each_save_is_one_delivery_of_one_path(root: str, engine: Engine) -> None:
    async def test() -> None:
        path = f"{root}/src/a.txt"
        write(path, "0")
        async with feeding(root, engine) as feed:
            for turn in range(1, 4):
                write(f"{root}/src/.a.swp", str(turn))
                os.rename(f"{root}/src/.a.swp", path)
                assert await feed.next() == {"src/a.txt"}
            os.rename(path, f"{path}~")
            write(path, "4")
            os.unlink(f"{path}~")
            assert await feed.next() == {"src/a.txt"}

    run(test())


@every_engine
def test_what_leaves_the_content_as_it_was_is_not_given(root: str, engine: Engine) -> None:
    async def test() -> None:
        path = f"{root}/src/a"
        write(path, "same")
        async with feeding(root, engine) as feed:
            os.utime(path)
            os.chmod(path, 0o600)
            write(path, "same")
            write(f"{root}/src/.tmp", "same")
            os.rename(f"{root}/src/.tmp", path)
            write(f"{root}/src/4913")
            os.unlink(f"{root}/src/4913")
            os.mkdir(f"{root}/src/empty")
            await feed.nothing_before("src/b")

    run(test())


@every_engine
def test_an_old_date_hides_no_content(root: str, engine: Engine) -> None:
    async def test() -> None:
        path, old = f"{root}/src/a", f"{root}/dist/old"
        write(path, "aaaa")
        write(old, "bbbb")
        os.utime(old, (1e9, 1e9))
        async with feeding(root, engine) as feed:
            shutil.copy2(old, path)
            assert await feed.next() == {"src/a"}
            write(f"{root}/dist/new", "cccc")
            shutil.copystat(old, f"{root}/dist/new")
            os.rename(f"{root}/dist/new", path)
            assert await feed.next() == {"src/a"}
            with open(path, "r+") as file:  # noqa: ASYNC230 - a small file
                file.write("dddd")
            shutil.copystat(old, path)
            assert await feed.next() == {"src/a"}

    run(test())


@every_engine
def test_changes_of_a_cycle_are_kept_until_they_are_asked_for(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/a", "0")
        async with feeding(root, engine) as feed:
            with feed.feed.cycle():
                write(f"{root}/a", "1")
                await asyncio.to_thread(write, f"{root}/deep/new/b", "1")
                write(f"{root}/a", "2")
            given = await feed.until("a", "deep/new/b")
            assert len(given) <= (2 if engine == "poll" else 1)

    run(test())


@every_engine
def test_changes_can_be_taken_while_a_cycle_runs(root: str, engine: Engine) -> None:
    async def test() -> None:
        async with feeding(root, engine) as feed:
            with feed.feed.cycle():
                write(f"{root}/a", "1")
                assert await feed.next() == {"a"}

    run(test())


def test_a_look_sees_what_no_event_has_told_yet_and_belongs_to_its_cycle(root: str) -> None:
    async def test() -> None:
        async with feeding(root, "inotify") as feed:
            with feed.feed.cycle():
                write(f"{root}/a", "1")
                assert feed.feed.look() == {"a"}
                assert feed.feed.look() == frozenset()
                async with asyncio.timeout(patience(10)):
                    assert await feed.feed.glance() == {"a"}
                write(f"{root}/b", "1")
                assert feed.feed.look() == {"b"}
            assert await feed.next() == {"a", "b"}
            with feed.feed.cycle():
                write(f"{root}/c", "1")
                async with asyncio.timeout(patience(10)):
                    assert await feed.feed.glance() == {"c"}

    run(test())


@every_engine
def test_what_is_glanced_at_is_given_even_if_it_changed_back(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/a", "before")
        async with feeding(root, engine) as feed:
            with feed.feed.cycle():
                for text in ("between", "before"):
                    write(f"{root}/a", text)
                    async with asyncio.timeout(patience(10)):
                        assert await feed.feed.glance() == {"a"}
            assert await feed.next() == {"a"}
            await feed.nothing_before("b")

    run(test())


@every_engine
def test_what_somebody_else_saw_half_written_is_given_once(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/src/a", "before")
        async with feeding(root, engine) as feed:
            write(f"{root}/src/a", "")
            feed.feed.add(feed.index.refresh(["src/a"]))
            write(f"{root}/src/a", "whole")
            assert await feed.next() == {"src/a"}
            await feed.nothing_before("src/b")

    run(test())


def test_a_writer_that_never_pauses_holds_nothing_back(root: str) -> None:
    async def test() -> None:
        stop = threading.Event()

        def scribble() -> None:
            number = 0
            while not stop.wait(0.002):
                number += 1
                write(f"{root}/log", str(number))

        async with feeding(root, quiet=0.5) as feed:
            writing = asyncio.ensure_future(asyncio.to_thread(scribble))
            try:
                start = time.monotonic()
                for _ in range(2):
                    assert await feed.next() == {"log"}
                assert (
                    time.monotonic() - start > 0.9
                )  # settled by the bound, not between two writes
            finally:
                stop.set()
                await writing

    run(test())


@every_engine
def test_cancelling_a_call_loses_nothing(root: str, engine: Engine) -> None:
    async def test() -> None:
        names = [f"d{i % 4}/f{i}" for i in range(12 if engine == "poll" else 150)]
        async with feeding(root, engine) as feed:
            writing = asyncio.ensure_future(asyncio.to_thread(_write_slowly, root, names))
            given: set[str] = set()
            chance, end = random.Random(3), time.monotonic() + 30
            while not given.issuperset(names) and time.monotonic() < end:
                call = asyncio.ensure_future(feed.feed.next())
                await asyncio.wait([call], timeout=chance.choice([0, 0.003, 0.016, 0.02, 0.5]))
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    given |= await call
            await writing
            assert given == set(names)

    run(test())


def _write_slowly(root: str, names: list[str]) -> None:
    pause = threading.Event()
    for name in names:
        write(f"{root}/{name}")
        pause.wait(0.003)


@every_engine
def test_every_one_of_many_random_edits_is_given(root: str, engine: Engine) -> None:
    """Files and trees are made, edited, removed and renamed; the index ends up right."""

    async def test() -> None:
        async with feeding(root, engine) as feed:
            for seed in range(2 if engine == "poll" else 12):
                await asyncio.to_thread(_shuffle, root, random.Random(seed))
                write(f"{root}/end", str(seed))
                await feed.until("end")
                # A tree that is still to be listed may come a moment later.
                while feed.index.seen != Index(root).seen:
                    await feed.next()

    run(test())


def _shuffle(root: str, chance: random.Random) -> None:
    for _ in range(60):
        one, two = (f"{root}/{chance.choice('abcd')}/{chance.choice('xyz')}" for _ in range(2))
        with contextlib.suppress(OSError):
            match chance.randrange(6):
                case 0 | 1:
                    write(f"{one}/{chance.choice('pq')}/f", str(chance.random()))
                case 2:
                    write(f"{one}/g", str(chance.random()))
                case 3:
                    os.rename(one, two)
                case 4:
                    shutil.rmtree(one)
                case _:
                    os.rename(os.path.dirname(one), f"{root}/{chance.choice('abcd')}")


def test_a_cycle_ends_in_what_the_new_scope_holds(root: str) -> None:
    async def test() -> None:
        write(f"{root}/one/f")
        write(f"{root}/two/f")
        async with feeding(root) as feed:
            feed.feed.replace(Scope(root, trees=frozenset({"one"})))
            write(f"{root}/two/f", "unseen")
            await feed.nothing_before("one/f")
            feed.feed.replace(Scope(root, trees=frozenset({"one", "two"})))
            assert await feed.next() == {"two/f"}

    run(test())


# git


def git(root: str, *argv: str) -> None:
    identity = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
        "-c",
        "init.defaultBranch=main",
    ]
    subprocess.run(["git", *identity, *argv], cwd=root, check=True, capture_output=True)


@every_engine
def test_a_branch_switch_is_one_delivery_of_what_differs(root: str, engine: Engine) -> None:
    async def test() -> None:
        git(root, "init", "-q")
        for number in range(200):
            write(f"{root}/src/d{number % 20}/f{number}", "main")
        git(root, "add", ".")
        git(root, "commit", "-qm", "main")
        git(root, "checkout", "-qb", "other")
        shutil.rmtree(f"{root}/src/d3")
        for number in range(400):
            write(f"{root}/src/d{number % 40}/f{number}", "other")
        git(root, "add", ".")
        git(root, "commit", "-qm", "other")
        async with feeding(root, engine) as feed:
            for branch in ("main", "other", "main"):
                await asyncio.to_thread(git, root, "checkout", "-q", branch)
                first = await feed.next()
                if engine == "inotify":  # the others hear of the last files a moment later
                    assert feed.index.seen == Index(root).seen, len(first)
                while feed.index.seen != Index(root).seen:
                    await feed.next()

    run(test())


def test_nothing_is_given_while_git_holds_its_lock(root: str) -> None:
    async def test() -> None:
        git(root, "init", "-q")
        async with feeding(root) as feed:
            write(f"{root}/.git/index.lock")
            write(f"{root}/a")
            call = asyncio.ensure_future(feed.next())
            done, _ = await asyncio.wait([call], timeout=0.3)
            assert not done
            write(f"{root}/b")
            os.unlink(f"{root}/.git/index.lock")
            assert await call == {"a", "b"}
            assert feed.notices == []

    run(test())


def test_a_lock_that_stays_is_given_up_once(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_LOCK_BOUND", 0.3)

    async def test() -> None:
        git(root, "init", "-q")
        async with feeding(root) as feed:
            write(f"{root}/.git/index.lock")
            await feed.nothing_before("a")
            assert len(feed.notices) == 1
            assert "index.lock" in feed.notices[0]
            monkeypatch.setattr(loop, "_LOCK_BOUND", 1000.0)
            await feed.nothing_before("a")
            assert len(feed.notices) == 1

    run(test())


def test_the_lock_is_found_from_below_and_in_linked_worktrees(root: str) -> None:
    git(root, "init", "-q", "repo")
    write(f"{root}/repo/sub/deep/f")
    git(f"{root}/repo", "add", ".")
    git(f"{root}/repo", "commit", "-qm", "one")
    git(f"{root}/repo", "worktree", "add", "-q", "../linked")
    assert git_directory(f"{root}/repo/sub/deep") == f"{root}/repo/.git"
    assert git_directory(f"{root}/linked/sub") == f"{root}/repo/.git/worktrees/linked"
    lock = GitLock(f"{root}/linked")
    assert not lock.held()
    write(f"{root}/repo/.git/worktrees/linked/index.lock")
    assert lock.held()
    assert not GitLock(f"{root}/repo").held()


def test_outside_of_git_there_is_no_lock() -> None:
    assert not GitLock("/proc/self").held()


# A watch that would wake itself


@every_engine
def test_a_loop_is_slowed_down_and_named(
    root: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "PAUSE", 0.1)

    async def test() -> None:
        async with feeding(root, engine) as feed:
            turns = 0
            while not feed.notices:
                turns += 1
                with feed.feed.cycle():
                    write(f"{root}/gen/now.txt", str(turns))
                    write(f"{root}/gen/same.txt", "always")
                if turns == 1:
                    assert await feed.next() == {"gen/now.txt", "gen/same.txt"}
                else:
                    assert await feed.next() == {"gen/now.txt"}
            assert FREE + 2 <= turns < 10  # more where an event came very late
            assert "gen/now.txt" in feed.notices[0]
            assert "git-ignore" in feed.notices[0]

    run(test())


def test_what_is_held_back_is_given_with_the_next_edit(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "FREE", 0)
    monkeypatch.setattr(judge, "PAUSE", 1000.0)

    async def test() -> None:
        async with feeding(root) as feed:
            with feed.feed.cycle():
                write(f"{root}/gen", "1")
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await feed.feed.next()
            await asyncio.sleep(TICK)
            write(f"{root}/src", "edit")
            assert await feed.next() == {"gen", "src"}

    run(test())


@every_engine
def test_edits_between_cycles_are_never_held_back(root: str, engine: Engine) -> None:
    async def test() -> None:
        async with feeding(root, engine) as feed:
            for turn in range(8):
                with feed.feed.cycle():
                    pass
                await asyncio.sleep(TICK)
                write(f"{root}/src", str(turn))
                assert await feed.next() == {"src"}
            assert feed.notices == []

    run(test())


# Ends


class Broken:
    """A watcher that fails while it is listened to."""

    lag = settles = 0.0
    late = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    async def next(self) -> Batch:
        raise RuntimeError("broken")

    def take(self) -> Batch:
        return Batch()

    def doubt(self, paths: Iterable[str], trees: Iterable[str] = ()) -> None:
        pass

    def replace(self, scope: Scope) -> None:
        pass


@every_engine
def test_what_somebody_else_saw_first_is_seen_to_go_before_the_next_look(
    root: str, engine: Engine
) -> None:
    async def test() -> None:
        async with feeding(root, engine) as feed:
            await feed.nothing_before("b")  # the next look is half a second away
            write(f"{root}/new/a", "a")
            feed.feed.add(feed.index.rescan(""))
            await feed.until("new/a")
            shutil.rmtree(f"{root}/new")
            await feed.until("new/a")
            assert "new/a" not in feed.index.seen

    run(test())


@every_engine
def test_a_directory_that_is_given_for_being_looked_at_is_looked_at_once(
    root: str, engine: Engine
) -> None:
    async def test() -> None:
        write(f"{root}/home/a", "a")
        async with feeding(root, engine) as feed:
            plain = feed.index.refresh
            feed.feed._refresh = lambda paths: plain(paths) | ({"home"} & {*paths})
            await feed.nothing_before("b")
            feed.feed.add({"home"})
            assert await feed.next() == {"home"}
            await feed.nothing_before("b")
            await feed.nothing_before("b")

    run(test())


@every_engine
def test_so_is_what_came_while_all_was_read(root: str, engine: Engine) -> None:
    async def test() -> None:
        async with feeding(root, engine) as feed:
            write(f"{root}/new/a", "a")
            feed.index.rescan("")
            feed.feed.read()
            shutil.rmtree(f"{root}/new")
            await feed.until("new/a")
            assert "new/a" not in feed.index.seen

    run(test())


def test_a_watcher_that_fails_is_not_taken_for_quiet() -> None:
    async def test() -> None:
        index = Index("/nonexistent")
        async with ChangeFeed(Broken(), "/", index.refresh, index.rescan, print) as feed:
            with pytest.raises(RuntimeError, match="broken"):
                await feed.next()

    run(test())


def test_what_is_raised_inside_comes_out_as_it_is(root: str) -> None:
    async def test() -> None:
        with pytest.raises(KeyError):
            async with feeding(root):
                raise KeyError

    run(test())
