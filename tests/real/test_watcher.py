"""Every engine tells every change, and watches nothing that is not asked for."""

import asyncio
import contextlib
import os
import random
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.waiting import wait_for
from tests.harness.watching import ENGINES, Heard, scratch, watching, write
from vxwatch.watch.engines import Engine, open_watcher
from vxwatch.watch.inotify import Inotify
from vxwatch.watch.rustnotify import RustNotifier
from vxwatch.watch.scope import Scope
from vxwatch.watch.watcher import TreeWatcher

EVENTS: tuple[Engine, ...] = ("inotify", "watchfiles")

every_engine = pytest.mark.parametrize("engine", ENGINES)
event_engine = pytest.mark.parametrize("engine", EVENTS)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


def tree(root: str, *names: str, **more: Any) -> Scope:
    return Scope(root, trees=frozenset(names or ("",)), **more)


def kernel_watches() -> list[str]:
    """One line per inotify watch of this process."""
    lines: list[str] = []
    for entry in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{entry}") as file:
            lines += [line for line in file if line.startswith("inotify wd")]
    return lines


def instances() -> int:
    count = 0
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += "inotify" in os.readlink(f"/proc/self/fd/{entry}")
    return count


# How a file is saved


def in_place(path: str) -> None:
    with open(path, "w") as file:
        file.write("new")


def appended(path: str) -> None:
    with open(path, "a") as file:
        file.write("new")


def renamed_over(path: str) -> None:
    write(f"{path}.tmp", "new")
    os.replace(f"{path}.tmp", path)


def backed_up(path: str) -> None:
    os.rename(path, f"{path}~")
    in_place(path)
    os.unlink(f"{path}~")


def removed(path: str) -> None:
    os.unlink(path)


def same_size_and_time(path: str) -> None:
    before = os.stat(path)
    with open(path, "r+") as file:
        file.write("z")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def made_executable(path: str) -> None:
    os.chmod(path, 0o755)


def linked(path: str) -> None:
    os.symlink("elsewhere", f"{path}.link")
    os.replace(f"{path}.link", path)


def mapped(path: str) -> None:
    import mmap

    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 1) as memory:
        memory[0] = ord("m")


SAVES = (
    in_place,
    appended,
    renamed_over,
    backed_up,
    removed,
    same_size_and_time,
    made_executable,
    linked,
    mapped,
)


@every_engine
@pytest.mark.parametrize("save", SAVES)
def test_a_save_is_told_however_it_is_done(
    root: str, engine: Engine, save: Callable[[str], None]
) -> None:
    if (engine, save) == ("watchfiles", mapped):
        pytest.skip("watchfiles drops the one event that a write through a mapping makes")

    async def test() -> None:
        path = f"{root}/src/deep/a.txt"
        for turn in range(3):
            write(path, f"old {turn}")
            async with watching(tree(root), engine) as heard:
                save(path)
                await heard.until("src/deep/a.txt")

    run(test())


