"""A random walk through a workspace under `vx watch`, and the oracle of it.

A walk edits the disk as people, editors and git do. The oracle knows nothing of events: it
compares what tasks built last with what the disk holds now. Each package has a task with
declared inputs and one without; the root has one that reads the sources of all packages.
"""

import json
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable

from tests.harness.waiting import patience, wait_for
from tests.harness.walk_edits import EDITS, IDLE_EDITS, MARK, Edit, Ground
from tests.harness.workspace import Workspace
from tests.puppets.snapshot import snapshot

_CYCLE = re.compile(r"^cycle \d+: .*$", re.MULTILINE)
_PAUSES = (0.0, 0.0, 0.004, 0.03, 0.2)


class Walk:
    """Rounds of edits, each of which ends when what was built last is what is on disk."""

    def __init__(self, ws: Workspace, seed: int) -> None:
        self._ws = ws
        self._chance = random.Random(seed)
        self._seed = seed
        self._ground = Ground(ws, self._chance)
        self._done: list[str] = []
        self._hidden: set[str] = set()
        self.rounds = 0

    def prepare(self) -> None:
        """Write the workspace and commit it."""
        self._ground.prepare()

    def begin(self) -> None:
        """Start the watch and see that everything is built."""
        self._vx = self._ws.watch("build", "lint", "all", "--all")
        self._meet("the start")

    def until(self, end: float) -> None:
        """Go on until this time of the monotonic clock."""
        while time.monotonic() < end:
            self.rounds += 1
            if self._chance.random() < 0.3:
                self._stand_still()
            else:
                self._step()

    def end(self) -> None:
        """Stop the watch; it must have been alive and have left nothing."""
        assert self._vx.stop() == 0, self._story("the end")
        self._ws.nothing_left()

    def _step(self) -> None:
        """Some edits, close together; then all of it is built."""
        self._done = []
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            self._edit(self._chance.choices(*zip(*EDITS.items(), strict=True))[0])
            time.sleep(self._chance.choice(_PAUSES))
        self._ground.mend()
        self._meet("the edits")

    def _stand_still(self) -> None:
        """Touch the disk and change nothing; the next edit is the first to make a cycle."""
        self._done = []
        self._ground.file()  # makes one where none is left
        self._save_twice()
        before = len(self._cycles())
        self._ground.dawdled = False
        for _ in range(3):
            self._edit(self._chance.choice(IDLE_EDITS))
        saved = self._save_twice()
        made = [line.partition(" - ")[2] for line in self._cycles()[before:]]
        if made != saved and not self._ground.dawdled:
            odd = {path for line in made for path in line.split(", ")} - {MARK}
            facts = "\n".join(self._facts(path) for path in sorted(odd))
            story = self._story("standing still")
            raise AssertionError(f"made cycles: {made}, not {saved}\n{facts}\n{story}")

    def _facts(self, path: str) -> str:
        """What there is to know of a path that made a cycle."""
        try:
            seen = os.lstat(self._ws.file(path))
            age = time.time() - seen.st_ctime
            there = f"mode {seen.st_mode:o}, inode {seen.st_ino}, changed {age:.3f} s ago"
        except OSError as error:
            there = str(error)
        listed = self._ground.git_says("ls-files", "-s", "--", path)
        ignored = self._ground.git_says("check-ignore", "-v", "--no-index", "--", path)
        return f"{path!r}: {there}; in the index: {listed!r}; ignored by: {ignored!r}"

    def _save_twice(self) -> list[str]:
        """Edit twice and wait for the cycles; a look that saw the second saw all before the first."""
        for _ in range(2):
            self._await_cycle(self._ground.save_mark)
        return [MARK, MARK]

    def _await_cycle(self, save: Callable[[], None]) -> None:
        """Save what a cycle names first, and wait for the end of that cycle."""
        # What is saved while a cycle ends may be the work of its tasks.
        self._ws.settle(0.1, 30)
        before = len(self._cycles())
        save()
        wait_for(
            lambda: any(f" - {MARK}" in line for line in self._cycles()[before:]),
            f"a cycle for {MARK}",
            20,
            lambda: self._story("a save"),
        )

    def _edit(self, edit: Edit) -> None:
        told = edit(self._ground)
        self._done.append(f"{edit.__name__}: {told}")

    def _cycles(self) -> list[str]:
        return _CYCLE.findall(self._vx.output)

    def _meet(self, what: str) -> None:
        """Wait until what was built is what is there."""
        limit = time.monotonic() + patience(20)
        while differences := self.differences():
            if time.monotonic() > limit or not self._vx.running:
                lines = "\n".join(differences[:10])
                raise AssertionError(f"built is not what is there:\n{lines}\n{self._story(what)}")
            time.sleep(0.02)

    def differences(self) -> list[str]:
        """How what was built last differs from the disk, one line each."""
        ws, found = self._ws, []
        everything: dict[str, str] = {}
        for member in self._ground.members():
            top = f"packages/{member}"
            name, word = self._ground.name(member), self._ground.version(member)
            sources = self._counting(f"{top}/src", snapshot(ws.file(f"{top}/src")))
            everything |= {f"{member}/src/{path}": what for path, what in sources.items()}
            built = self._built(f"{top}/src", ws.file(f"{top}/dist/snapshot.json"))
            found += self._compare(f"{top} build", f"{top}/src/", (word, sources), built)
            whole = self._counting(top, snapshot(ws.file(top)))
            linted = self._built(top, os.path.join(ws.logs, f"lint-{name}.json"))
            found += self._compare(f"{top} lint", f"{top}/", (word, whole), linted)
        word, files = self._built("packages", ws.file("out/all.json"))
        files = {path: what for path, what in files.items() if path.split("/")[1:2] == ["src"]}
        return found + self._compare("all", "packages/", ("", everything), (word, files))

    def _compare(
        self,
        what: str,
        top: str,
        there: tuple[str, dict[str, str]],
        built: tuple[str, dict[str, str]],
    ) -> list[str]:
        """How what is there below `top` differs from what was built.

        What was built while git ignored it, and went away meanwhile, was no input of anybody.
        """
        found = [f"{what}: word {built[0]!r}, not {there[0]!r}"] if there[0] != built[0] else []
        for path in there[1].keys() | built[1].keys():
            now, then = there[1].get(path), built[1].get(path)
            if now != then and not (now is None and f"{top}{path}" in self._hidden):
                now, then = now and now[:40], then and then[:40]
                found.append(f"{what}: {path!r} is {now!r}, built {then!r}")
        return found

    def _built(self, top: str, path: str) -> tuple[str, dict[str, str]]:
        try:
            with open(path) as file:
                seen = json.load(file)
        except (OSError, ValueError) as error:
            return str(error), {}
        return seen["word"], self._counting(top, seen["files"])

    def _counting(self, top: str, files: dict[str, str]) -> dict[str, str]:
        """Those of the files below `top` that no rule of git ignores.

        That git tracks one all the same is in its index alone, where nothing of the work tree moves.
        """
        paths = {f"{top}/{path}": path for path in files}
        names = b"\0".join(map(os.fsencode, paths))
        asked = subprocess.run(
            ["git", "check-ignore", "-z", "--no-index", "--stdin"],
            cwd=self._rules(),
            input=names,
            capture_output=True,
            check=False,
        )
        assert asked.returncode in (0, 1), asked.stderr
        ignored = {os.fsdecode(name) for name in asked.stdout.split(b"\0")}
        self._hidden |= ignored
        return {path: files[path] for full, path in paths.items() if full not in ignored}

    def _rules(self) -> str:
        """A repository that holds nothing but the rules: git judges no path that a link leads to."""
        copy = f"{self._ws.path}.rules"
        if not os.path.isdir(copy):
            subprocess.run(["git", "init", "-q", copy], check=True)
        shutil.rmtree(f"{copy}/packages", ignore_errors=True)
        for place in ("", *(f"packages/{member}/" for member in self._ground.members())):
            if os.path.exists(rules := self._ws.file(f"{place}.gitignore")):
                os.makedirs(f"{copy}/{place}", exist_ok=True)
                shutil.copy(rules, f"{copy}/{place}.gitignore")
        return copy

    def _story(self, what: str) -> str:
        done = "\n  ".join(self._done)
        tail = self._vx.output[-3000:]
        return f"seed {self._seed}, round {self.rounds}, after {what}:\n  {done}\nvx said:\n{tail}"
