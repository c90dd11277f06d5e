"""The index sees what changed and nothing else, on real files, inside git and outside."""

import contextlib
import os
import random
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.workspaces import project, workspace
from vxwatch.cache.files import FileIndex
from vxwatch.graph.affected import Affected
from vxwatch.graph.tasks import plan
from vxwatch.model import Globs, Persistent, Workspace
from vxwatch.workspace.git import Git, Ignores

Open = Callable[..., FileIndex]

EVERYTHING = {"t": {"inputs": Globs(("**",))}}


def git(root: Path, *arguments: str) -> None:
    author = (
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t.invalid",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(("git", *author, *arguments), cwd=root, check=True, capture_output=True)


def wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(params=["git", "plain"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A workspace directory with one project `p`, in git and outside of it."""
    root = tmp_path.resolve() / "space"
    put(root / "p/package.json", "{}")
    put(root / "p/src/a.txt", "aaaa")
    put(root / "p/src/deep/er/b.txt", "bbbb")
    put(root / ".gitignore", "dist/\n*.log\n.env\n")
    if request.param == "git":
        git(root, "init", "-qb", "main")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens the index of a workspace, everything read; ends what it holds open."""
    helpers: list[Ignores] = []

    def open_index(
        root: Path,
        tasks: Any = None,
        space: Workspace | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> FileIndex:
        space = space or workspace(project("p", tasks or EVERYTHING), root=str(root))
        every = [task.id for each in space.projects.values() for task in each.tasks.values()]
        affected = Affected(space, plan(space, every))
        ignores = Ignores(str(root))
        helpers.append(ignores)
        index = FileIndex(str(root), affected, ignores, Git(str(root)).tracked_and_untracked, clock)
        index.read()
        return index

    yield open_index
    for helper in helpers:
        helper.close()


def test_what_a_task_takes_is_listed(root: Path, opened: Open) -> None:
    put(root / "p/dist/out.js")
    put(root / "p/note.log")
    put(root / "p/new.txt")
    put(root / "p/node_modules/x/index.js")
    put(root / "q/other.txt")
    put(root / "yarn.lock")
    index = opened(root)
    assert sorted(index.inputs("p#t")) == [
        "p/new.txt",
        "p/package.json",
        "p/src/a.txt",
        "p/src/deep/er/b.txt",
        "yarn.lock",
    ]


def test_an_edit_is_a_change_once(root: Path, opened: Open) -> None:
    index = opened(root)
    before = index.inputs("p#t")
    put(root / "p/src/a.txt", "aaaaa")
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}
    assert index.refresh({"p/src/a.txt"}) == set()
    after = index.inputs("p#t")
    assert [path for path in after if after[path] != before[path]] == ["p/src/a.txt"]


def test_the_root_may_be_looked_at_as_any_directory(root: Path, opened: Open) -> None:
    index = opened(root)
    index.read()
    known = {*index.paths}
    put(root / "p/src/a.txt", "other")
    put(root / "p/src/new.txt")
    assert index.refresh(["."]) == {"p/src/a.txt", "p/src/new.txt"}
    assert {*index.paths} == known | {"p/src/new.txt"}
    assert index.refresh(["."]) == frozenset()


def test_an_edit_that_keeps_size_and_time_is_seen(root: Path, opened: Open) -> None:
    index = opened(root)
    file = root / "p/src/a.txt"
    status = file.stat()
    file.write_text("cccc")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}


def test_what_was_written_meanwhile_and_is_as_it_was_does_not_stand(
    root: Path, opened: Open
) -> None:
    index = opened(root)
    file = root / "p/src/a.txt"
    taken = [*index.inputs("p#t")]

    def settled() -> bool:
        return not index.refresh(taken) and index.stands("p#t")

    wait_for(settled)
    begun = time.time_ns()
    assert index.stands("p#t", begun)

    def rewritten() -> bool:
        file.write_text("aaaa")
        return index.rewritten("p#t", begun) == ["p/src/a.txt"]

    wait_for(rewritten)
    wait_for(settled)
    assert not index.stands("p#t", begun)


def test_what_comes_and_goes_in_a_tick_does_not_stand(root: Path, opened: Open) -> None:
    index = opened(root)
    taken = [*index.inputs("p#t")]
    wait_for(lambda: not index.refresh(taken) and index.stands("p#t"))
    for name in ("p/src/new.txt", "p/src/deep/er/new.txt", "p/src/made/new.txt", "uv.lock") * 10:
        assert index.stands("p#t")
        new = put(root / name)
        assert not index.stands("p#t"), name
        new.unlink()
        shutil.rmtree(root / "p/src/made", ignore_errors=True)


def test_a_directory_is_listed_once_while_nothing_comes_or_goes(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(root)
    taken = [*index.inputs("p#t")]
    wait_for(lambda: not index.refresh(taken) and index.stands("p#t"))
    listed: list[str] = []
    scandir = os.scandir

    def listing(path: str) -> Any:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)

    def looks_at_stamps() -> bool:
        listed.clear()
        return index.stands("p#t") and not listed

    wait_for(looks_at_stamps)


def test_edits_in_the_tick_of_the_reading_are_seen(root: Path, opened: Open) -> None:
    file = root / "p/src/a.txt"
    index = opened(root)
    for n in range(50):
        file.write_text(f"{n:04}")
        assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}


def test_what_leaves_the_content_alone_is_no_change(root: Path, opened: Open) -> None:
    index = opened(root)
    file = root / "p/src/a.txt"
    os.utime(file, ns=(1, 1))
    file.read_text()
    file.chmod(0o600)
    assert index.refresh({"p/src/a.txt"}) == set()
    file.write_text("aaaa")
    assert index.refresh({"p/src/a.txt"}) == set()
    os.replace(put(root / "p/src/.a.swp", "aaaa"), file)
    assert index.refresh({"p/src/a.txt", "p/src/.a.swp"}) == set()


def test_the_executable_bit_counts_and_no_other(root: Path, opened: Open) -> None:
    index = opened(root)
    file = root / "p/src/a.txt"
    before = index.inputs("p#t")["p/src/a.txt"]
    file.chmod(0o755)
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}
    file.chmod(0o700)
    assert index.refresh({"p/src/a.txt"}) == set()
    file.chmod(0o644)
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}
    assert index.inputs("p#t")["p/src/a.txt"] == before


