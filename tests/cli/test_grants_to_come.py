"""Grants of what does not exist yet, grants in grants, and single files, by whoever runs vx."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest

from tests.harness import running
from tests.harness.ports import Ports
from tests.harness.waiting import wait_for
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

MK = "mkdir -p a/b/c && echo 1 > a/b/c/o && echo 2 > top.txt"
SAVE = "echo new > .conf.tmp && mv .conf.tmp conf.json"
STRANGER = (65534, 65534)


@pytest.fixture(params=["ours", "another owner's"])
def owned(
    request: pytest.FixtureRequest,
    temp_home: str,
    port_block: Ports,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Workspace]:
    """A workspace of who runs vx, or of somebody else for whom root runs it."""
    others = request.param != "ours"
    if others and os.geteuid():
        pytest.skip("needs root")
    place = tempfile.mkdtemp(dir=temp_home)
    os.chmod(place, 0o755)
    ws = Workspace(f"{place}/w", f"{place}/logs", port_block.take)
    ws.write("src/a", "text")
    if others:
        monkeypatch.setattr(sys, "base_prefix", "/usr")  # where everybody may go
        monkeypatch.setattr(running, "PUPPETS", "/usr")
        _give(ws)
    yield ws
    ws.close()
    shutil.rmtree(place)


def _give(ws: Workspace) -> None:
    for top in (ws.path, ws.logs):
        os.chown(top, *STRANGER)
        for directory, names, files in os.walk(top):
            for name in (*names, *files):
                os.chown(os.path.join(directory, name), *STRANGER, follow_symlinks=False)


def _passes(ws: Workspace, *words: str) -> None:
    done = ws.vx("run", *words)
    assert done.code == 0, done.text


def _read_whole(ws: Workspace, *paths: str) -> list[str]:
    return [ws.read(path) for path in paths]


@pytest.mark.parametrize("write", [("a/b/c/", "top.txt"), ("top.txt", "a/b/c/**")])
def test_what_is_not_there_is_made_twice_in_a_row(owned: Workspace, write: tuple[str, ...]) -> None:
    owned.task("mk", MK, outputs=["a/b/c/**", "top.txt"], box=Box(("src",), write))
    _passes(owned, "mk")
    _passes(owned, "mk")
    _passes(owned, "mk", "--force")
    assert _read_whole(owned, "a/b/c/o", "top.txt") == ["1\n", "2\n"]


@pytest.mark.parametrize("spelling", ["ro/rw/", "ro/rw/**"])
@pytest.mark.parametrize("reads", [("ro",), ("ro/", "src"), ("ro/**",)])
def test_the_more_specific_grant_wins(ws: Workspace, reads: tuple[str, ...], spelling: str) -> None:
    ws.write("ro/x", "x")
    for name, command in (("nest", "cat ro/x && echo n > ro/rw/y"), ("bad", "echo n > ro/z; true")):
        ws.task(name, command, box=Box(reads, (spelling,)))
    _passes(ws, "nest")
    _passes(ws, "nest", "--force")
    bad = ws.vx("run", "bad")
    assert bad.code == 1
    assert "#bad wrote ro/z, which nothing grants" in bad.text
    assert sorted(os.listdir(ws.file("ro"))) == ["rw", "x"]
    assert ws.read("ro/rw/y") == "n\n"


@pytest.mark.parametrize("reads", [("src",), (".",)])
@pytest.mark.parametrize("there", [True, False])
def test_a_file_is_saved_by_a_rename_beside_links(
    owned: Workspace, reads: tuple[str, ...], there: bool
) -> None:
    os.symlink("src", owned.file("link"))
    if there:
        owned.write("conf.json", "old")
        if not os.geteuid():
            os.chown(owned.file("conf.json"), *_owner(owned))
    owned.task("file", SAVE, outputs=["conf.json"], box=Box(reads, ("conf.json",)))
    _passes(owned, "file")
    _passes(owned, "file", "--force")
    assert owned.read("conf.json") == "new\n"
    os.unlink(owned.file("conf.json"))
    _passes(owned, "file")  # from the cache, where it was saved
    assert owned.read("conf.json") == "new\n"
    assert os.readlink(owned.file("link")) == "src"


def _owner(ws: Workspace) -> tuple[int, int]:
    status = os.stat(ws.path)
    return status.st_uid, status.st_gid


@pytest.mark.parametrize("reads", [("src",), (".",)])
def test_what_is_left_beside_a_file_is_removed_and_told(
    owned: Workspace, reads: tuple[str, ...]
) -> None:
    made = "echo 1 > conf.bak; mkdir d; echo 2 > d/x; echo '{}' > package.json; echo x > .envrc"
    owned.task("file", f"{SAVE}; {made}", box=Box(reads, ("conf.json",)))
    before = set(os.listdir(owned.path))
    done = owned.vx("run", "file")
    assert done.code == 1
    for name in ("conf.bak", "d/", "package.json", ".envrc"):
        assert f"#file wrote {name}, which nothing grants" in done.text
    assert '"conf.json"' in done.text
    assert '".envrc", "conf.bak", "d/", "package.json"]' in done.text
    assert set(os.listdir(owned.path)) - before - {".vx"} == {"conf.json"}
    assert not [name for name in os.listdir(owned.file(".vx")) if name.startswith("desk")]


def test_what_is_left_by_the_way_is_no_finding(ws: Workspace) -> None:
    ws.task("file", f"{SAVE}; mkdir __pycache__; echo > __pycache__/x", box=Box((), ("conf.json",)))
    _passes(ws, "file")
    assert not os.path.exists(ws.file("__pycache__"))


def test_a_file_that_cannot_be_put_into_its_place_fails_the_task(ws: Workspace) -> None:
    ws.write("d/conf.json", "old")
    wait = 'touch "$LOGS/.up"; while [ ! -e "$LOGS/.go" ]; do sleep 0.05; done;'
    ws.task("file", f"{wait} cd d; {SAVE}", box=Box((), ("d/conf.json",)))
    vx = ws.start("run", "file")
    ws.wait(lambda: os.path.exists(os.path.join(ws.logs, ".up")), "it runs")
    os.rename(ws.file("d/conf.json"), ws.file("d/was"))
    os.mkdir(ws.file("d/conf.json"))
    open(os.path.join(ws.logs, ".go"), "w").close()
    assert vx.ended() == 1
    assert "a file that was written could not be saved in" in vx.output
    assert os.listdir(ws.file("d/conf.json")) == []


@pytest.mark.parametrize("reads", [("src",), (".",)])
def test_a_kill_leaves_nothing_beside_a_file(ws: Workspace, reads: tuple[str, ...]) -> None:
    command = 'echo x > stray; echo new > conf.json; touch "$LOGS/.up"; sleep 60'
    ws.task("file", command, box=Box(reads, ("conf.json", "more/", "top.txt")))
    before = set(os.listdir(ws.path))
    vx = ws.start("run", "file")
    ws.wait(lambda: os.path.exists(os.path.join(ws.logs, ".up")), "it runs")
    vx.process.kill()
    ws.nothing_left()
    wait_for(lambda: "more" not in os.listdir(ws.path), "it is taken back")
    assert set(os.listdir(ws.path)) - before <= {"conf.json", ".vx"}
    if os.path.exists(ws.file(".vx")):
        assert not [name for name in os.listdir(ws.file(".vx")) if name.startswith("desk")]


def test_an_interrupt_keeps_what_was_saved_and_nothing_else(ws: Workspace) -> None:
    command = f'{SAVE}; echo x > stray; touch "$LOGS/.up"; sleep 60'
    ws.task("file", command, box=Box((), ("conf.json", "d/other.json")))
    before = set(os.listdir(ws.path))
    vx = ws.start("run", "file")
    ws.wait(lambda: os.path.exists(os.path.join(ws.logs, ".up")), "it runs")
    assert vx.stop() == 130
    assert ws.read("conf.json") == "new\n"
    assert set(os.listdir(ws.path)) - before - {".vx"} == {"conf.json"}
    assert not [name for name in os.listdir(ws.file(".vx")) if name.startswith("desk")]


def test_two_tasks_at_once_leave_a_whole_file(ws: Workspace) -> None:
    for name in "ab":
        line = f"seq 2000 | sed s/^/{name}/"
        save = f"for i in $(seq 40); do {line} > .{name} && mv .{name} conf.json; done"
        ws.task(name, save, box=Box((), ("conf.json",)))
    _passes(ws, "a", "b", "--concurrency", "2")
    found = ws.read("conf.json").splitlines()
    assert found in [[f"{name}{number}" for number in range(1, 2001)] for name in "ab"]
    assert sorted(ws.dirt()) == ["conf.json", "vx.toml"]


@pytest.mark.parametrize(
    "write", [("a/b/c/", "top.txt"), ("a/b/c/**", "top.txt"), ("a/", "top.txt")]
)
@pytest.mark.parametrize("outputs", [None, ["a/b/c/**", "top.txt"]])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_leads_out_is_refused(
    ws: Workspace, write: tuple[str, ...], outputs: list[str] | None, there: bool
) -> None:
    outside = os.path.join(ws.logs, "outside")
    if there:
        os.mkdir(outside)
    os.symlink(outside, ws.file("a"))
    ws.task("mk", MK, outputs=outputs, box=Box(("src",), write))
    for words in (["mk"], ["mk", "--force"]):
        done = ws.vx("run", *words)
        assert done.code == 1
        assert f"a is a {'symbolic link' if outputs else 'link'} to {outside}" in done.text
        assert os.path.exists(outside) == there
        assert not there or os.listdir(outside) == []
        assert not os.path.exists(ws.file("top.txt"))


@pytest.mark.slow
def test_a_watch_saves_them_again_and_does_not_wake_itself(ws: Workspace) -> None:
    ws.write("src/a", "text")
    ws.write("conf.json", "old")
    ws.task(
        "file",
        'cat src/a > .t && mv .t conf.json; echo ran >> "$LOGS/file"',
        inputs=["src/**", "conf.json"],
        box=Box(("src",), ("conf.json", "a/b/c/", "top.txt")),
    )
    vx = ws.watch("file")
    ws.wait_runs("file", 1)
    ws.settle()
    runs = ws.runs("file")
    assert runs <= 2
    ws.write("src/a", "other")
    ws.wait(lambda: ws.holds("conf.json", "other"), "it is saved again")
    ws.settle()
    assert ws.runs("file") <= runs + 2
    assert vx.stop() == 0


@pytest.mark.slow
def test_a_server_saves_while_it_runs_and_what_it_left_is_told(ws: Workspace) -> None:
    ws.write("conf.json", "old")
    command = f"{SAVE}; echo x > stray; echo up; sleep 60"
    ws.server("web", command, ready_line="up", box=Box(("src",), ("conf.json",)))
    vx = ws.watch("web")
    ws.wait(lambda: ws.holds("conf.json", "new\n"), "it is saved")
    ws.settle()
    assert vx.output.count("up") == 1, vx.output
    ws.replace("conf.json", "ours")
    ws.wait(lambda: vx.output.count("up\n") >= 2, "the server is restarted with the new file")
    assert vx.stop() == 0
    assert "#web wrote stray, which nothing grants" in vx.output
    assert not os.path.exists(ws.file("stray"))


@pytest.mark.slow
def test_a_watch_sees_what_a_server_writes_into_its_file(ws: Workspace) -> None:
    ws.write("conf.json", "old")
    wait = 'while [ ! -e "$LOGS/.go" ]; do sleep 0.05; done'
    write = f"echo up; {wait}; echo new > conf.json; sleep 60"
    ws.server("web", write, ready_line="up", box=Box(("src",), ("conf.json",)))
    ws.task("see", 'cat conf.json >> "$LOGS/see"; echo >> "$LOGS/see"', inputs=["conf.json"])
    vx = ws.watch("web", "see")
    ws.wait(lambda: ws.lines("see") == ["old"], "it is seen")
    open(os.path.join(ws.logs, ".go"), "w").close()
    ws.wait(lambda: "new" in ws.lines("see"), "it is seen again")
    assert vx.stop() == 0


def test_no_task_runs_in_a_directory_that_was_deleted(owned: Workspace) -> None:
    owned.write("vx.workspace.toml", 'members = ["app"]\n')
    config = (
        "[tasks.{0}]\ncommand = 'pwd'\ndepends_on = ['ws#rm']\n[tasks.{0}.sandbox.allow]\n{1}\n"
    )
    grants = {"n": "", "d": 'write = ["out/"]', "f": 'write = ["out"]', "r": 'read = ["."]'}
    owned.write("app/vx.toml", "".join(config.format(*each) for each in grants.items()))
    name = os.path.basename(owned.path)
    owned.write("app/vx.toml", owned.read("app/vx.toml").replace("ws#rm", f"{name}#rm"))
    if _owner(owned) == STRANGER:
        _give(owned)
    owned.task("rm", f"rm -r {owned.file('app')}")
    done = owned.vx("run", *(f"app#{task}" for task in grants))
    assert done.code == 1
    gone = f"the working directory {owned.file('app')} does not exist"
    assert done.text.count(gone) >= len(grants), done.text
    assert not os.path.exists(owned.file("app"))
