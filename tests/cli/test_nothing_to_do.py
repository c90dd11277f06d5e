"""A run that has nothing to do says so, loads little for it, and is never wrong about it."""

import os
import subprocess
import sys

import pytest

from tests.harness.workspace import Workspace

NEVER = {"asyncio", "rich", "psutil", "watchfiles"}
LOADED_BY_OPTIONS = {"click", "uuid", "gettext", "difflib"}
LOADED_BY_DATACLASSES = {"dataclasses", "inspect", "ast", "dis"}
OF_TASKS_ONLY = {"vxwatch.hosts", "vxwatch.workspace.lockfiles", "vxwatch.config.lines"}
SPARED = NEVER | LOADED_BY_OPTIONS | LOADED_BY_DATACLASSES | OF_TASKS_ONLY | {"socket", "ssl"}


@pytest.fixture
def kept(ws: Workspace) -> Workspace:
    """A task whose result is kept, run long enough ago for stamps to prove that."""
    ws.write("src/a.txt", "a")
    ws.write(
        "vx.toml",
        f"""[tasks.t]
command = 'echo run >> "{ws.logs}/t"; mkdir -p out; cp src/a.txt out/b; echo said'
cache = {{ inputs = {{ files = ["src/**"], env = ["MODE"] }}, outputs = ["out/**"] }}
""",
    )
    return ws


def told(ws: Workspace, *words: str, **environ: str) -> str:
    """The last line of a run that succeeds, without its time."""
    ws.environment.update(environ)
    done = ws.vx("run", "t", *words)
    assert done.code == 0, done.text
    return done.out.splitlines()[-1].rpartition(" in ")[0]


def modules(ws: Workspace, *words: str, then: str = "1 fresh in ") -> set[str]:
    """What a run of the task loads, which ends so."""
    ran = ws.in_python("run", "t", *words, then="print(*sorted(sys.modules), file=sys.stderr)")
    assert then in ran.stdout
    return set(ran.stderr.split())


def proofs(ws: Workspace) -> int:
    place = ws.file(".vx/cache/standing")
    return len(os.listdir(place)) if os.path.isdir(place) else 0


def prove(ws: Workspace) -> None:
    """Run until it is proven that there is nothing to do."""
    for _ in range(20):
        told(ws)
        if proofs(ws):
            return
    raise AssertionError("no proof")


def test_neither_way_loads_an_event_loop(kept: Workspace) -> None:
    assert told(kept) == "1 ran"
    long_way = modules(kept)
    assert not SPARED & long_way
    prove(kept)
    short_way = modules(kept)
    assert not (SPARED | {"sqlite3", "tomllib"}) & short_way
    assert kept.runs("t") == 1


def test_after_an_edit_no_config_is_read_again(kept: Workspace) -> None:
    assert told(kept) == "1 ran"
    kept.write("src/a.txt", "b")
    loaded = modules(kept, then="1 ran in ")
    assert "asyncio" in loaded
    assert not {"tomllib", "vxwatch.config.schema", "vxwatch.workspace.loading"} & loaded


def test_nor_does_restoring(kept: Workspace) -> None:
    assert told(kept) == "1 ran"
    os.unlink(kept.file("out/b"))
    assert not SPARED & modules(kept, "--all", then="1 restored in ")
    assert kept.runs("t") == 1


@pytest.mark.parametrize(
    ("change", "then"),
    [
        (lambda ws: ws.write("src/a.txt", "b"), "1 ran"),
        (lambda ws: ws.write("src/new.txt", "b"), "1 ran"),
        (lambda ws: ws.write("out/b", "b"), "1 restored"),
        (lambda ws: ws.write("out/extra", "b"), "1 restored"),
        (lambda ws: ws.write("vx.toml", ws.read("vx.toml").replace("said", "told")), "1 ran"),
        (lambda ws: ws.environment.update(MODE="x"), "1 ran"),
        (lambda ws: ws.write("other.txt", "b"), "1 fresh"),
        (lambda ws: ws.write(".gitignore", "a.txt\n"), "1 ran"),
    ],
    ids=["edit", "new file", "output", "new output", "config", "variable", "other", "rules"],
)
def test_what_changes_is_seen(kept: Workspace, change: object, then: str) -> None:
    assert told(kept) == "1 ran"
    prove(kept)
    assert told(kept) == "1 fresh"
    assert callable(change)
    change(kept)
    assert told(kept) == then
    assert told(kept) == "1 fresh"


def test_rules_behind_a_link_are_seen(kept: Workspace) -> None:
    home = kept.file("../home")
    os.makedirs(f"{home}/dotfiles")
    os.symlink("dotfiles", f"{home}/.config")
    kept.write("src/b.txt", "b")
    kept.write("../home/dotfiles/rules", "nothing\n")
    kept.write("../home/dotfiles/own", "b.txt\n")
    kept.write("../home/dotfiles/git/config", "[include]\npath = more\n")
    os.symlink("../rules", f"{home}/dotfiles/git/ignore")
    kept.environment.update(HOME=home)
    kept.environment.pop("XDG_CONFIG_HOME", None)
    assert told(kept) == "1 ran"
    prove(kept)
    kept.write("../home/dotfiles/rules", "a.txt\n")
    assert told(kept) == "1 ran"
    prove(kept)
    kept.write("../home/dotfiles/git/more", "[core]\nexcludesFile = ~/dotfiles/own\n")
    assert told(kept) == "1 ran"


def test_a_new_root_of_the_workspace_is_seen(kept: Workspace) -> None:
    told(kept)
    prove(kept)
    above = os.path.join(os.path.dirname(kept.path), "vx.workspace.toml")
    with open(above, "w") as file:
        file.write('members = ["*"]\n')
    try:
        told(kept)
        assert os.path.isdir(os.path.join(os.path.dirname(kept.path), ".vx"))
    finally:
        os.unlink(above)


def test_a_command_that_is_asked_each_time_is_no_proof(kept: Workspace) -> None:
    text = kept.read("vx.toml").replace('env = ["MODE"]', f"runtime = [\"cat '{kept.logs}/x'\"]")
    kept.write("vx.toml", text)
    for name, then in (("1", "1 ran"), ("1", "1 fresh"), ("1", "1 fresh"), ("2", "1 ran")):
        with open(os.path.join(kept.logs, "x"), "w") as file:
            file.write(name)
        assert told(kept) == then
    assert proofs(kept) == 0


def test_it_is_said_where_nothing_can_be_written(kept: Workspace) -> None:
    told(kept)
    prove(kept)
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), "vx"), "run", "t"],
            cwd=kept.path,
            env=kept.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert "cannot write output" in ran.stderr
