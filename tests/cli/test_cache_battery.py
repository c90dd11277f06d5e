"""Many vx on one cache, while one prunes it and one is killed again and again: nothing is wrong.

`SOAK` is for how many seconds they go on; a few where it is not set.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.harness import soaking
from tests.harness.running import VX
from tests.harness.workspace import Workspace

SECONDS = soaking.SECONDS or 6.0
WORKERS = 8
STATES = 4

BUILD = """
set -e
mkdir -p dist/empty dist/deep/er
state=$(cat src/state)
for n in 1 2 3 4 5; do yes "$state $n" | head -c $((n * 3000)) > dist/deep/f$n; done
echo "$state" > dist/deep/er/only-$state
chmod 755 dist/deep/f1
ln -s ../deep/f1 dist/deep/link
"""

pytestmark = pytest.mark.timeout(SECONDS + 240)


class Site:
    """One workspace of many that share a cache."""

    def __init__(self, path: str, cache: str, environment: dict[str, str]) -> None:
        self.path = path
        self._environment = environment
        os.makedirs(f"{path}/src")
        Path(path, "package.json").write_text('{"name": "app"}')
        Path(path, "build.sh").write_text(BUILD)
        Path(path, "vx.workspace.toml").write_text(f'cache_dir = "{cache}"\n')
        Path(path, "vx.toml").write_text(
            '[tasks.build]\ncommand = "sh build.sh"\n'
            'cache = { inputs = ["build.sh", "src/**"], outputs = ["dist/**"] }\n'
        )

    def prepare(self, chance: random.Random) -> str:
        state = f"s{chance.randrange(STATES)}"
        Path(self.path, "src", "state").write_text(f"{state}\n")
        damage = chance.randrange(4)
        if damage == 0:
            shutil.rmtree(f"{self.path}/dist", ignore_errors=True)
        elif damage == 1 and os.path.isdir(f"{self.path}/dist/deep"):
            Path(self.path, "dist", "deep", "f2").write_text("damage")
            Path(self.path, "dist", "stray").write_text("stray")
        return state

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [VX, *words],
            cwd=self.path,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as process:
            assert process.stdout is not None
            output = process.stdout.read().decode()
        return process.returncode, output

    def wrong(self, state: str) -> str:
        """How the outputs differ from those of this state."""
        files = {f"deep/f{n}": f"{state} {n}\n" * 3000 for n in range(1, 6)}
        expected = {name: text[: n * 3000] for n, (name, text) in enumerate(files.items(), 1)}
        expected[f"deep/er/only-{state}"] = f"{state}\n"
        found: dict[str, str] = {}
        for directory, _, names in os.walk(f"{self.path}/dist"):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    found[os.path.relpath(path, f"{self.path}/dist")] = Path(path).read_text()
        if found != expected:
            return f"{sorted(found)} is not {state}"
        if not os.access(f"{self.path}/dist/deep/f1", os.X_OK):
            return "the mode is gone"
        if os.readlink(f"{self.path}/dist/deep/link") != "../deep/f1":
            return "the link is gone"
        return "" if os.path.isdir(f"{self.path}/dist/empty") else "the empty directory is gone"


def work(site: Site, seed: int, until: float, faults: list[str]) -> None:
    chance = random.Random(seed)
    while time.monotonic() < until and not faults:
        state = site.prepare(chance)
        code, output = site.run("run", "build")
        if code or "warning" in output:
            faults.append(f"exit code {code}: {output}")
        elif wrong := site.wrong(state):
            faults.append(f"{wrong}: {output}")


def be_killed(site: Site, seed: int, until: float) -> None:
    chance = random.Random(seed)
    while time.monotonic() < until:
        site.prepare(chance)
        with site.start("run", "build") as process:
            try:
                process.wait(chance.uniform(0.02, 0.8))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)


def prune(site: Site, seed: int, until: float, faults: list[str]) -> None:
    chance = random.Random(seed)
    while time.monotonic() < until and not faults:
        code, output = site.run("cache", "prune", "--max-size", chance.choice(["0", "3K", "1M"]))
        if code:
            faults.append(output)
        time.sleep(chance.uniform(0, 0.3))


@pytest.mark.soak
@pytest.mark.slow
def test_many_use_one_cache_while_others_prune_and_die(ws: Workspace, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    sites = [
        Site(str(tmp_path / f"w{number}"), cache, ws.environment) for number in range(WORKERS + 2)
    ]
    seed = random.randrange(1 << 30)
    until = time.monotonic() + SECONDS
    faults: list[str] = []
    threads = [
        threading.Thread(target=work, args=(site, seed + number, until, faults))
        for number, site in enumerate(sites[:WORKERS])
    ]
    threads.append(threading.Thread(target=be_killed, args=(sites[WORKERS], seed, until)))
    threads.append(threading.Thread(target=prune, args=(sites[WORKERS + 1], seed, until, faults)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [], f"seed {seed}"
    with sqlite3.connect(f"{cache}/cache.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    site = sites[0]
    output = ""
    for number in range(STATES):
        for _ in range(2):
            shutil.rmtree(f"{site.path}/dist", ignore_errors=True)
            Path(site.path, "src", "state").write_text(f"s{number}\n")
            code, output = site.run("run", "build")
            assert (code, site.wrong(f"s{number}")) == (0, ""), output
        assert "1 restored" in output
    code, _ = site.run("cache", "prune", "--max-size", "0")
    assert code == 0
    assert [*Path(cache, "artifacts").rglob("*.zst")] == []
    assert [*Path(cache, "tmp").iterdir()] == []
    ws.nothing_left()
