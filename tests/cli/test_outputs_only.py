"""Where only outputs are gone, a run puts them back and loads little for it; and never wrong ones."""

import json
import os
import shutil
from collections.abc import Callable

import pytest

from tests.harness.workspace import Workspace

SPARED = {"subprocess", "vxwatch.workspace.git", "vxwatch.events"}
LONG_WAY = {
    "vxwatch.session.planning",
    "vxwatch.workspace.discover",
    "vxwatch.session.knowledge",
}


@pytest.fixture
def kept(ws: Workspace) -> Workspace:
    """A task whose outputs git ignores, proven to have nothing to do with `--all`."""
    ws.write(".gitignore", "/out\n/elsewhere\n")
    ws.write("src/a.txt", "a")
    ws.write(
        "vx.toml",
        f"""[tasks.t]
command = 'echo run >> "{ws.logs}/t"; mkdir -p out && cp src/a.txt out/b && echo said'
cache = {{ inputs = {{ files = ["src/**", "*.in"], env = ["MODE"] }}, outputs = ["out/**"] }}
""",
    )
    assert told(ws) == "1 ran"
    prove(ws)
    return ws


def told(ws: Workspace) -> str:
    """The last line of a run that succeeds, without its time."""
    done = ws.vx("run", "t", "--all")
    assert done.code == 0, done.text
    return done.out.splitlines()[-1].rpartition(" in ")[0]


def prove(ws: Workspace) -> None:
    """Run until it is proven that there is nothing to do."""
    before = proofs(ws)
    for _ in range(20):
        assert told(ws) == "1 fresh"
        if proofs(ws) != before:
            return
    raise AssertionError("no proof")


def proofs(ws: Workspace) -> list[tuple[str, int]]:
    place = ws.file(".vx/cache/standing")
    names = os.listdir(place) if os.path.isdir(place) else []
    return [(name, os.stat(f"{place}/{name}").st_ino) for name in names]


def loaded(ws: Workspace, then: str = "1 restored in ") -> set[str]:
    """What a run loads that ends so."""
    code = "print(*sorted(sys.modules), file=sys.stderr)"
    ran = ws.in_python("run", "t", "--all", then=code)
    assert then in ran.stdout
    return set(ran.stderr.splitlines()[-1].split())


def remove(ws: Workspace) -> None:
    shutil.rmtree(ws.file("out"))


def test_outputs_come_back_with_no_config_read_as_often_as_they_go(kept: Workspace) -> None:
    for _ in range(3):
        remove(kept)
        assert not (LONG_WAY | SPARED) & loaded(kept)
        assert kept.read("out/b") == "a"
    assert kept.runs("t") == 1
    assert told(kept) == "1 fresh"


def test_a_restore_that_took_the_long_way_spares_the_next_one_that(kept: Workspace) -> None:
    shutil.rmtree(kept.file(".vx/cache/standing"))
    remove(kept)
    assert loaded(kept) >= LONG_WAY
    remove(kept)
    assert not LONG_WAY & loaded(kept)
    assert kept.read("out/b") == "a"
    assert told(kept) == "1 fresh"


def _link(ws: Workspace) -> None:
    os.mkdir(ws.file("elsewhere"))
    ws.write("elsewhere/mine", "mine")
    os.symlink("elsewhere", ws.file("out"))


@pytest.mark.parametrize(
    ("change", "then", "runs"),
    [
        (lambda ws: ws.write("src/a.txt", "b"), "1 ran", 2),
        (lambda ws: ws.write("src/new.txt", "b"), "1 ran", 2),
        (lambda ws: ws.write("beside.in", "b"), "1 ran", 2),
        (lambda ws: os.unlink(ws.file("src/a.txt")), None, 2),
        (lambda ws: ws.write("out/extra", "b"), "1 restored", 1),
        (lambda ws: ws.write("out/b", "b"), "1 restored", 1),
        (lambda ws: ws.write("out", "a file"), None, 2),
        (lambda ws: ws.write("other.txt", "b"), "1 restored", 1),
        (lambda ws: ws.write("vx.toml", ws.read("vx.toml").replace("said", "told")), "1 ran", 2),
        (lambda ws: ws.write("vx.workspace.toml", "concurrency = 1\n"), "1 restored", 1),
        (lambda ws: ws.environment.update(MODE="x"), "1 ran", 2),
        (lambda ws: ws.write(".gitignore", "/out\na.txt\n"), "1 ran", 2),
        (lambda ws: shutil.rmtree(ws.file(".vx/cache/artifacts")), "1 ran", 2),
        (_link, None, 1),
    ],
    ids=[
        *(
            "edit",
            "new input",
            "new input beside",
            "no input",
            "extra output",
            "other output",
            "file for a directory",
        ),
        *("other file", "config", "settings", "variable", "rules", "no artifact", "link"),
    ],
)
def test_what_changes_beside_is_seen(
    kept: Workspace, change: Callable[[Workspace], object], then: str | None, runs: int
) -> None:
    remove(kept)
    change(kept)
    if then is None:
        assert kept.vx("run", "t", "--all").code != 0
    else:
        assert told(kept) == then
        assert os.listdir(kept.file("out")) == ["b"]
        assert told(kept) == "1 fresh"
    assert kept.runs("t") == runs


def test_outputs_that_git_does_not_ignore_may_be_inputs_and_take_the_long_way(
    kept: Workspace,
) -> None:
    kept.write(".gitignore", "/elsewhere\n")
    prove(kept)
    remove(kept)
    assert loaded(kept) >= LONG_WAY


def test_beside_a_session_that_stays_restoring_takes_the_long_way(kept: Workspace) -> None:
    remove(kept)
    os.mkdir(kept.file(".vx/vx-control-1"))
    assert loaded(kept) >= LONG_WAY


def test_what_the_cache_tells_is_not_lost(kept: Workspace) -> None:
    remove(kept)
    place = kept.file(".vx/cache/artifacts")
    for directory, _, names in os.walk(place):
        for name in names:
            with open(os.path.join(directory, name), "wb") as file:
                file.write(b"damaged")
    done = kept.vx("run", "t", "--all")
    assert done.code == 0
    assert done.text.count("what was saved of it is damaged") == 1
    assert kept.runs("t") == 2


def test_it_is_a_run_like_any_other_afterwards(kept: Workspace) -> None:
    def story() -> object:
        remove(kept)
        assert told(kept) == "1 restored"
        last = json.loads(kept.vx("last", "--format", "json").out)
        why = json.loads(kept.vx("why", "t", "--format", "json").out)
        for one in (last, *last["tasks"], why, why["last"]):
            for varying in ("id", "run", "since", "started", "seconds", "ago"):
                one.pop(varying, None)
        return last, why

    short = story()
    shutil.rmtree(kept.file(".vx/cache/standing"))
    assert story() == short


def test_beside_outputs_that_git_tracks_restoring_takes_the_long_way(kept: Workspace) -> None:
    kept.git("add", "-f", "out/b")
    prove(kept)
    remove(kept)
    assert loaded(kept) >= LONG_WAY