def test_a_save_by_rename_is_seen(root: Path, opened: Open) -> None:
    index = opened(root)
    os.replace(put(root / "p/src/.a.swp", "new!"), root / "p/src/a.txt")
    assert index.refresh({"p/src/a.txt", "p/src/.a.swp"}) == {"p/src/a.txt"}


def test_files_come_and_go(root: Path, opened: Open) -> None:
    index = opened(root)
    put(root / "p/src/new.txt")
    (root / "p/src/a.txt").unlink()
    assert index.refresh({"p/src/new.txt", "p/src/a.txt", "p/src/never.txt"}) == {
        "p/src/new.txt",
        "p/src/a.txt",
    }
    assert "p/src/a.txt" not in index.inputs("p#t")
    assert "p/src/new.txt" in index.inputs("p#t")
    (root / "p/src/new.txt").rename(root / "p/src/a.txt")
    assert index.refresh({"p/src/new.txt", "p/src/a.txt"}) == {"p/src/new.txt", "p/src/a.txt"}


def test_a_link_counts_by_its_target(root: Path, opened: Open) -> None:
    link = root / "p/src/link"
    link.symlink_to("a.txt")
    index = opened(root)
    put(root / "p/src/a.txt", "else")
    assert index.refresh({"p/src/link"}) == set()
    link.unlink()
    link.symlink_to("deep")
    assert index.refresh({"p/src/link"}) == {"p/src/link"}
    link.unlink()
    link.symlink_to("nowhere")
    assert index.refresh({"p/src/link"}) == {"p/src/link"}
    link.unlink()
    link.write_text("nowhere")
    assert index.refresh({"p/src/link"}) == {"p/src/link"}


