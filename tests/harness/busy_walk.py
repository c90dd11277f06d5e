"""A random walk in which files change while tasks run, and the oracle of it.

A graph of tasks, some with declared inputs, some without, and of servers, all of which take their
time, is edited at any moment. Each job hashes its file, the word of its config and what its
dependencies wrote; so what each should have built last can be told from the disk alone. In the
end the cache is asked for many states again: what it gives must be what a run would make.
"""

import hashlib
import json
import os
import random
import shlex
import time
from dataclasses import dataclass, field

from tests.harness.processes import descendants
from tests.harness.running import PUPPETS, Background
from tests.harness.workspace import Workspace

_WORDS = ("x", "y", "z", "xy", "yx")
_PAUSES = (0.0, 0.002, 0.01, 0.02, 0.03, 0.06, 0.12, 0.3, 0.6)
_SEEN = (0.06, 0.12, 0.3)  # shorter than its debounce, a watch may take it for a save of the same
_SECONDS = (0.0, 0.02, 0.1, 0.3, 0.8)
_QUIET = 0.7


@dataclass
class Job:
    """One task: `kind` is keyed, plain or server."""

    project: str
    name: str
    kind: str
    seconds: float
    manner: str
    below: list["Job"] = field(default_factory=list)
    retries: int = 0

    @property
    def id(self) -> str:
        return f"{self.project}#{self.name}"

    @property
    def log(self) -> str:
        return f"{self.project}-{self.name}"

    def out(self, ws: Workspace) -> str:
        """The absolute path of what it writes."""
        if self.kind == "server":
            return os.path.join(ws.logs, f"{self.log}.built")
        return ws.file(f"packages/{self.project}/out-{self.name}/o")


