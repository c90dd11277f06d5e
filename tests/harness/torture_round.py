"""One round of torture: build a workspace, start vx on it, end it as planned, see what is left.

Whatever the round finds is a line of text in `Result.problems`; at its end nothing of it lives,
whether vx did its part or not.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.harness import processes, running
from tests.harness.ports import is_free
from tests.harness.torture_oracle import Oracle, arguments, children
from tests.harness.torture_plan import PAUSES, Plan, Planned, Step, ports_of
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace

PROMISED = 1.0
"""Seconds after the end of vx in which everything must be gone."""

_UP, _OVER = 12.0, 4.0  # seconds for all trees to come up; for vx to end, beside its graces
_TICK = 0.002
_SHOWN = 12
_PYTHON_STARTS = "Fatal Python error: init"  # what a SIGINT makes of an interpreter that starts


@dataclass(slots=True)
class Result:
    """What a round showed. Times are in seconds, None for what did not come to pass."""

    seed: int
    told: str
    problems: list[str] = field(default_factory=list)
    survivors: int = 0
    members: int = 0
    taken: int = 0
    signalled: int = 0
    end: float | None = None
    gone: float | None = None


class Strangers:
    """Processes beside vx that it must never signal; see the puppet."""

    def __init__(self) -> None:
        argv = [*running.PYTHON, os.path.join(running.PUPPETS, "tree_strangers.py")]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end_round(self, *, hit: bool = False) -> tuple[int, list[str]]:
        """How many pids were taken over in the round, and who of them was signalled."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"hit\n" if hit else b"next\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["taken"], answer["signalled"]

    def close(self) -> None:
        """End them all."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def play(plan: Plan, take_port: Callable[[], int], strangers: Strangers, plant: str = "") -> Result:
    """Play the round. `plant` makes a fault that must be found: a "survivor" or a "kill"."""
    result = Result(plan.seed, str(plan))
    with _place() as place:
        this = _Round(plan, place, take_port, strangers, result)
        try:
            this.play(plant)
        finally:
            this.close()
        result.taken, signalled = strangers.end_round(hit=plant == "kill")
    result.signalled = len(signalled)
    result.problems += signalled
    return result


@contextmanager
def _place() -> Iterator[str]:
    """A directory whose name is the round's token."""
    home = tempfile.mkdtemp(prefix="torture-")
    try:
        place = os.path.join(home, f"k{random.SystemRandom().randrange(1 << 40):x}")
        os.mkdir(place)
        yield place
    finally:
        shutil.rmtree(home, ignore_errors=True)