def test_a_directory_that_becomes_a_link_to_itself_holds_nothing(root: Path, opened: Open) -> None:
    index = opened(root)
    index.read()
    shutil.rmtree(root / "p/src/deep")
    (root / "p/src/deep").symlink_to("deep")
    assert index.refresh({"p/src/deep"}) == {"p/src/deep", "p/src/deep/er/b.txt"}
    assert index.inputs("p#t") == opened(root).inputs("p#t")
    assert not index.unreadable


def test_what_lies_behind_a_link_does_not_count(root: Path, opened: Open) -> None:
    outside = root / "elsewhere"
    put(outside / "c.txt")
    index = opened(root)
    (root / "p/src/out").symlink_to(outside)
    assert index.refresh({"p/src/out", "p/src/out/c.txt"}) == {"p/src/out"}
    shutil.rmtree(root / "p/src/deep")
    (root / "p/src/deep").symlink_to(outside)
    assert index.refresh({"p/src/deep", "p/src/deep/c.txt"}) == {
        "p/src/deep",
        "p/src/deep/er/b.txt",
    }
    assert index.refresh({"p/src/deep/c.txt"}) == set()


def test_a_directory_in_whose_place_a_link_leads_to_the_same_names_is_gone(
    root: Path, opened: Open
) -> None:
    put(root / "p/other/b.txt", "else")
    put(root / "p/other/inner/c.txt")
    put(root / "p/src/deep/er/inner/c.txt")
    index = opened(root)
    shutil.rmtree(root / "p/src/deep/er")
    (root / "p/src/deep/er").symlink_to("../../other")
    gone = {"p/src/deep/er/b.txt", "p/src/deep/er/inner/c.txt"}
    hints = {"p/src/deep/er", "p/src/deep/er/inner", "p/src/deep/er/b.txt"}
    assert index.refresh(hints) == {"p/src/deep/er"} | gone
    assert index.inputs("p#t") == opened(root).inputs("p#t")
    put(root / "p/other/b.txt", "moved")
    assert index.refresh(hints) == set()
    assert index.rescan("p") == {"p/other/b.txt"}


def test_a_file_a_task_names_counts_also_behind_a_link(root: Path, opened: Open) -> None:
    put(root / "p/other/b.txt", "else")
    tasks = {"t": {"inputs": Globs(("src/deep/er/b.txt",))}}
    index = opened(root, tasks)
    shutil.rmtree(root / "p/src/deep/er")
    (root / "p/src/deep/er").symlink_to("../../other")
    assert "p/src/deep/er/b.txt" in index.refresh({"p/src/deep/er"})
    assert "p/src/deep/er/b.txt" in index.inputs("p#t")
    assert index.inputs("p#t") == opened(root, tasks).inputs("p#t")
    put(root / "p/other/b.txt", "moved")
    assert index.refresh({"p/src/deep/er/b.txt"}) == {"p/src/deep/er/b.txt"}


def test_an_ignored_file_does_not_count_where_a_tracked_directory_was(
    root: Path, opened: Open
) -> None:
    put(root / ".gitignore", "er\n")
    index = opened(root)
    shutil.rmtree(root / "p/src/deep/er")
    put(root / "p/src/deep/er", "a file")
    assert "p/src/deep/er" not in index.refresh({"p/src/deep/er", "p/src/deep"})
    assert index.inputs("p#t") == opened(root).inputs("p#t")


