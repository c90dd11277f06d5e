"""What it costs to tell what a sandbox denies a task, for three commands.

    python bench/findings.py [--rounds 11] [--only WORD]

Each command runs without a sandbox, in its box without a tracer, and in its box with one, in
turns, through a session's own nursery, so that vx's start is not counted. `true` is all
beginning and end, the compiler is the example application's own check, and the copy of 20,000
small files makes as many system calls as a build ever does (with TMPDIR in memory it does nothing
else, and shows what each of them costs). A bare `bwrap` of ten mounts runs
`true` beside them.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from typing import Literal

import measure
import sandbox

from vxwatch.model import Project, Sandbox, Task, Workspace
from vxwatch.process.environment import task_environment
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.sandbox.runtime import SandboxRuntime

WEBAPP = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures/webapp"
)
FILES = 20_000
NARROW = Sandbox(read=("src", "tsconfig.json", "package.json", "../../tsconfig.base.json"))


def _nothing(_root: str) -> None:
    """Such a command leaves nothing behind."""


def _clean(root: str) -> None:
    shutil.rmtree(f"{root}/many/out/copy", ignore_errors=True)


def _clean_and_hide(root: str) -> None:
    """Leave a file in the project that its grants do not show."""
    _clean(root)
    with open(f"{root}/many/notes", "w"):
        pass


_COPY = ("many", "cp -r src out/copy")
_PARTS = Sandbox(read=("src",), write=("out/",))
COMMANDS: Mapping[str, tuple[str, str, Sandbox, Callable[[str], None]]] = {
    "true": ("many", "true", Sandbox(read=(".",), write=("out/",)), _nothing),
    "compiler, all of the project granted": (
        *("web", "../../node_modules/.bin/tsc"),
        *(Sandbox(read=(".", "../../tsconfig.base.json")), _nothing),
    ),
    "compiler, parts of it granted": ("web", "../../node_modules/.bin/tsc", NARROW, _nothing),
    "copy of 20,000 files, all of the project granted": (
        *_COPY,
        *(Sandbox(read=(".",), write=("out/",)), _clean),
    ),
    "copy of 20,000 files, all of it granted by its parts": (*_COPY, _PARTS, _clean),
    "copy of 20,000 files, parts of it granted": (*_COPY, _PARTS, _clean_and_hide),
}


class Ways:
    """The ways to run a command, each as a task of its own."""

    def __init__(self, made: Workspace, nursery: Nursery, runtime: SandboxRuntime) -> None:
        self.made = made
        self.nursery = nursery
        self.runtime = runtime

    async def plain(self, task: Task) -> None:
        """Run it without a sandbox."""
        where = os.path.join(self.made.root, self.made.projects[task.project].dir)
        shell = shutil.which("sh") or "/bin/sh"
        await self._run(Launch((shell, "-c", task.command or ""), where, self._environment(task)))

    async def boxed(self, task: Task) -> None:
        """Run it in its box, traced unless its tracer is not trusted."""
        box = await self.runtime.box(task, task.command or "", self._environment(task), "null")
        try:
            code = await self._run(box.launch, box.open)
            report = await box.report(code)
            assert not report.lost, report
            assert not report.findings, report
        finally:
            await box.close()

    def _environment(self, task: Task) -> Mapping[str, str]:
        return task_environment(os.environ, task=task, workspace=self.made)

    async def _run(self, launch: Launch, opened: Callable[..., object] | None = None) -> int:
        tree = await self.nursery.launch(launch, _ignore)
        if opened is not None:
            await opened(tree)  # type: ignore[misc]
        ended = await tree.wait()
        await tree.stop(signal.SIGTERM, 0.1, asyncio.Event())
        assert ended.code == 0, ended
        return ended.code


def _ignore(_stream: Literal["stdout", "stderr"], _data: bytes) -> None:
    """The command writes nothing."""


def make_ground(root: str) -> Workspace:
    """The example application and a project of many files, side by side."""
    shutil.copytree(WEBAPP, root, symlinks=True)
    for number in range(FILES):
        if not number % 100:
            os.makedirs(f"{root}/many/src/{number // 100}")
        with open(f"{root}/many/src/{number // 100}/{number}", "w") as file:
            file.write("x" * 300)
    os.makedirs(f"{root}/many/out")
    projects = {
        name: Project(name, place, None, None, dependencies, {})
        for name, place, dependencies in (
            ("root", "", ()),
            ("web", "apps/web", ("ui",)),
            ("ui", "packages/ui", ()),
            ("many", "many", ()),
        )
    }
    return Workspace(root, projects, "root", ())


async def run_all(root: str, rounds: int, word: str) -> dict[str, dict[str, list[float]]]:
    """Seconds by command and way, in turns; a first round is not counted."""
    made = make_ground(root)
    taken: dict[str, dict[str, list[float]]] = {}
    async with Nursery.open() as nursery, SandboxRuntime(nursery, made, os.environ) as runtime:
        await runtime.ensure()
        ways = Ways(made, nursery, runtime)
        for name, (project, command, grants, clean) in COMMANDS.items():
            if word not in name:
                continue
            traced = Task(project, "traced", command=command, sandbox=grants)
            quiet = Task(project, "quiet", command=command, sandbox=grants)
            await ways.boxed(traced)
            clean(root)
            runtime.distrust_tracer(quiet)
            cases = {
                "no sandbox": lambda task=quiet: ways.plain(task),
                "sandboxed, not traced": lambda task=quiet: ways.boxed(task),
                "sandboxed, traced": lambda task=traced: ways.boxed(task),
            }
            times: dict[str, list[float]] = {way: [] for way in cases}
            if name == "true":
                times["bare bwrap"] = []
            for number in range(rounds + 1):
                for way, case in cases.items():
                    os.sync()  # what the round before left to be written is none of this one's cost
                    begun = time.perf_counter()
                    await case()
                    if number:
                        times[way].append(time.perf_counter() - begun)
                    clean(root)
                if name == "true" and number:
                    bare = sandbox.bare_bwrap(f"{root}/many")
                    bare[bare.index("--bind") + 1] = bare[bare.index("--bind") + 2] = (
                        f"{root}/many/out"
                    )
                    times["bare bwrap"].append(await asyncio.to_thread(measure.run_time, bare))
            taken[name] = times
    return taken


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default="", metavar="WORD", help="commands with it in their name")
    given = parser.parse_args()
    with measure.stage() as directory:
        taken = asyncio.run(run_all(f"{directory}/findings", given.rounds, given.only))
        print(measure.machine() + "\n")
        for name, times in taken.items():
            print(f"\n{name}\n")
            measure.compare(times, "bare bwrap" if "bare bwrap" in times else "no sandbox")
            both = ("sandboxed, not traced", "sandboxed, traced")
            measure.compare({way: times[way] for way in both}, both[0])


if __name__ == "__main__":
    main()
