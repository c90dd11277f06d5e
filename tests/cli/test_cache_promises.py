"""What is kept is what was made, all of it, and only that; and what a fault in a config costs."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.test_cache import run, summary
from tests.harness.workspace import Workspace

GEN = """
echo run >> "$LOGS/gen"; mkdir -p dist; echo half > dist/gen
case $(cat "$LOGS/mode") in
  fail) exit 3;;
  die) kill -9 $$;;
  slow) sleep 30;;
  zero) trap 'exit 0' INT TERM; touch "$LOGS/armed"; while :; do sleep 0.05; done;;
esac
echo whole > dist/gen
"""


def test_nothing_that_builds_on_what_did_not_succeed_is_kept(ws: Workspace) -> None:
    ws.write("src/a", "one")
    ws.write("pack.cfg", "x")
    ws.write("gen.sh", GEN)
    ws.task("gen", "sh gen.sh", inputs=["src/**"], outputs=["dist/gen"])
    ws.task(
        "pack",
        'echo run >> "$LOGS/pack"; cat dist/gen > dist/pack',
        inputs=["pack.cfg"],
        outputs=["dist/pack"],
        after=["gen"],
    )
    mode = Path(ws.logs, "mode")
    for name, code in (("fail", 3), ("die", 137)):
        mode.write_text(name)
        assert ws.vx("run", "pack").code == code
    for count, name in enumerate(("slow", "zero"), 3):
        mode.write_text(name)
        vx = ws.start("run", "pack")
        ws.wait_runs("gen", count)
        ws.wait(lambda: ws.holds("dist/gen", "half\n"), "the task is half done")
        if name == "zero":
            ws.wait(Path(ws.logs, "armed").exists, "the task answers signals")
        assert vx.stop(signal.SIGINT) == 130
    assert (ws.runs("gen"), ws.runs("pack")) == (4, 0)
    mode.write_text("good")
    assert run(ws, "pack") == "2 ran"
    assert (ws.runs("gen"), ws.runs("pack")) == (5, 1)
    shutil.rmtree(ws.file("dist"))
    assert run(ws, "pack") == "2 restored"
    assert (ws.read("dist/gen"), ws.read("dist/pack")) == ("whole\n", "whole\n")
    assert (ws.runs("gen"), ws.runs("pack")) == (5, 1)
    ws.nothing_left()


MAKE = r"""
echo run >> "$LOGS/build"
mkdir -p dist/empty "dist/sp ace" dist/ü
echo '#!/bin/sh' > dist/tool; chmod 755 dist/tool
echo r > dist/ro; chmod 444 dist/ro
ln -s tool dist/link; ln -s nowhere dist/broken; ln -s empty dist/dirlink
echo b > 'dist/back\slash'; echo x > "dist/sp ace/a b"; echo u > dist/ü/é
printf 'a\nb' > "dist/$(printf 'new\nline')"; printf x > "dist/$(printf 'no\377text')"
cat src/mode > dist/mode
[ "$(cat src/mode)" = B ] && echo only-b > dist/only-b
true
"""
Seen = Mapping[bytes, tuple[int, bytes]]


def seen(ws: Workspace) -> Seen:
    """Every path below `dist`, with its kind and mode, and what it holds or leads to."""
    found: dict[bytes, tuple[int, bytes]] = {}
    top = os.fsencode(ws.file("dist"))
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            content = b""
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, top)] = mode, content
    return found


def test_a_restore_gives_back_the_tree_with_all_that_is_odd_in_it(ws: Workspace) -> None:
    ws.write("make.sh", MAKE)
    ws.task("build", "sh make.sh", inputs=["make.sh", "src/**"], outputs=["dist/**"])
    made: dict[str, Seen] = {}
    for state in "AB":
        ws.write("src/mode", f"{state}\n")
        assert run(ws, "build") == "1 ran"
        made[state] = seen(ws)
    assert len(made["A"]) == 14
    assert made["B"].keys() - made["A"].keys() == {b"only-b"}
    shutil.rmtree(ws.file("dist"))
    for state in "BAB":
        ws.write("src/mode", f"{state}\n")
        assert run(ws, "build") in ("1 restored", "1 fresh")
        assert seen(ws) == made[state]
    assert ws.runs("build") == 2


def test_what_is_fresh_is_there_whatever_became_of_the_tree(ws: Workspace) -> None:
    ws.write("src/a", "one\n")
    ws.write(".gitignore", "")
    ws.task(
        "build",
        'echo run >> "$LOGS/build"; mkdir -p dist/sub; cp src/a dist/a; cp src/a dist/sub/b',
        inputs=["src/**"],
        outputs=["dist/**"],
    )
    ws.git("add", "src", "vx.toml", ".gitignore")
    ws.git("commit", "-qm", "all")
    run(ws, "build")
    expected = seen(ws)
    for damage in (
        "rm dist/sub/b",
        "rm -r dist/sub",
        "echo hacked > dist/a",
        "touch -r dist/a ref; printf 'ONE\\n' > dist/a; touch -r ref dist/a; rm ref",
        "chmod 755 dist/a",
        "rm dist/a; ln -s ../src/a dist/a",
        "rm dist/a; mkdir dist/a",
        "rm -r dist",
        "echo junk > dist/stray",
        "mkdir -p dist/stray/deep",
    ):
        subprocess.run(damage, shell=True, cwd=ws.path, check=True)
        assert run(ws, "build") == "1 restored", damage
        assert seen(ws) == expected, damage
        assert run(ws, "build") == "1 fresh"
    ws.git("stash", "-u", "-q")
    assert not os.path.exists(ws.file("dist"))
    assert run(ws, "build") == "1 restored"
    shutil.rmtree(ws.file("dist"))
    ws.git("stash", "pop", "-q")
    assert run(ws, "build") in ("1 fresh", "1 restored")
    assert seen(ws) == expected
    assert ws.runs("build") == 1


GOOD = (
    '[tasks.build]\ncommand = \'echo run >> "$LOGS/any"; mkdir -p dist\'\nenv.set.LOGS = "LOGS"\n'
)
MISTAKES = {
    "an unknown field": ("cache.outputz = ['dist/**']\n", "did you mean outputs?"),
    "a name one letter off": (
        "depends_on = ['lnit']\n[tasks.lint]\ncommand = 'true'\n",
        "did you mean lint?",
    ),
    "a circle": (
        (
            "depends_on = ['a']\n[tasks.a]\ncommand = 'true'\ndepends_on = ['b']\n"
            "[tasks.b]\ncommand = 'true'\ndepends_on = ['build']\n"
        ),
        "-> w#a -> w#b -> ",
    ),
    "outputs that overlap": (
        (
            "cache.outputs = ['dist/**']\n[tasks.o]\ncommand = 'true'\ncache.outputs = ['dist/sub/**']\n"
            "[tasks.all]\ndepends_on = ['build', 'o']\n"
        ),
        "dist/sub/**",
    ),
    "an output that git tracks": ("cache.outputs = ['src/**']\n", "covers src/precious"),
    "a port twice": (
        "[tasks.all]\ndepends_on = ['x', 'y']\n"
        + "".join(
            f"[tasks.{name}]\ncommand = 'true'\npersistent = {{}}\n"
            "sandbox.allow.local_binding = [{ port = 80, host = 18301 }]\n"
            for name in "xy"
        ),
        "18301",
    ),
    "no duration": ("grace = '-1s'\n", "grace"),
    "a way out": ("cache.outputs = ['../x']\n", "../x"),
    "a server that makes something": (
        "cache.outputs = ['dist/**']\npersistent = {}\n",
        "restart_on",
    ),
}


@pytest.mark.parametrize("verb", ["run", "watch"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_config_is_refused_and_costs_nothing(
    ws: Workspace, mistake: str, verb: str
) -> None:
    more, told = MISTAKES[mistake]
    ws.write("src/precious", "by hand")
    ws.write("vx.toml", GOOD.replace('"LOGS"', f'"{ws.logs}"') + more)
    ws.git("add", ".")
    ws.git("commit", "-qm", "all")
    names = ["build"] if "[tasks.all]" not in more else ["all"]
    done = ws.vx(verb, *names, seconds=10)
    assert done.code == 2, done.text
    assert told in done.err
    assert "vx.toml" in done.err or "tasks." in done.err or "w#" in done.err
    assert "Traceback" not in done.text
    assert ws.runs("any") == 0
    assert ws.dirt() == []
    assert ws.read("src/precious") == "by hand"


def test_each_cycle_says_which_file_and_what_it_ran(ws: Workspace) -> None:
    ws.write("lib/a", "a\n")
    ws.write("app/a", "b\n")
    ws.task("lib", "cat lib/* > dist-lib", inputs=["lib/**"], outputs=["dist-lib"])
    ws.task(
        "app",
        "cat dist-lib app/* > dist-app",
        inputs=["app/**"],
        outputs=["dist-app"],
        after=["lib"],
    )
    vx = ws.watch("app")
    vx.wait_says(r"^cycle 1: 2 ran")
    ws.write("other", "nobody takes it")
    ws.write("lib/new", "x\n")
    vx.wait_says(r"^cycle 2: 2 ran.*")
    line = next(line for line in vx.output.splitlines() if line.startswith("cycle 2: "))
    assert "lib/new" in vx.output.partition("cycle 1: ")[2]
    assert "cycle 3" not in vx.output, line
    assert vx.stop() == 0
    assert ws.read("dist-app") == "a\nx\nb\n"


def test_a_run_that_was_stopped_is_no_failure_in_the_history(ws: Workspace) -> None:
    ws.write("src/a", "a")
    ws.task("app", "cp src/a out", inputs=["src/**"], outputs=["out"])
    ws.task("slow", 'echo up >> "$LOGS/slow"; exec sleep 60')
    assert summary(ws.vx("run", "app").out) == "1 ran"
    vx = ws.start("run", "slow")
    ws.wait_runs("slow", 1)
    assert vx.stop(signal.SIGINT) == 130
    listed = ws.vx("last", "--list").out.splitlines()
    stopped = next(line for line in listed if "vx run slow" in line)
    assert "failed" not in stopped
    assert "SIGINT" in stopped or "stopped" in stopped or "interrupted" in stopped, stopped
    assert "app is fresh" in ws.vx("why", "app").out