def test_a_directory_that_moves_away_takes_its_files_along(root: Path, opened: Open) -> None:
    index = opened(root)
    (root / "p/src/deep").rename(root / "gone")
    assert index.refresh({"p/src/deep"}) == {"p/src/deep/er/b.txt"}
    (root / "gone").rename(root / "p/src/other")
    assert index.refresh({"p/src/other"}) == {"p/src/other/er/b.txt"}
    (root / "p").rename(root / "q")
    assert index.refresh({"p"}) == {"p/package.json", "p/src/a.txt", "p/src/other/er/b.txt"}
    (root / "q").rename(root / "p")
    assert index.refresh({"p"}) == {"p/package.json", "p/src/a.txt", "p/src/other/er/b.txt"}


def test_a_new_directory_is_walked_but_for_what_is_ignored(root: Path, opened: Open) -> None:
    index = opened(root)
    for name in ("one.txt", "two/three/four.txt", "dist/out.js", "two/x.log", "node_modules/m.js"):
        put(root / "p/new" / name)
    expected = {"p/new/one.txt", "p/new/two/three/four.txt"}
    assert index.refresh({"p/new"}) == expected
    put(root / "p/late/sub/five.txt")
    assert index.refresh({"p/late/sub/five.txt"}) == {"p/late/sub/five.txt"}
    assert expected < set(index.inputs("p#t"))


def test_a_hint_below_an_ignored_directory_finds_nothing(root: Path, opened: Open) -> None:
    index = opened(root)
    put(root / "p/dist/sub/out.js")
    put(root / "p/a.log")
    assert index.refresh({"p/dist/sub/out.js", "p/dist/sub", "p/dist", "p/a.log"}) == set()


def test_files_become_directories_and_back(root: Path, opened: Open) -> None:
    index = opened(root)
    (root / "p/src/a.txt").unlink()
    put(root / "p/src/a.txt/inner.txt")
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt", "p/src/a.txt/inner.txt"}
    shutil.rmtree(root / "p/src/a.txt")
    put(root / "p/src/a.txt", "aaaa")
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt", "p/src/a.txt/inner.txt"}


def test_fifos_sockets_and_devices_are_not_there(root: Path, opened: Open) -> None:
    os.mkfifo(root / "p/src/old-pipe")
    index = opened(root)
    os.mkfifo(root / "p/src/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root / "p/src")
        listener.bind("sock")
        os.chdir(here)
        assert index.refresh({"p/src/pipe", "p/src/sock", "p/src", "p/src/old-pipe"}) == set()
    (root / "p/src/a.txt").unlink()
    os.mkfifo(root / "p/src/a.txt")
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}
    assert index.rescan("p") == set()
    assert not {"p/src/pipe", "p/src/sock", "p/src/a.txt"} & set(index.inputs("p#t"))


def test_names_that_are_not_utf_8_are_files_too(root: Path, opened: Open) -> None:
    odd = os.fsencode(root) + b"/p/src/\xff\xfe"
    with open(odd, "wb") as file:
        file.write(b"1")
    path = os.fsdecode(b"p/src/\xff\xfe")
    index = opened(root)
    assert path in index.inputs("p#t")
    with open(odd, "wb") as file:
        file.write(b"2")
    newline = "p/src/line\nfeed"
    put(root / newline)
    assert index.refresh({path, newline}) == {path, newline}


def test_an_ignored_file_counts_where_a_task_names_it(root: Path, opened: Open) -> None:
    tasks = {"t": {"inputs": Globs(("src/**", ".env", "**/.env"))}, "u": {"inputs": Globs(("**",))}}
    put(root / "p/.env", "A=1")
    index = opened(root, tasks)
    assert "p/.env" in index.inputs("p#t")
    assert "p/.env" not in index.inputs("p#u")
    put(root / "p/.env", "A=2")
    put(root / "p/src/.env", "B=1")
    put(root / "p/made/.env", "C=1")
    put(root / "p/src/x.log")
    expected = {"p/.env", "p/src/.env", "p/made/.env"}
    assert index.refresh({*expected, "p/made", "p/src/x.log"}) == expected
    assert expected <= index.ignored
    assert expected <= set(index.inputs("p#t"))
    assert not expected & set(index.inputs("p#u"))
    (root / "p/.env").unlink()
    assert index.refresh({"p/.env"}) == {"p/.env"}