class _Round:
    def __init__(
        self,
        plan: Plan,
        place: str,
        take_port: Callable[[], int],
        strangers: Strangers,
        result: Result,
    ) -> None:
        self._plan = plan
        self._result = result
        self._spared = [strangers.pid]
        self._tmp = os.path.join(place, "tmp")
        os.mkdir(self._tmp)
        self._ws = Workspace(os.path.join(place, "w"), os.path.join(place, "logs"), take_port)
        self._ws.environment |= {"TMPDIR": self._tmp, "XDG_CACHE_HOME": os.path.join(place, "c")}
        self._log = os.path.join(self._ws.logs, "members")
        self._oracle = Oracle(os.path.basename(place), self._log)
        self._nursery = -1
        self._vx: running.Background | running.Terminal

    def play(self, plant: str) -> None:
        """All of it, up to the last look."""
        self._ws.write("src/a", "0")
        for task in self._plan.tasks:
            self._write_task(task)
        before = self._files()
        self._vx = self._start()
        acted = self._act()
        if plant == "survivor":
            _plant_survivor(self._ws.path)
        if self._ended(acted):
            self._look(before)
        self._result.members = len(self._oracle.members())

    def close(self) -> None:
        """Nothing of the round lives on."""
        self._ws.close()
        processes.kill_all(self._spared)
        if self._nursery >= 0:
            os.close(self._nursery)

    # What vx is given

    def _write_task(self, task: Planned) -> None:
        ports = [self._port(node) for node in ports_of(task.tree)]
        spec = os.path.join(self._ws.logs, f"{task.name}.json")
        with open(spec, "w") as file:
            json.dump(task.tree, file)
        tree = self._ws.puppet("tree.py", spec, self._log)
        command = task.wrap.replace("{}", tree)
        box = None
        if task.boxed:
            box = Box(read=(".",), write=("late/",), ports=tuple(ports) if task.server else ())
        grace = f"{task.grace}s"
        files = ["src/**"] if task.watched else []
        if task.interactive:
            self._ws.interactive(task.name, command, grace=grace)
        elif task.server:
            self._ws.server(
                task.name, command, after=task.after, grace=grace, box=box, restart_on=files
            )
        else:
            inputs = files or None
            self._ws.task(task.name, command, after=task.after, grace=grace, box=box, inputs=inputs)

    def _port(self, node: dict[str, object]) -> int:
        port = node["port"] = self._ws.port()
        return port

    def _start(self) -> running.Background | running.Terminal:
        names = [task.name for task in self._plan.tasks]
        start = self._ws.terminal if self._plan.terminal else self._ws.start
        return start(self._plan.verb, *names, "--concurrency", "32")

    # What is done to vx

    def _act(self) -> float:
        """Do the steps; when vx had been told to end."""
        told = 0.0
        for step in self._plan.steps:
            self._reach(step)
            self._pause(step.delay)
            if not told and step.what not in PAUSES:
                told = time.monotonic()
            self._do(step)
        return told or time.monotonic()

    def _reach(self, step: Step) -> None:
        if step.moment == "nursery":
            self._until(self._find_nursery, "the nursery is there")
        elif step.moment == "spawning":
            self._until(lambda: self._up() > 0, "a first member is up")
        elif step.moment in ("steady", "cycle"):
            sure = sum(task.members for task in self._plan.tasks)
            self._until(lambda: self._up() >= sure, f"{sure} members are up")
        if step.moment == "cycle":
            self._ws.write("src/a", "1")

    def _up(self) -> int:
        dynamic = ("storm", "hare", "reborn")
        return sum(not n.endswith(dynamic) for n in self._oracle.members().values())

    def _until(self, fact: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + patience(_UP)
        while not fact():
            if time.monotonic() > end or not self._running():
                ended = "" if self._running() else ": vx has ended"
                self._problem(f"not seen: {what} ({self._up()} are){ended}")
                return
            time.sleep(_TICK)

    def _running(self) -> bool:
        if isinstance(self._vx, running.Terminal):
            _ = self._vx.output  # or it would wait for a reader
        return self._vx.process.poll() is None

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and self._running():
            time.sleep(min(rest, 0.01))

    def _do(self, step: Step) -> None:
        if step.target == "nursery":
            if self._find_nursery():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._nursery, step.what)
            return
        if not self._running():
            return
        pid = self._vx.process.pid
        if isinstance(self._vx, running.Terminal) and step.target == "terminal":
            self._vx.hang_up()
        elif isinstance(self._vx, running.Terminal) and step.target == "key":
            self._vx.press(bytes([step.what]))
        elif step.target == "group" and os.getpgid(pid) == pid:
            os.killpg(pid, step.what)
        else:
            os.kill(pid, step.what)

    def _find_nursery(self) -> bool:
        """Open the nursery of this vx, so that its pid cannot become another's."""
        if self._nursery < 0:
            for pid in children(self._vx.process.pid):
                with suppress(ProcessLookupError):
                    opened = os.pidfd_open(pid)
                    if "nursery_main" in arguments(pid):
                        self._nursery = opened
                        return True
                    os.close(opened)
        return self._nursery >= 0

    # What is left

    def _ended(self, acted: float) -> bool:
        limit = _OVER + sum(task.grace for task in self._plan.tasks)
        end = time.monotonic() + patience(limit if self._plan.steps else _UP)
        while self._running():
            if time.monotonic() > end:
                self._problem(f"vx has not ended after {time.monotonic() - acted:.1f} s")
                self._blame()
                return False
            time.sleep(_TICK)
        self._result.end = time.monotonic() - acted
        return True

    def _look(self, before: Sequence[str]) -> None:
        began = time.monotonic()
        limit = patience(PROMISED)
        while left := self._left(before):
            if (waited := time.monotonic() - began) > limit:
                self._problem(f"left {waited:.2f} s after the end of vx: {'; '.join(left)}")
                self._blame()
                break
            time.sleep(_TICK)
        else:
            self._result.gone = time.monotonic() - began
        self._check_end()

    def _left(self, before: Sequence[str]) -> list[str]:
        processes.reap(self._spared)
        if found := self._oracle.survivors(self._spared):
            return [f"{len(found)} processes"]
        if found := self._oracle.survivors(self._spared):  # who moves can be missed once
            return [f"{len(found)} processes"]
        return [
            *(f"port {port}" for port in self._ws.ports if not is_free(port)),
            *(f"temp file {name}" for name in os.listdir(self._tmp) if name.startswith("vx")),
            *(f"file {name}" for name in self._files() if name not in before),
        ]

    def _check_end(self) -> None:
        code, output = self._vx.ended(1), self._vx.output
        early = any(step.moment == "start" for step in self._plan.steps)
        if early and _PYTHON_STARTS in output:
            return  # nothing of vx has run
        if code not in self._plan.codes():
            self._problem(f"exit code {code}, not of {sorted(self._plan.codes())}")
        if "Traceback" in output and "/vxwatch/" in output:
            self._problem("a stack was printed")
        if self._plan.restores and not (
            isinstance(self._vx, running.Terminal) and self._vx.restored
        ):
            self._problem("the terminal is not as it was")

    def _blame(self) -> None:
        found = self._oracle.survivors(self._spared)
        self._result.survivors = len(found)
        self._result.problems += [survivor.line for survivor in found[:_SHOWN]]
        if len(found) > _SHOWN:
            self._result.problems.append(f"and {len(found) - _SHOWN} more")

    def _files(self) -> list[str]:
        """The files and directories of the workspace, without what is to stay."""
        found = []
        for parent, directories, names in os.walk(self._ws.path):
            directories[:] = set(directories) - {".git", ".vx"}
            found += [os.path.join(parent, name) for name in (*directories, *names)]
        return found

    def _problem(self, text: str) -> None:
        """Note it, the first one with the end of what vx printed."""
        first = not self._result.problems
        self._result.problems.append(text)
        if first:
            output = self._vx.output.strip().splitlines()[-12:]
            self._result.problems += [f"  vx: {line[:200]}" for line in output]


def _plant_survivor(directory: str) -> None:
    """A daemon that names the token by its directory alone, and whose parent is gone."""
    argv = ["sh", "-c", "setsid sleep 600 </dev/null >/dev/null 2>&1 &"]
    subprocess.run(argv, cwd=directory, check=True)
