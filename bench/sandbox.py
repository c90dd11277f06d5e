"""What vx's sandbox costs for a command that does nothing, beside the same bubblewrap called barely.

    python bench/sandbox.py [--rounds 50]

vx is called in this process, so that its own start is not counted: what is, is to build a box
with a read and a write grant, run `sh -c true` in it, and take the box back. A bare call has
the same namespaces and ten mounts; "the same box, bare" is the very bubblewrap call that vx makes,
with all mounts of its policy, made without vx. They, and the command without any sandbox, run in
turns. The first ratio says what vx's policy and vx cost together, the second what vx alone does.
`with findings` is what a one-shot task gets, traced; without, what a server does.
The last table is of sessions of their own, several tasks each: what the first of them waits for
besides, the check of this host above all, and how much later it ends than the median of the rest.
`srt` (npm: @anthropic-ai/sandbox-runtime), where tools.py installed it, is called as a command, as
its users do, so with its own start.
"""

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import measure
import tools
import workspace

from vxwatch.model import Task, Workspace
from vxwatch.process.environment import task_environment
from vxwatch.process.launching import INFO_FD, STATUS_FD
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.sandbox.runtime import SandboxRuntime, load
from vxwatch.workspace.discover import load_workspace

COMMAND = "true"
TASKS = 6
CONFIG = """
[tasks.plain]
command = "true"

[tasks.boxed]
command = "true"
sandbox = { allow = { read = ["."], write = ["dist/"] } }

[tasks.traced]
command = "true"
sandbox = { allow = { read = ["."], write = ["dist/"] } }
"""
NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]