def test_a_name_in_an_ignored_directory_counts_when_that_appears(root: Path, opened: Open) -> None:
    index = opened(root, {"t": {"inputs": Globs(("dist/info.json",))}})
    put(root / "p/dist/info.json")
    put(root / "p/dist/more.json")
    assert index.refresh({"p/dist"}) == {"p/dist/info.json"}
    put(root / "p/dist/info.json", "changed")
    assert index.refresh({"p/dist/info.json"}) == {"p/dist/info.json"}
    shutil.rmtree(root / "p/dist")
    assert index.refresh({"p/dist"}) == {"p/dist/info.json"}


def test_a_changed_gitignore_changes_what_counts(root: Path, opened: Open) -> None:
    put(root / "p/src/note.log")
    put(root / "p/src/draft.txt")
    index = opened(root)
    assert "p/src/note.log" not in index.inputs("p#t")
    put(root / ".gitignore", "dist/\ndraft.txt\n")
    assert index.refresh({".gitignore"}) == {"p/src/note.log", "p/src/draft.txt"}
    assert "p/src/note.log" in index.inputs("p#t")
    assert "p/src/draft.txt" not in index.inputs("p#t")
    put(root / "p/src/.gitignore", "!draft.txt\n")
    assert index.refresh({"p/src/.gitignore"}) == {"p/src/.gitignore", "p/src/draft.txt"}


def test_a_named_file_survives_a_change_of_the_rules(root: Path, opened: Open) -> None:
    put(root / "p/conf.ini")
    tasks = {"t": {"inputs": Globs(("conf.ini",))}, "u": {"inputs": Globs(("*.ini",))}}
    index = opened(root, tasks)
    assert "p/conf.ini" in index.inputs("p#u")
    put(root / ".gitignore", "*.ini\n")
    assert index.refresh({".gitignore"}) == {"p/conf.ini"}
    assert "p/conf.ini" in index.inputs("p#t")
    assert "p/conf.ini" not in index.inputs("p#u")
    put(root / ".gitignore", "")
    assert index.refresh({".gitignore"}) == {"p/conf.ini"}
    assert "p/conf.ini" in index.inputs("p#u")
    assert index.ignored == set()


def test_what_a_task_declares_as_output_is_no_edit(root: Path, opened: Open) -> None:
    tasks = {"t": {"inputs": Globs(("**",)), "outputs": Globs(("out/**", "gen.txt"))}}
    put(root / "p/gen.txt", "old")
    index = opened(root, tasks)
    put(root / "p/out/a/b.js")
    put(root / "p/gen.txt", "new")
    put(root / "p/src/hand.txt")
    paths = {"p/out", "p/out/a/b.js", "p/gen.txt", "p/src/hand.txt"}
    assert index.refresh(paths) == {"p/src/hand.txt"}
    assert index.rescan("p") == set()
    assert not {"p/out/a/b.js", "p/gen.txt"} & set(index.inputs("p#t"))


def test_patterns_of_the_whole_workspace_see_into_projects_that_are_not_planned(
    root: Path, opened: Open
) -> None:
    space = workspace(
        project("p", {"t": {"inputs": Globs((), ("libs/*/src/*.txt", "base.json"))}}),
        project("one", {}, at="libs/one"),
        root=str(root),
    )
    put(root / "libs/one/src/a.txt")
    put(root / "libs/one/src/a.bin")
    put(root / "base.json")
    put(root / "loose.json")
    index = opened(root, space=space)
    files = {"libs/one/src/a.txt", "base.json"}
    assert index.inputs("p#t").keys() == files | {"p/package.json"}
    put(root / "libs/two/src/b.txt")
    put(root / "libs/three/src/c.txt")
    put(root / "libs/three/src/c.bin")
    put(root / "loose.json", "2")
    hints = {"libs/two/src/b.txt", "libs/three", "loose.json"}
    assert index.refresh(hints) == {"libs/two/src/b.txt", "libs/three/src/c.txt"}


