"""Cold, warm, edited and restored runs of one workspace, for vx and its peers, in turns.

    python bench/peers.py [--packages 10 100 1090] [--tools vx turbo] [--cases warm edit]

Each tool has its own copy of the workspace that `workspace.py` makes, and runs `build` and `test`
of all packages; at 1,090 packages `lint`, too. `cold`: without its cache and without what was
built. `warm`: right after that. `edit`: one file of a package that no other depends on has other
content. `restore`: what was built is removed, the cache is not. Each round runs every tool once.

Wall time is from the start of the tool to its end, CPU that of all it waited for, memory the
largest of its processes. turbo is the native program, with three lines of shell in npm's place;
nx runs without its daemon. A tool that fails, or that takes longer than `--limit` seconds, is left
out of that size from there on.
"""

import glob
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import configs
import measure
import tools
import workspace

CASES = ("cold", "warm", "edit", "restore")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tool:
    """How a tool is called, and where it keeps what it remembers."""

    program: str
    words: Callable[[str, Sequence[str]], list[str]]
    kept: tuple[str, ...]
    configure: workspace.Configure | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run took: seconds, seconds, bytes."""

    wall: float
    cpu: float
    memory: int


def known(directory: str) -> dict[str, Tool]:
    """The tools that are installed."""
    stub = f'#!/bin/sh\ncase "$2" in build) {workspace.BUILD} ;; esac\n'
    npm = f"{directory}/stub/npm"
    workspace.write(npm, stub)
    os.chmod(npm, 0o755)
    path = f"{os.path.dirname(npm)}:{os.environ['PATH']}"
    quiet = {"NX_DAEMON": "false", "NX_NO_CLOUD": "true", "NX_TUI": "false"}
    every = {
        "vx": Tool("vx", lambda p, t: [p, "run", *t, "--all"], (".vx",)),
        "turbo": Tool(
            "turbo",
            lambda p, t: [p, "--skip-infer", "run", *t],
            (".turbo", "packages/*/.turbo", "node_modules/.cache/turbo"),
            env={"PATH": path},
        ),
        "nx": Tool("nx", lambda p, t: [p, "run-many", "-t", *t], (".nx",), configs.nx, quiet),
        "moon": Tool(
            "moon",
            lambda p, t: [p, "run", *(f":{one}" for one in t)],
            (".moon/cache",),
            configs.moon,
            {"MOON_TELEMETRY": "false"},
        ),
        "wireit": Tool(
            "npm",
            lambda p, t: [p, "run", "-".join(t)],
            (".wireit", "packages/*/.wireit"),
            configs.wireit,
        ),
    }
    found = {}
    for name, tool in every.items():
        if name != "vx" and tools.find(name) is None:
            print(f"{name} is left out: it is not installed")
        else:
            found[name] = tool
    return found


class Copy:
    """One tool's copy of the workspace."""

    def __init__(self, name: str, tool: Tool, directory: str, packages: int) -> None:
        self.name, self.tool = name, tool
        self._made = workspace.make(f"{directory}/{name}", packages, configure=tool.configure)
        self._log = f"{directory}/{name}.log"
        self._edits = 0
        program = measure.VX if tool.program == "vx" else tools.find(tool.program)
        assert program is not None
        self._program = program
        os.symlink(f"{tools.HOME}/node_modules", f"{self._made.root}/node_modules")

    def prepare(self, case: str) -> None:
        """Bring the copy into the state that the case begins with, once it was built."""
        if case == "cold":
            self._remove(*self.tool.kept)
        if case in ("cold", "restore"):
            self._remove("packages/*/dist")
        if case == "edit":
            self._edits += 1
            with open(f"{self._made.leaf}/src/m0.js", "a", encoding="utf8") as file:
                file.write(f"// {self._edits}\n")

    def run(self, tasks: Sequence[str], limit: float) -> Spent | None:
        """Run the tasks; None if that failed or took too long."""
        argv = self.tool.words(self._program, tasks)
        env = {**measure.clean_environment(), **self.tool.env}
        with open(self._log, "wb") as log:
            begun = time.perf_counter()
            process = subprocess.Popen(
                argv,
                cwd=self._made.root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            return self._wait(process, begun, limit)

    def _wait(self, process: "subprocess.Popen[bytes]", begun: float, limit: float) -> Spent | None:
        watchdog = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        # Nothing else tells what all that it waited for has used.
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            print(f"{self.name}: exit {process.returncode} after {wall:.1f} s")
            print(measure.tail(self._log), file=sys.stderr)
            return None
        return Spent(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)

    def _remove(self, *patterns: str) -> None:
        for pattern in patterns:
            for path in glob.glob(f"{self._made.root}/{pattern}"):
                shutil.rmtree(path)


def compare(
    copies: list[Copy], tasks: Sequence[str], case: str, rounds: int, limit: float
) -> dict[str, list[Spent]]:
    """What every tool took in each round. Those that fail are taken out of the list."""
    taken: dict[str, list[Spent]] = {}
    for _ in range(rounds):
        for copy in [*copies]:
            copy.prepare(case)
            spent = copy.run(tasks, limit)
            if spent is None:
                copies.remove(copy)
                taken.pop(copy.name, None)
            else:
                taken.setdefault(copy.name, []).append(spent)
    return taken


def show(case: str, taken: Mapping[str, Sequence[Spent]]) -> None:
    """Print the table of one case: medians, and ratios to turbo's."""
    base = {name: statistics.median(s.wall for s in runs) for name, runs in taken.items()}
    turbo = base.get("turbo")
    rows = []
    for name, runs in taken.items():
        cpu = statistics.median(spent.cpu for spent in runs)
        ratio = f"{base[name] / turbo:.2f}" if turbo else "-"
        rows.append(
            [
                name,
                ratio,
                f"{base[name]:.3f}",
                f"{min(spent.wall for spent in runs):.3f}",
                f"{cpu:.3f}",
                f"{max(spent.memory for spent in runs) / MIB:.0f}",
                str(len(runs)),
            ]
        )
    head = [case, "wall/turbo", "wall s", "min s", "CPU s", "peak MiB", "runs"]
    measure.table(head, rows)


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--packages", type=int, nargs="+", default=[10, 100, 1090])
    parser.add_argument("--tools", nargs="+", default=["vx", "turbo", "nx", "moon", "wireit"])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--rounds", type=int, default=5, help="of each case; 1 of a cold run")
    parser.add_argument("--cold-rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds that one run may take")
    given = parser.parse_args()
    print(measure.machine(), end="\n\n")
    for packages in given.packages:
        with measure.stage() as directory:
            chosen = {n: t for n, t in known(directory).items() if n in given.tools}
            copies = [Copy(n, tool, directory, packages) for n, tool in chosen.items()]
            tasks = ["build", "test", "lint"] if packages > 1000 else ["build", "test"]
            print(f"## {packages} packages, {packages * len(tasks)} tasks", end="\n\n")
            for case in CASES:
                rounds = given.cold_rounds if case == "cold" else given.rounds
                if case in given.cases:
                    show(case, compare(copies, tasks, case, rounds, given.limit))
                elif case == "cold":
                    compare(copies, tasks, case, 1, given.limit)


if __name__ == "__main__":
    main()