def bare_bwrap(root: str) -> list[str]:
    """A bubblewrap command line of ten mounts: the system, its covers, and two grants."""
    covers = [word for path in ("/tmp", "/run", "/mnt", "/media") for word in ("--tmpfs", path)]
    return [
        *["bwrap", "--die-with-parent", "--new-session", *NAMESPACES, "--cap-drop", "ALL"],
        *["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *covers],
        *["--tmpfs", root, "--ro-bind", root, root, "--bind", f"{root}/dist", f"{root}/dist"],
        *["--chdir", root, "sh", "-c", COMMAND],
    ]


class Vx:
    """Runs tasks as a session does: through the nursery, and boxed if they are sandboxed."""

    def __init__(self, made: Workspace, nursery: Nursery, runtime: SandboxRuntime) -> None:
        self.made = made
        self.nursery = nursery
        self.runtime = runtime

    async def plain(self, task: Task) -> None:
        """Run a task that is not sandboxed."""
        shell = shutil.which("sh") or "/bin/sh"
        await self._run(Launch((shell, "-c", COMMAND), self.made.root, self._environment(task)))

    async def boxed(self, task: Task) -> None:
        """Run a sandboxed task."""
        box = await self.runtime.box(task, COMMAND, self._environment(task), "null")
        try:
            await self._run(box.launch, box.open)
        finally:
            await box.close()

    async def same_box(self, task: Task) -> float:
        """Seconds of the bubblewrap call of a sandboxed task, made by hand."""
        box = await self.runtime.box(task, COMMAND, self._environment(task), "null")
        try:
            return await asyncio.to_thread(_run_by_hand, box.launch)
        finally:
            await box.close()

    def _environment(self, task: Task) -> Mapping[str, str]:
        return task_environment(os.environ, task=task, workspace=self.made)

    async def _run(
        self, launch: Launch, opened: Callable[..., Awaitable[None]] | None = None
    ) -> None:
        tree = await self.nursery.launch(launch, _ignore)
        if opened is not None:
            await opened(tree)
        ended = await tree.wait()
        await tree.stop(signal.SIGTERM, 0.1, asyncio.Event())
        assert ended.code == 0, ended


def _run_by_hand(launch: Launch) -> float:
    """Seconds from the spawn to the end, with the descriptors that the call names."""
    told, tells = os.pipe()  # what bubblewrap says of itself fits in the pipe
    given = {**launch.fds, INFO_FD: tells, STATUS_FD: tells}
    above = max(given) + 100
    lifted = {number: os.dup2(ours, above + number) for number, ours in given.items()}
    moves = [(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in lifted.items()]
    try:
        begun = time.perf_counter()
        pid = os.posix_spawn(launch.argv[0], launch.argv, dict(launch.env), file_actions=moves)
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - begun
    finally:
        for number in (*lifted.values(), told, tells):
            os.close(number)
    assert status == 0, status
    return seconds


async def _ignore(_stream: Literal["stdout", "stderr"], _data: bytes) -> None:
    """The command writes nothing."""


async def run_all(root: str, rounds: int) -> dict[str, list[float]]:
    """Seconds that each way took, in turns; a first round is not counted."""
    made = load_workspace(root)
    (project,) = made.projects.values()
    async with Nursery.open() as nursery, SandboxRuntime(nursery, made, os.environ) as runtime:
        await runtime.ensure()
        vx = Vx(made, nursery, runtime)
        await vx.boxed(project.tasks["boxed"])
        runtime.distrust_tracer(project.tasks["boxed"])
        cases: dict[str, Callable[[], Awaitable[float]]] = {
            "bare bwrap": lambda: asyncio.to_thread(measure.run_time, bare_bwrap(root)),
            "no sandbox": lambda: asyncio.to_thread(measure.run_time, ["sh", "-c", COMMAND]),
            "vx, no sandbox": lambda: _timed(vx.plain(project.tasks["plain"])),
            "the same box, bare": lambda: vx.same_box(project.tasks["boxed"]),
            "vx, sandboxed": lambda: _timed(vx.boxed(project.tasks["boxed"])),
            "vx, with findings": lambda: _timed(vx.boxed(project.tasks["traced"])),
        }
        if srt := tools.find("srt"):
            cases["srt"] = lambda: asyncio.to_thread(measure.run_time, [srt, COMMAND])
        return await measure.in_turns(cases, rounds)


async def one_session(root: str) -> list[float]:
    """Seconds of each of some tasks that a session runs in their boxes, traced."""
    made = load_workspace(root)
    (project,) = made.projects.values()
    task = project.tasks["traced"]
    loading = asyncio.get_running_loop().run_in_executor(None, load)  # as a session does
    async with Nursery.open() as nursery, SandboxRuntime(nursery, made, os.environ) as runtime:
        await loading
        vx = Vx(made, nursery, runtime)

        async def run() -> None:
            await runtime.ensure()
            await vx.boxed(task)

        await vx.plain(project.tasks["plain"])  # that waits for what each session's start does
        return [await _timed(run()) for _ in range(TASKS)]


def sessions(root: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of the first task of a session, of the following, and of what is between them."""
    taken: dict[str, list[float]] = {"first": [], "following": [], "later": []}
    for _ in range(rounds):
        words = [sys.executable, os.path.abspath(__file__), "--session", root]
        said = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
        first, *following = json.loads(said)
        taken["first"].append(first)
        taken["following"].append(statistics.median(following))
        taken["later"].append(first - taken["following"][-1])
    return taken


async def _timed(work: Awaitable[None]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--session", metavar="ROOT", help="run one session, tell its times")
    given = parser.parse_args()
    if given.session:
        print(json.dumps(asyncio.run(one_session(given.session))))
        return
    with measure.stage() as directory:
        root = f"{directory}/sandbox"
        workspace.write(f"{root}/package.json", '{"name": "sandbox", "private": true}')
        workspace.write(f"{root}/vx.toml", CONFIG)
        workspace.write(f"{root}/src/main.js", "")
        os.makedirs(f"{root}/dist")
        workspace.commit(root)
        taken = asyncio.run(run_all(root, given.rounds))
        print(measure.machine() + "\n")
        measure.compare(taken, "bare bwrap")
        both = ("the same box, bare", "vx, sandboxed", "vx, with findings")
        measure.compare({name: taken[name] for name in both}, both[0])
        measure.compare(sessions(root, given.rounds), "following")


if __name__ == "__main__":
    main()