class BusyWalk:
    """Rounds of edits, each of which ends when what was built last is what is on disk."""

    def __init__(self, ws: Workspace, seed: int) -> None:
        self._ws = ws
        self._chance = random.Random(seed)
        self._seed = seed
        self._jobs: list[Job] = []
        self._words: dict[str, str] = {}
        self._done: list[str] = []
        self._others: list[Background] = []
        self.rounds = 0
        self.flags: list[str] = []

    def prepare(self) -> None:
        """Write the workspace and commit it."""
        ws, chance = self._ws, self._chance
        ws.write("vx.workspace.toml", 'members = ["packages/*"]\n')
        ws.write(".gitignore", "out-*\n")
        for number in range(chance.randint(3, 6)):
            project = f"p{number}"
            self._words[project] = "w"
            ws.write(f"packages/{project}/f", "x\n")
            earlier = [*self._jobs]
            for name in ("build", "check")[: chance.choice((1, 1, 2)) if number else 2]:
                kind = chance.choice(("keyed", "keyed", "keyed", "plain", "server"))
                if {kind, *(o.kind for o in self._jobs if o.project == project)} == {
                    "plain",
                    "server",
                }:
                    kind = "keyed"  # what restarts a server is nothing to a task without inputs
                manner = "server"
                if kind != "server":
                    manner = chance.choice(("meek", "meek", "meek", "deaf", "writes"))
                job = Job(project, name, kind, chance.choice(_SECONDS), manner)
                job.below = chance.sample(earlier, min(len(earlier), chance.choice((0, 1, 1, 2))))
                job.retries = chance.choice((0, 0, 1))
                self._jobs.append(job)
        for project in self._words:
            self._save_config(project)
        ws.git("add", "-A")
        ws.git("commit", "-qm", "all")
        self.flags = [f"--concurrency={chance.choice((1, 2, 4))}"]
        if chance.random() < 0.15:
            self.flags.append("--on-busy=queue")
        if chance.random() < 0.15:
            self.flags.append("--no-cache")

    def begin(self) -> None:
        """Start the watch."""
        self._vx = self._ws.watch("build", "check", "--all", *self.flags)

    def until(self, end: float) -> None:
        """Go on until this time of the monotonic clock."""
        while time.monotonic() < end:
            self.rounds += 1
            self._done = []
            for _ in range(self._chance.choice((1, 2, 3, 6, 10))):
                self._edit()
                time.sleep(self._chance.choice(_PAUSES))
            self._meet()

    def end(self) -> None:
        """Stop the watch, maybe in the midst of things; ask the cache for what it may have kept."""
        if self._chance.random() < 0.5:
            self._write()
            time.sleep(self._chance.choice(_PAUSES))
        assert self._vx.stop() == 0, self._story("the end")
        for other in self._others:
            other.ended(30)
        self._ws.nothing_left()
        for round_ in range(8):
            for project in self._words:
                if round_ and self._chance.random() < 0.6:
                    self._put(project, self._chance.choice(_WORDS))
                elif "F" in self._file(project):
                    self._put(project, "x")
            once = [job.id for job in self._jobs if job.kind != "server" and not self._serves(job)]
            if not once:
                return
            self._done.append(f"run in the state {self._state()}")
            ran = self._ws.vx("run", *once, seconds=40)
            assert ran.code == 0, f"{ran.text}\n{self._story('a run')}"
            wrong = [w for job in self._jobs if job.id in once for w in self._wrong(job)]
            assert not wrong, f"the cache gives {wrong}\n{ran.text}\n{self._story('a run')}"

    # Edits

    def _edit(self) -> None:
        edits = {
            self._write: 12, self._there_and_back: 3, self._remove: 1, self._touch: 1,
            self._many: 2, self._reconfigure: 2, self._break: 1, self._restart: 1,
            self._run_beside: 1, self._switch: 1,
        }  # fmt: skip
        edit = self._chance.choices(list(edits), list(edits.values()))[0]
        edit()

    def _tell(self, what: str) -> None:
        self._done.append(f"{time.time() % 1000:.3f} {what}")

    def _project(self) -> str:
        return self._chance.choice(list(self._words))

    def _put(self, project: str, word: str) -> None:
        self._ws.write(f"packages/{project}/f", f"{word}\n")

    def _write(self) -> None:
        project, word = self._project(), self._chance.choice((*_WORDS, "F"))
        self._tell(f"{project} {word}")
        if self._chance.random() < 0.5:
            self._put(project, word)
        else:
            self._ws.replace(f"packages/{project}/f", f"{word}\n")

    def _there_and_back(self) -> None:
        project, pause = self._project(), self._chance.choice(_SEEN)
        before = self._file(project)
        self._tell(f"{project} there and back {pause}")
        self._put(project, self._chance.choice(_WORDS))
        time.sleep(pause)
        self._ws.write(f"packages/{project}/f", before)

    def _remove(self) -> None:
        project = self._project()
        self._tell(f"{project} removed")
        if os.path.exists(path := self._ws.file(f"packages/{project}/f")):
            os.unlink(path)

    def _touch(self) -> None:
        if os.path.exists(path := self._ws.file(f"packages/{self._project()}/f")):
            os.utime(path)

    def _many(self) -> None:
        self._tell("all")
        for project in self._words:
            self._put(project, self._chance.choice(_WORDS))

    def _switch(self) -> None:
        name = f"b{self._chance.randrange(3)}"
        names = self._ws.git("branch", "--format=%(refname:short)").split()
        self._tell(f"branch {name}")
        if name not in names:
            self._ws.git("checkout", "-q", "-b", name)
            self._ws.git("commit", "-qam", "more", "--allow-empty")
        else:
            self._ws.git("checkout", "-q", "-f", name)
        for project in self._words:
            text = self._ws.read(f"packages/{project}/vx.toml")
            self._words[project] = text.split('WORD = "')[1].split('"')[0]

    def _reconfigure(self) -> None:
        project = self._project()
        self._words[project] = self._chance.choice("uvw")
        self._tell(f"{project} config {self._words[project]}")
        self._save_config(project)

    def _break(self) -> None:
        project = self._project()
        self._tell(f"{project} broken config")
        self._ws.write(f"packages/{project}/vx.toml", "[tasks.build\n")
        time.sleep(self._chance.choice(_PAUSES))
        self._write()
        time.sleep(self._chance.choice(_PAUSES))
        self._tell(f"{project} mended config")
        self._save_config(project)

    def _restart(self) -> None:
        servers = [job for job in self._jobs if job.kind == "server"]
        if servers:
            job = self._chance.choice(servers)
            self._tell(f"vx restart {job.id}")
            self._others.append(self._ws.start("restart", job.id))

    def _run_beside(self) -> None:
        """Have another vx do the same; what it would do over again would disturb those who read it."""
        job = self._chance.choice(self._jobs)
        if "--no-cache" not in self.flags and self._is_kept(job):
            self._tell(f"vx run {job.id}")
            self._others.append(self._ws.start("run", job.id))

    # What is there

    def _save_config(self, project: str) -> None:
        ws, text = self._ws, ""
        for job in self._jobs:
            if job.project == project:
                text += self._table(job)
        ws.replace(f"packages/{project}/vx.toml", text)

    def _table(self, job: Job) -> str:
        ws = self._ws
        reads = ["f", *(other.out(ws) for other in job.below)]
        words = [f"{PUPPETS}/job.sh", job.log, job.seconds, job.manner, job.out(ws), *reads]
        command = f"exec sh {shlex.join(map(str, words))}"
        text = f"[tasks.{job.name}]\ncommand = {json.dumps(command)}\n"
        text += f"depends_on = {json.dumps([other.id for other in job.below])}\n"
        text += 'grace = "300ms"\n'
        if job.kind != "server" and job.retries:
            text += f"retries = {job.retries}\n"
        if job.kind == "keyed":
            text += f'cache = {{ inputs = ["f"], outputs = ["out-{job.name}/**"] }}\n'
        text += f"[tasks.{job.name}.env.set]\n"
        text += f'LOGS = {json.dumps(ws.logs)}\nWORD = "{self._words[job.project]}"\n'
        if job.kind == "server":
            text += f"[tasks.{job.name}.persistent]\n"
            text += 'ready_when = "READY"\nrestart_on = ["f"]\nrestart_on_dependencies = true\n'
        return text

    def _file(self, project: str) -> str:
        try:
            return self._ws.read(f"packages/{project}/f")
        except OSError:
            return "none\n"

    def _state(self) -> str:
        return " ".join(f"{p}={self._file(p).strip()}/{w}" for p, w in self._words.items())

    def _serves(self, job: Job) -> bool:
        """Whether a run of it would start a server."""
        return job.kind == "server" or any(map(self._serves, job.below))

    def _is_kept(self, job: Job) -> bool:
        """Whether the cache keeps it and all that it depends on."""
        return job.kind == "keyed" and all(map(self._is_kept, job.below))

    def _broken(self, job: Job) -> bool:
        """Whether it cannot be built as things are."""
        return "F" in self._file(job.project) or any(map(self._broken, job.below))

    def _expected(self, job: Job) -> str:
        reads = [self._file(job.project), *(self._expected(other) for other in job.below)]
        text = "".join(reads) + self._words[job.project] + "\n"
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8]
        return f"{digest} {digest}\n"

    def _wrong(self, job: Job) -> list[str]:
        if self._broken(job):
            return []
        try:
            with open(job.out(self._ws)) as file:
                there = file.read()
        except OSError as error:
            there = str(error)
        if there == self._expected(job):
            return []
        return [f"{job.id}: built {there!r}, not {self._expected(job)!r}"]

    def _differences(self) -> list[str]:
        return [wrong for job in self._jobs for wrong in self._wrong(job)]

    def _meet(self) -> None:
        """Wait until nothing moves; then what was built is what is there."""
        limit = time.monotonic() + 12
        while True:
            self._ws.settle(_QUIET, 60)
            idle = not self._running() and all(not other.running for other in self._others)
            differences = self._differences()
            if idle and not differences:
                break
            if time.monotonic() > limit or not self._vx.running:
                lines = "\n".join([*differences[:10], f"running: {self._running()}"])
                raise AssertionError(
                    f"built is not what is there:\n{lines}\n{self._story('edits')}"
                )
        self._others.clear()
        servers = self._servers()
        for job in self._jobs:
            if job.kind == "server" and not self._broken(job):
                assert servers.count(job.log) == 1, f"{servers}\n{self._story('edits')}"
            assert servers.count(job.log) <= 1, f"{servers}\n{self._story('edits')}"

    def _running(self) -> list[str]:
        """The jobs that are at work."""
        return [
            seen.line
            for seen in self._ws.processes()
            if any(w.endswith("job.sh") for w in seen.argv)
        ]

    def _servers(self) -> list[str]:
        """The logs of the servers that are up; not by their pids, which come round in a long walk."""
        pids = [seen.pid for seen in descendants([]) if seen.argv[:2] == ("sleep", "86400")]
        up = [task for pid in pids for task in _task_of(pid)]
        return [job.log for job in self._jobs for task in up if task == job.id]

    def _story(self, what: str) -> str:
        done = "\n  ".join(self._done)
        tail = self._vx.output[-4000:]
        jobs = "\n  ".join(
            f"{j.id} {j.kind} {j.seconds} {j.manner} r{j.retries} < {[o.id for o in j.below]}"
            for j in self._jobs
        )
        return (
            f"seed {self._seed}, round {self.rounds}, {self.flags}, after {what}:\n  {done}\n"
            f"jobs:\n  {jobs}\nstate: {self._state()}\nvx said:\n{tail}"
        )


def _task_of(pid: int) -> list[str]:
    """The task that a process was started for; nothing if it is gone."""
    try:
        with open(f"/proc/{pid}/environ") as file:
            words = file.read().split("\0")
    except OSError:
        return []
    return [word.removeprefix("VX_TASK=") for word in words if word.startswith("VX_TASK=")]