@every_engine
def test_a_file_is_told_again_and_again(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/a")
        async with watching(tree(root), engine) as heard:
            for save in (renamed_over, backed_up, in_place, renamed_over):
                heard.forget()
                save(f"{root}/a")
                await heard.until("a")

    run(test())


@event_engine
def test_reading_tells_nothing(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/src/a")
        async with watching(tree(root), engine) as heard:
            _read(f"{root}/src/a")
            os.listdir(f"{root}/src")
            write(f"{root}/src/b")
            await heard.until("src/b")
            assert heard.paths == {"src/b"}

    run(test())


def _read(path: str) -> None:
    with open(path) as file:
        file.read()


# Directories that come and go


@every_engine
def test_files_in_directories_made_just_before_are_told(root: str, engine: Engine) -> None:
    async def test() -> None:
        async with watching(tree(root), engine) as heard:
            for turn in range(1 if engine == "poll" else 3):
                made = await asyncio.to_thread(_make_deep, root, turn)
                await heard.until(*made)
                heard.forget()
                for path in made[::7]:
                    in_place(f"{root}/{path}")
                await heard.until(*made[::7])
                heard.forget()

    run(test())


def _make_deep(root: str, turn: int) -> list[str]:
    made = []
    for branch in range(12):
        path = f"t{turn}/b{branch}"
        for level in range(6):
            path = f"{path}/l{level}"
            write(f"{root}/{path}/file")
            made.append(f"{path}/file")
    return made


@every_engine
def test_a_tree_renamed_in_is_told_file_by_file_and_watched(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/outside/new/x/y/f")
        write(f"{root}/in/a")
        async with watching(tree(root, "in"), engine) as heard:
            os.rename(f"{root}/outside/new", f"{root}/in/new")
            await heard.until("in/new/x/y/f")
            heard.forget()
            in_place(f"{root}/in/new/x/y/f")
            await heard.until("in/new/x/y/f")

    run(test())


@every_engine
def test_a_tree_renamed_out_is_to_be_rescanned_and_no_longer_watched(
    root: str, engine: Engine
) -> None:
    async def test() -> None:
        write(f"{root}/in/old/x/y/f")
        os.mkdir(f"{root}/outside")
        async with watching(tree(root, "in"), engine) as heard:
            os.rename(f"{root}/in/old", f"{root}/outside/old")
            await heard.until("in/old/x/y/f")
            heard.forget()
            in_place(f"{root}/outside/old/x/y/f")
            write(f"{root}/in/other")
            await heard.until("in/other")
            assert heard.paths == {"in/other"}

    run(test())


@every_engine
def test_a_tree_renamed_within_is_told_under_both_names(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/one/x/f")
        async with watching(tree(root), engine) as heard:
            os.rename(f"{root}/one", f"{root}/two")
            await heard.until("one/x/f", "two/x/f")
            heard.forget()
            in_place(f"{root}/two/x/f")
            await heard.until("two/x/f")
            heard.forget()
            os.rename(f"{root}/two", f"{root}/one")
            await heard.until("one/x/f", "two/x/f")
            heard.forget()
            in_place(f"{root}/one/x/f")
            await heard.until("one/x/f")

    run(test())


@every_engine
def test_a_directory_replaced_at_once_is_watched_in_its_new_form(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/src/d/f")
        write(f"{root}/next/f")
        async with watching(tree(root, "src"), engine) as heard:
            os.rename(f"{root}/src/d", f"{root}/gone")
            os.rename(f"{root}/next", f"{root}/src/d")
            await heard.until("src/d/f")
            heard.forget()
            in_place(f"{root}/src/d/f")
            await heard.until("src/d/f")

    run(test())


@every_engine
@pytest.mark.parametrize("vanishing", ["packages/app", "packages", ""])
def test_a_watched_directory_is_found_again_when_it_or_what_is_above_it_returns(
    root: str, engine: Engine, vanishing: str
) -> None:
    async def test() -> None:
        base = f"{root}/ws"
        write(f"{base}/packages/app/src/f")
        async with watching(tree(base, "packages/app"), engine) as heard:
            for _ in range(2):
                heard.forget()
                os.rename(os.path.join(base, vanishing).rstrip("/"), f"{root}/away")
                await heard.until("packages/app/src/f")
                heard.forget()
                os.rename(f"{root}/away", os.path.join(base, vanishing).rstrip("/"))
                await heard.until("packages/app/src/f")
                heard.forget()
                in_place(f"{base}/packages/app/src/f")
                await heard.until("packages/app/src/f")

    run(test())


@every_engine
def test_a_directory_that_is_not_there_yet_is_waited_for(root: str, engine: Engine) -> None:
    async def test() -> None:
        scope = Scope(root, directories=frozenset({"conf/local", f"{root}-else/deep"}))
        async with watching(scope, engine) as heard:
            write(f"{root}/conf/local/.env")
            await heard.until("conf/local/.env")
            write(f"{root}-else/deep/base.toml")
            await heard.until(f"{root}-else/deep/base.toml")
            heard.forget()
            in_place(f"{root}-else/deep/base.toml")
            in_place(f"{root}/conf/local/.env")
            await heard.until(f"{root}-else/deep/base.toml", "conf/local/.env")

    run(test())


@every_engine
def test_many_files_and_directories_at_once_are_all_covered(root: str, engine: Engine) -> None:
    async def test() -> None:
        async with watching(tree(root), engine) as heard:
            names = [f"d{i % 60}/s{i % 7}/f{i}" for i in range(5000)]
            await asyncio.to_thread(_write_all, root, names)
            await heard.until(*names, seconds=20)
            await _stays_alive(heard, root, names)

    run(test())


@every_engine
def test_a_burst_while_the_loop_is_busy_is_covered(root: str, engine: Engine) -> None:
    """More events than the kernel keeps for a reader that does not come."""

    async def test() -> None:
        _write_all(root, [f"d{i}/old" for i in range(20)])
        async with watching(tree(root), engine) as heard:
            names = [f"d{i % 20}/f{i}" for i in range(9000)] + [f"late{i}/f" for i in range(10)]
            _write_all(root, names)
            if engine == "inotify":
                await heard.until_true(lambda: "" in heard.rescan, lambda: "no rescan")
            await heard.until(*names, seconds=20)
            await _stays_alive(heard, root, names)

    run(test())


def _write_all(root: str, names: list[str]) -> None:
    for name in names:
        write(f"{root}/{name}")


async def _stays_alive(heard: Heard, root: str, names: list[str]) -> None:
    """Everything told so far is over, and each directory is still listened to."""
    last = names[-60:]
    for path in last:
        os.unlink(f"{root}/{path}")
    await heard.until(*last)
    heard.forget()
    write(f"{root}/quite/new")
    await heard.until("quite/new")
    for path in last:
        write(f"{root}/{path}", "again")
    await heard.until(*last)


@every_engine
def test_names_that_are_no_utf8_are_told_and_end_nothing(root: str, engine: Engine) -> None:
    async def test() -> None:
        odd = os.fsdecode(b"\xff\xfe")
        write(f"{root}/src/a")
        write(f"{root}/lib/a")
        async with watching(tree(root), engine) as heard:
            write(f"{root}/src/{odd}")
            await heard.until(f"src/{odd}")
            for path in ("src/a", "lib/a", f"src/{odd}", f"src/{odd}.d/deep/f", "lib/new/f"):
                heard.forget()
                write(f"{root}/{path}", "again")
                await heard.until(path)

    run(test())


# What is watched, and what is not


@event_engine
def test_pruned_trees_cost_no_watch_and_tell_nothing(root: str, engine: Engine) -> None:
    async def test() -> None:
        asked: list[str] = []

        def pruned(paths: Sequence[str]) -> list[str]:
            asked.extend(paths)
            return [path for path in paths if os.path.basename(path) in {"node_modules", "dist"}]

        write(f"{root}/app/src/a")
        for i in range(300):
            os.makedirs(f"{root}/app/node_modules/p{i}/lib")
        async with watching(tree(root, "app", pruned=pruned), engine) as heard:
            # The root as an anchor, app, app/src, and what each watchfiles instance proves with.
            assert len(kernel_watches()) <= 6
            assert not any(path.startswith("app/node_modules/") for path in asked)
            write(f"{root}/app/node_modules/p1/index.js")
            write(f"{root}/app/dist/new/out.js")
            write(f"{root}/app/src/a", "b")
            await heard.until("app/src/a")
            assert not any("node_modules" in path or "out.js" in path for path in heard.paths)
            assert len(kernel_watches()) <= 6

    run(test())


@every_engine
def test_a_directory_watched_alone_tells_its_entries_only(root: str, engine: Engine) -> None:
    async def test() -> None:
        os.makedirs(f"{root}/below")
        async with watching(Scope(root, directories=frozenset({""})), engine) as heard:
            write(f"{root}/below/hidden")
            write(f"{root}/package.json")
            await heard.until("package.json")
            assert "below/hidden" not in heard.paths

    run(test())


@every_engine
def test_a_member_may_appear_in_a_parent_and_get_its_manifest_later(
    root: str, engine: Engine
) -> None:
    async def test() -> None:
        os.makedirs(f"{root}/packages/old")
        async with watching(Scope(root, parents=frozenset({"packages"})), engine) as heard:
            os.mkdir(f"{root}/packages/new")
            await heard.until("packages/new")
            for member in ("new", "old"):
                os.mkdir(f"{root}/packages/{member}/src")
                write(f"{root}/packages/{member}/src/hidden")
                write(f"{root}/packages/{member}/package.json")
                await heard.until(f"packages/{member}/package.json")
                assert f"packages/{member}/src/hidden" not in heard.paths

    run(test())


@every_engine
def test_a_named_directory_inside_a_pruned_one_is_watched(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/node_modules/lib/deep/f")
        scope = Scope(
            root,
            trees=frozenset({"", "node_modules/lib"}),
            pruned=lambda paths: [path for path in paths if path == "node_modules"],
        )
        async with watching(scope, engine) as heard:
            in_place(f"{root}/node_modules/lib/deep/f")
            await heard.until("node_modules/lib/deep/f")

    run(test())


@every_engine
def test_a_linked_directory_is_watched_when_named_by_each_of_its_names(
    root: str, engine: Engine
) -> None:
    async def test() -> None:
        for real in ("real/one", "real/two"):
            write(f"{root}/{real}/f")
        os.mkdir(f"{root}/ws")
        os.symlink(f"{root}/real/one", f"{root}/ws/named")
        os.symlink(f"{root}/real/two", f"{root}/ws/other")
        async with watching(tree(f"{root}/ws", "", "named", f"{root}/real/one"), engine) as heard:
            in_place(f"{root}/real/two/f")
            in_place(f"{root}/real/one/f")
            await heard.until("named/f", f"{root}/real/one/f")
            assert "other/f" not in heard.paths

    run(test())


@every_engine
def test_the_scope_can_grow_and_shrink(root: str, engine: Engine) -> None:
    async def test() -> None:
        for name in ("a", "b", "c"):
            write(f"{root}/{name}/src/f")
        async with watching(tree(root, "a", "b"), engine) as heard:
            heard.watcher.replace(tree(root, "b", "c"))
            await heard.until("c/src/f")  # it was not watched until now
            assert not heard.covers("b/src/f")
            heard.forget()
            in_place(f"{root}/a/src/f")
            in_place(f"{root}/b/src/f")
            in_place(f"{root}/c/src/f")
            write(f"{root}/c/new/f")
            await heard.until("b/src/f", "c/src/f", "c/new/f")
            assert "a/src/f" not in heard.paths
            if engine == "inotify":
                assert len(kernel_watches()) == 6  # root, b, b/src, c, c/src, c/new

    run(test())


@every_engine
def test_nothing_is_lost_while_the_scope_is_replaced(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/kept/f")
        write(f"{root}/other/f")
        scopes = [tree(root, "kept"), tree(root, "kept", "other")]
        async with watching(scopes[0], engine) as heard:
            for turn in range(3 if engine == "poll" else 30):
                heard.forget()
                write(f"{root}/kept/f", str(turn))
                heard.watcher.replace(scopes[turn % 2])
                write(f"{root}/kept/d{turn}/g")
                await heard.until("kept/f", f"kept/d{turn}/g")

    run(test())


# Lifetimes


@event_engine
def test_open_means_that_a_change_made_at_once_is_told(root: str, engine: Engine) -> None:
    async def test() -> None:
        for turn in range(5):
            write(f"{root}/d{turn}/f")
            async with watching(tree(root), engine) as heard:
                in_place(f"{root}/d{turn}/f")
                await heard.until(f"d{turn}/f")

    run(test())


def _but_for_atime(path: str) -> tuple[object, ...]:
    """What a reader leaves as it is; listing a directory may move its access time."""
    stat = os.lstat(path)
    return (
        stat.st_mode,
        stat.st_ino,
        stat.st_nlink,
        stat.st_size,
        stat.st_mtime_ns,
        stat.st_ctime_ns,
    )


@every_engine
def test_the_proof_of_being_open_touches_nothing_of_the_user(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/src/f")
        paths = [root, f"{root}/src", f"{root}/src/f"]
        before = [_but_for_atime(path) for path in paths]
        async with watching(tree(root), "inotify") as other, watching(tree(root), engine):
            assert [_but_for_atime(path) for path in paths] == before
            write(f"{root}/last")
            await other.until("last")
            assert other.paths == {"last"}

    run(test())


@every_engine
def test_leaving_ends_every_thread_and_descriptor(root: str, engine: Engine) -> None:
    async def test() -> None:
        write(f"{root}/src/f")
        async with watching(tree(root), engine) as heard:
            write(f"{root}/new/d/f")
            await heard.until("new/d/f")
        assert [t.name for t in threading.enumerate() if t.name == "vx-watch"] == []
        # watchfiles closes its descriptor on a thread of its own, which it has left by then.
        wait_for(lambda: instances() == 0, "no inotify instance is left")

    run(test())


@every_engine
def test_a_cancelled_wait_loses_nothing(root: str, engine: Engine) -> None:
    async def test() -> None:
        names = [f"d{i % 5}/f{i}" for i in range(20 if engine == "poll" else 200)]
        async with _open(tree(root), engine) as watcher:
            writing = asyncio.ensure_future(asyncio.to_thread(_write_slowly, root, names))
            got: set[str] = set()
            chance = random.Random(7)
            end = time.monotonic() + 30
            while not got.issuperset(names) and time.monotonic() < end:
                waiting = asyncio.ensure_future(watcher.next())
                await asyncio.wait([waiting], timeout=chance.choice([0, 0.001, 0.004, 0.6]))
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    got |= (await waiting).paths
            await writing
            assert got.issuperset(names)

    run(test())


def _write_slowly(root: str, names: list[str]) -> None:
    pause = threading.Event()
    for name in names:
        write(f"{root}/{name}")
        pause.wait(0.002)


@contextlib.asynccontextmanager
async def _open(scope: Scope, engine: Engine) -> AsyncIterator[TreeWatcher]:
    with scratch() as directory:
        async with open_watcher(scope, directory, lambda _: None, engine) as watcher:
            yield watcher


@pytest.fixture
def strangers_root() -> Iterator[str]:
    """A root in a test that runs as a user who may not read everything."""
    root = tempfile.mkdtemp()
    if os.geteuid() != 0:
        yield root
        return
    os.chown(root, 65534, 65534)
    os.seteuid(65534)
    try:
        yield root
    finally:
        os.seteuid(0)


@event_engine
def test_an_unreadable_directory_is_said_and_watched_once_it_can_be(
    strangers_root: str, engine: Engine
) -> None:
    root = strangers_root

    async def test() -> None:
        write(f"{root}/closed/f")
        write(f"{root}/open/f")
        os.chmod(f"{root}/closed", 0)
        async with watching(tree(root), engine) as heard:
            assert len(heard.notices) == 1
            assert "closed" in heard.notices[0]
            in_place(f"{root}/open/f")
            await heard.until("open/f")
            os.chmod(f"{root}/closed", 0o755)
            await heard.until("closed/f")
            heard.forget()
            in_place(f"{root}/closed/f")
            await heard.until("closed/f")

    run(test())


@event_engine
def test_a_watcher_that_cannot_open_leaves_nothing(root: str, engine: Engine) -> None:
    def fails(paths: Sequence[str]) -> list[str]:
        raise LookupError(paths)

    async def test() -> None:
        write(f"{root}/src/f")
        with pytest.raises(LookupError):
            async with watching(tree(root, pruned=fails), engine):
                pass
        wait_for(lambda: instances() == 0, "no inotify instance is left")

    run(test())


@event_engine
def test_without_the_proof_all_is_polled(
    root: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unproven(_: object) -> bool:
        return False

    monkeypatch.setattr(Inotify, "ready", unproven)
    monkeypatch.setattr(RustNotifier, "ready", unproven)

    async def test() -> None:
        write(f"{root}/src/f")
        async with watching(tree(root), engine) as heard:
            assert len(heard.notices) == 1
            assert "polling" in heard.notices[0]
            wait_for(lambda: instances() == 0, "no inotify instance is left")
            in_place(f"{root}/src/f")
            await heard.until("src/f")

    run(test())