def test_a_server_sees_what_its_dependency_wrote(root: Path, opened: Open) -> None:
    tasks = {
        "build": {"inputs": Globs(("src/**",)), "outputs": Globs(("dist/**",))},
        "dev": {
            "persistent": Persistent(restart_on=("dist/main.js",)),
            "depends_on": ("build",),
        },
    }
    index = opened(root, tasks)
    assert index.inputs("p#dev") == {}
    put(root / "p/dist/main.js", "one")
    one = index.inputs("p#dev")
    assert set(one) == {"p/dist/main.js"}
    put(root / "p/dist/main.js", "two")
    assert index.refresh({"p/dist/main.js"}) == set()
    assert index.inputs("p#dev") != one


def test_a_rescan_finds_everything_without_a_hint(root: Path, opened: Open) -> None:
    index = opened(root)
    put(root / "p/src/a.txt", "edit")
    put(root / "p/fresh/dir/c.txt")
    shutil.rmtree(root / "p/src/deep")
    put(root / "p/src/x.log")
    assert index.rescan("p/src") == {"p/src/a.txt", "p/src/deep/er/b.txt"}
    assert index.rescan("") == {"p/fresh/dir/c.txt"}
    assert index.rescan("") == set()
    assert index.rescan("p/not/there") == set()


def test_a_large_file_is_read_whole(root: Path, opened: Open) -> None:
    big = root / "p/src/big.bin"
    big.write_bytes(b"\0" * 5_000_000)
    index = opened(root)
    with big.open("r+b") as file:
        file.seek(4_999_999)
        file.write(b"1")
    assert index.refresh({"p/src/big.bin"}) == {"p/src/big.bin"}


def test_another_graph_keeps_what_was_read(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = workspace(project("p", EVERYTHING), root=str(root))
    index = opened(root, space=space, clock=lambda: time.time_ns() + 10**10)
    put(root / "p/src/a.txt", "moved")
    reads: list[str] = []
    real = os.open

    def opening(path: str, flags: int) -> int:
        if not path.endswith(".gitignore"):
            reads.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", opening)
    index.load(Affected(space, plan(space, ["p#t"])))
    index.read()
    assert [path for path in reads if path.startswith(str(root))] == [f"{root}/p/src/a.txt"]


def test_a_branch_switch_of_400_files(root: Path, opened: Open) -> None:
    if not (root / ".git").exists():
        git(root, "init", "-qb", "main")
    for n in range(200):
        put(root / f"p/src/d{n // 10}/f{n}.txt", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "main")
    git(root, "checkout", "-qb", "other")
    for n in range(100):
        put(root / f"p/src/d{n // 10}/f{n}.txt", "other")
    shutil.rmtree(root / "p/src/d19")
    for n in range(200, 400):
        put(root / f"p/src/e{n // 10}/g/f{n}.txt", "other")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "other")
    other = everything_below(root)
    git(root, "checkout", "-q", "main")
    main = everything_below(root)
    moved = {path for path in main | other if main.get(path) != other.get(path)}
    index = opened(root)
    files = {path for path in moved if path.endswith(".txt")}
    assert len(files) == 100 + 10 + 200
    for branch, count in (("other", 3 + 390), ("main", 3 + 200)):
        git(root, "checkout", "-q", branch)
        assert index.refresh(moved) == files
        assert len(index.inputs("p#t")) == count
        assert index.rescan("") == set()


def test_repositories_inside_follow_their_own_rules(root: Path, opened: Open) -> None:
    for name in ("p/inner", "lib"):
        put(root / name / "code.txt")
        put(root / name / ".gitignore", "made/\n")
        put(root / name / "made/out.txt")
        git(root / name, "init", "-qb", "main")
        git(root / name, "add", "-A")
        git(root / name, "commit", "-qm", "inner")
    if (root / ".git").exists():
        git(root, "submodule", "-q", "add", str(root / "lib"), "p/module")
        put(root / "p/module/made/out.txt")
    else:
        shutil.copytree(root / "lib", root / "p/module")
    index = opened(root)
    inner = {path for path in index.inputs("p#t") if "/inner/" in path or "/module/" in path}
    assert inner >= {"p/inner/code.txt", "p/module/code.txt"}
    put(root / "p/inner/code.txt", "2")
    put(root / "p/module/code.txt", "2")
    put(root / "p/inner/more/new.txt")
    put(root / "p/module/more/new.txt")
    put(root / "p/module/made/out.txt", "2")
    hints = {"p/inner/code.txt", "p/module/code.txt", "p/inner/more", "p/module/more"}
    assert index.refresh(hints | {"p/module/made/out.txt"}) == {
        "p/inner/code.txt",
        "p/module/code.txt",
        "p/inner/more/new.txt",
        "p/module/more/new.txt",
    }
    assert index.rescan("p") == set()


SPACE = (
    project("root", {"all": {"inputs": Globs(("**/*.txt", ".env"), ("**/*.cfg",))}}, at=""),
    project(
        "p",
        {
            "gen": {"inputs": Globs(("seed*",)), "outputs": Globs(("gen/**",))},
            "build": {"inputs": Globs(("**", "!**/*.cfg")), "depends_on": ("gen",)},
            "look": {"inputs": Globs(("gen/**", "**/.env"))},
            "loose": {},
            "dev": {"persistent": Persistent(restart_on=("*.cfg", "gen/a.txt"))},
        },
        at="p",
    ),
    project("q", {"loose": {}, "wide": {"inputs": Globs((), ("p/**/*.txt",))}}, at="p/q"),
)
TASKS = [f"{each.name}#{task}" for each in SPACE for task in each.tasks]


Tree = dict[str, tuple[int, int, int, int, int]]


def everything_below(root: Path) -> Tree:
    """Each file and directory by path: what it is, and the stamps of a file."""
    found: Tree = {}
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if name != ".git"]
        for name in below + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            stamps = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            is_directory = stat.S_ISDIR(status.st_mode)
            found[os.path.relpath(path, root)] = (
                status.st_mode,
                status.st_ino,
                *((0, 0, 0) if is_directory else stamps),
            )
    return found


class Chaos:
    """Does things to random places, and says what a watcher would have told."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.actions = [*[self.write] * 6, *[self.remove, self.move, self.link] * 3, self.rule]
        self.actions += [self.link_instead]

    def hints(self) -> set[str]:
        """Some random changes; of what came or went with its directory only some is told."""
        before = everything_below(self.root)
        for _ in range(self.random.randint(1, 6)):
            # What is not possible there (a name below a file, a link to itself) is left out.
            with contextlib.suppress(OSError):
                self.random.choice(self.actions)()
        after = everything_below(self.root)
        moved = {path for path in before | after if before.get(path) != after.get(path)}
        return {
            path
            for path in moved
            if os.path.dirname(path) not in moved or self.random.random() < 0.5
        }

    def place(self) -> Path:
        directories = ["", "p", "p/src", "p/gen", "p/q", "p/q/sub", "p/dist", "x", "x/y", "p/a.txt"]
        directories += ["p/d", "p/d/sub"]
        names = ["a.txt", "b.cfg", ".env", "seed", "c.log", "d", "sub"]
        return self.root / self.random.choice(directories) / self.random.choice(names)

    def either(self) -> Path:
        path = self.random.choice([place := self.place(), place.parent])
        return place if path in (self.root, self.root / "p") else path

    def write(self) -> None:
        path = self.place()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.random.choice(["one", "two", "three"]))
        if self.random.random() < 0.2:
            path.chmod(0o755)

    def remove(self) -> None:
        path = self.either()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def move(self) -> None:
        self.either().rename(self.random.choice([self.place(), self.place().parent / "moved"]))

    def rule(self) -> None:
        lines = ["*.log", "dist/", ".env", "seed", "!seed", "d", "sub", "!c.log"]
        path = self.root / self.random.choice(["", "p", "p/src", "x"]) / ".gitignore"
        path.write_text("\n".join(self.random.sample(lines, 3)))

    def link(self) -> None:
        self.place().symlink_to(self.random.choice(["a.txt", "../src", "nowhere"]))

    def link_instead(self) -> None:
        """What was a directory is a link to one with some of the same names.

        Not where a task names a file: of that a watcher tells by the path behind the link, too.
        """
        path = self.either()
        if path.is_dir() and not path.is_symlink() and path.name != "gen":
            shutil.rmtree(path)
            path.symlink_to(self.random.choice(["../p", "../src", "../p/src", "d"]))


@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_the_index_is_as_if_it_were_new(
    root: Path, opened: Open, seed: int
) -> None:
    space = workspace(*SPACE, root=str(root))
    affected = Affected(space, plan(space, TASKS))
    chaos = Chaos(root, seed)
    chaos.hints()
    if (root / ".git").exists():
        # What is tracked counts, also where a rule that comes later says that it does not.
        git(root, "add", "-A")
    index = opened(root, space=space)
    for _ in range(25):
        before = {task: index.inputs(task) for task in TASKS}
        hints = chaos.hints()
        changed = index.refresh(hints) if chaos.random.random() < 0.8 else index.rescan("")
        fresh = opened(root, space=space)
        moved = set()
        for task in TASKS:
            now = index.inputs(task)
            assert now == fresh.inputs(task), (task, hints)
            moved |= {
                path for path in {*now, *before[task]} if now.get(path) != before[task].get(path)
            }
        edits = {path for path in moved if not affected.generated(path)}
        assert edits <= changed
        if not any(path.endswith(".gitignore") for path in changed):
            ignored = index.ignored
            assert edits == {
                path
                for path in changed
                if any(affected.takes(task, path, ignored=path in ignored) for task in TASKS)
            }


def test_what_cannot_be_read_is_said(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opening(path: str, flags: int, *rest: int) -> int:
        if path.endswith("a.txt"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opening)
        index = opened(root)
        assert index.unreadable == {"p/src/a.txt": "Permission denied"}
        assert index.inputs("p#t")["p/src/a.txt"].startswith("?")
    put(root / "p/src/a.txt", "readable")
    assert index.refresh({"p/src/a.txt"}) == {"p/src/a.txt"}
    assert index.unreadable == {}


def test_a_directory_that_cannot_be_read_is_said(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(root)
    put(root / "p/shut/inner.txt")
    real = os.scandir

    def scanning(path: str) -> Any:
        if path.endswith("/shut"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scanning)
        assert index.refresh({"p/shut"}) == set()
        assert index.unreadable == {"p/shut": "Permission denied"}
    assert index.refresh({"p/shut"}) == {"p/shut/inner.txt"}
    assert index.unreadable == {}


def test_what_changed_back_since_the_mark_is_told_from_what_did_not(
    root: Path, opened: Open
) -> None:
    index = opened(root)
    a, b, new = (root / "p/src" / name for name in ("a.txt", "deep/er/b.txt", "new.txt"))
    paths = {str(path.relative_to(root)) for path in (a, b, new)}
    put(a, "moved")
    index.refresh(paths)
    index.mark()
    assert index.returned(paths) == frozenset()
    for path in (a, b, new):
        put(path, "between")
    assert index.refresh(paths) == paths
    assert index.returned(paths) == frozenset()
    put(a, "moved")
    b.unlink()
    new.unlink()
    index.refresh(paths)
    assert index.returned(paths) == {"p/src/a.txt", "p/src/new.txt"}
    put(b, "bbbb")
    index.refresh(paths)
    assert index.returned(paths) == paths
    index.mark()
    assert index.returned(paths) == frozenset()
