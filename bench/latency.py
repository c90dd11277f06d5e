"""From the end of a save to the start of the re-run task's command, for vx and its peers.

    python bench/latency.py [--sizes 1,100] [--edits 20] [--only vx,turbo]

All tools run at the same time, each on its own copy of the same workspace, and are edited in
turns: the next edit comes when the tool before has started its task and had a pause. The order
of the tools changes from round to round. The task's first act is to read the number of the
edit from the saved file and to write it into a pipe that this script reads, so a start counts
for the edit that it saw. The edited package is one on which no other depends.
"""

import argparse
import contextlib
import os
import random
import shlex
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import configs
import measure
import tools
import workspace

if TYPE_CHECKING:
    import subprocess

FLOOR, OURS = "inotifywait", "vx"
TOOLS = (
    *(FLOOR, "nodemon", "entr", "watchfiles", OURS, "vx sandboxed"),
    *("turbo", "turbo without npm", "nx", "wireit"),
)
CONFIGURE = {"nx": configs.nx, "wireit": configs.wireit}
UNSEEN = 5.0
"""Seconds that an edit gets to start something before the next tool has its turn."""
PATIENCE = 300.0
"""Seconds that a tool gets for its first build."""
CALM = 0.05
"""The share of a core below which a tool is through with its first build."""


@dataclass(slots=True)
class Tool:
    """A watcher, its workspace, and what was seen of it. `saved` maps an edit to its time."""

    name: str
    tag: str
    made: workspace.Made
    argv: list[str]
    path: str
    saved: dict[int, float] = field(default_factory=dict)
    idle_cpu: float = 0.0
    memory: int = 0
    processes: int = 0

    def edit(self, number: int) -> None:
        """Save the file in place, and note when its last byte was written."""
        text = f"// {number}\nexport const edited = true;\n".encode()
        with open(f"{self.made.leaf}/src/m0.js", "wb", buffering=0) as file:
            file.write(text)
            self.saved[number] = time.monotonic()


class Starts(threading.Thread):
    """Reads the pipe into `seen`: the tag of a tool, the edit that its task saw, the time."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[str, int, float]] = []
        self._news = threading.Condition()
        os.mkfifo(path)
        # Open for writing as well: the pipe must not end when no task holds it.
        self._pipe = os.fdopen(os.open(path, os.O_RDWR), encoding="ascii", closefd=True)

    def run(self) -> None:
        for line in self._pipe:
            at = time.monotonic()
            tag, _, edit = line.strip().partition(" ")
            with self._news:
                self.seen.append((tag, int(edit or 0), at))
                self._news.notify_all()

    def of(self, tag: str) -> dict[int, list[float]]:
        """The starts of one tool by the edit that they saw."""
        starts: dict[int, list[float]] = {}
        for whose, edit, at in tuple(self.seen):
            if whose == tag:
                starts.setdefault(edit, []).append(at)
        return starts

    def wait(self, tag: str, edit: int, patience: float) -> bool:
        """Whether a start saw this edit in time."""
        with self._news:
            return self._news.wait_for(lambda: edit in self.of(tag), patience)


def prepare(directory: str, name: str, packages: int, pipe: str) -> Tool | None:
    """Make the tool's workspace and command line; None if the tool is not installed."""
    word = name.partition(" ")[0]
    program = measure.VX if word == "vx" else tools.find(word)
    if program is None or not os.access(program, os.X_OK):
        print(f"{name} is left out: it is not installed")
        return None
    tag = name.replace(" ", "-")
    report = f"read -r _ edit < src/m0.js; echo {tag} $edit > {pipe}; {workspace.BUILD}"
    grants = [os.path.dirname(pipe) + "/"] if name == "vx sandboxed" else None
    more = CONFIGURE.get(word)
    configure = partial(more, build=report) if more else None
    made = workspace.make(f"{directory}/{tag}", packages, report, grants, configure=configure)
    if more:
        os.symlink(f"{tools.HOME}/node_modules", f"{made.root}/node_modules")
    path = os.environ["PATH"]
    if name == "turbo without npm":
        # Stands in for `npm run build`, whose start is Node's and not turbo's.
        stub = f'#!/bin/sh\nif [ "$2" = build ]; then {report}; fi\n'
        path = os.path.dirname(_script(f"{directory}/stub/npm", stub)) + f":{path}"
    task = _script(f"{directory}/{tag}.sh", f"#!/bin/sh\ncd {made.leaf}\n{report}\n")
    return Tool(name, tag, made, command_line(word, program, task, made), path)


def command_line(tool: str, program: str, task: str, made: workspace.Made) -> list[str]:
    """How a tool is told to watch every package; those without a graph run one task for all."""
    sources = shlex.join(made.sources)
    loop = f"{program} -mqe close_write {sources} | while read -r _; do {task}; done"
    watched = [f"--watch={source}" for source in made.sources]
    lines = {
        "inotifywait": ["sh", "-c", loop],
        "entr": ["sh", "-c", f"find {sources} -type f | exec {program} -n {task}"],
        "nodemon": [program, "-q", *watched, "-e", "js", "--exec", task],
        "watchfiles": [program, task, *made.sources],
        "turbo": [program, "--skip-infer", "watch", "build", "test"],
        "nx": [program, "watch", "--all", "--", program, "run", "$NX_PROJECT_NAME:build"],
        "wireit": ["npm", "run", "build-test", "--watch"],
    }
    return lines.get(tool, [program, "watch", "build", "test", "--all"])


def _script(path: str, text: str) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


@contextlib.contextmanager
def running(tools: list[Tool], starts: Starts, directory: str) -> Iterator[list[Tool]]:
    """The tools that came up, each started when the one before was through its first build."""
    up = []
    with contextlib.ExitStack() as stack:
        for tool in tools:
            output = f"{directory}/{tool.tag}.out"
            env = {"PATH": tool.path, "NX_DAEMON": "true"}  # which starts none by itself as root
            process = measure.start(tool.argv, tool.made.root, output, tool.tag, **env)
            stack.callback(measure.stop, process, tool.tag)
            if awake(tool, process, starts):
                up.append(tool)
            else:
                print(f"{tool.name} is left out: it ran nothing; its last words:")
                print(measure.tail(output))
        yield up


def awake(tool: Tool, process: "subprocess.Popen[bytes]", starts: Starts) -> bool:
    """Whether the tool answers an edit; returns when its first build is over, too."""
    deadline = time.monotonic() + PATIENCE
    number = 0
    while time.monotonic() < deadline and process.poll() is None:
        number -= 1
        tool.edit(number)
        if starts.wait(tool.tag, number, UNSEEN):
            while time.monotonic() < deadline and used(tool, 1.0) > CALM:
                pass
            return True
    return False


def used(tool: Tool, seconds: float) -> float:
    """The share of a core that a tool uses in the next seconds."""
    tree = measure.tree(tool.tag)
    before = measure.cpu_clocks(tree)
    time.sleep(seconds)
    return measure.cpu_between(before, measure.cpu_clocks(tree)) / seconds


def rest(tools: list[Tool], seconds: float) -> None:
    """Note what each tool uses while nothing happens."""
    trees = {tool.tag: measure.tree(tool.tag) for tool in tools}
    before = {tag: measure.cpu_clocks(tree) for tag, tree in trees.items()}
    time.sleep(seconds)
    for tool in tools:
        tree = trees[tool.tag]
        used = measure.cpu_between(before[tool.tag], measure.cpu_clocks(tree))
        tool.idle_cpu = used / seconds
        tool.memory, tool.processes = measure.memory(tree), len(tree)


def edit_in_turns(tools: list[Tool], starts: Starts, edits: int, pause: float) -> None:
    """Give every tool its edits, in an order that is the same in every run of the script."""
    chance = random.Random(edits)
    for number in range(1, edits + 1):
        for tool in chance.sample(tools, len(tools)):
            tool.edit(number)
            starts.wait(tool.tag, number, UNSEEN)
            time.sleep(pause + chance.random() / 10)


def row(tool: Tool, starts: Starts, bases: list[list[float]]) -> list[str]:
    """The tool's line of the table; `bases` are the times of the floor and of vx."""
    times = latencies(tool, starts)
    begun = tool.saved[1]
    ran = sum(at >= begun for tag, _, at in starts.seen if tag == tool.tag)
    ratios = [_ratio(times, base, share) for base in bases for share in (0.5, 0.95)]
    return [
        tool.name,
        *(
            f"{measure.quantile(times, share) * 1000:.0f}" if times else "-"
            for share in (0.5, 0.95)
        ),
        *ratios,
        str(sum(number > 0 for number in tool.saved) - len(times)),
        str(ran - len(times)),
        f"{tool.idle_cpu * 100:.2f}",
        f"{tool.memory / 2**20:.0f}",
        str(tool.processes),
    ]


def latencies(tool: Tool, starts: Starts) -> list[float]:
    """Seconds from each save to the first start that saw it."""
    seen = starts.of(tool.tag)
    return [seen[edit][0] - at for edit, at in tool.saved.items() if edit > 0 and edit in seen]


def _ratio(times: list[float], base: list[float], share: float) -> str:
    if not times or not base:
        return "-"
    return f"{measure.quantile(times, share) / measure.quantile(base, share):.2f}"


def measure_size(packages: int, given: argparse.Namespace, directory: str) -> None:
    """Run all tools on workspaces of this size and print their table."""
    pipe = f"{directory}/pipe/starts"
    os.makedirs(os.path.dirname(pipe))
    starts = Starts(pipe)
    starts.start()
    chosen = [prepare(directory, name, packages, pipe) for name in TOOLS if name in given.only]
    with running([tool for tool in chosen if tool], starts, directory) as tools:
        rest(tools, given.idle)
        edit_in_turns(tools, starts, given.edits, given.pause)
    by_name = {tool.name: latencies(tool, starts) for tool in tools}
    bases = [by_name.get(FLOOR, []), by_name.get(OURS, [])]
    print(f"\n{packages} packages, {given.edits} edits; {measure.machine()}\n")
    head = ["", "p50 ms", "p95 ms", "p50/floor", "p95/floor", "p50/vx", "p95/vx"]
    head += ["missed", "extra", "idle CPU %", "PSS MiB", "processes"]
    measure.table(head, [row(tool, starts, bases) for tool in tools])


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--sizes", default="1,100", help="packages, one table each")
    parser.add_argument("--edits", type=int, default=20, help="edits for each tool")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two edits")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of measured idling")
    parser.add_argument("--only", default=",".join(TOOLS), help="names of the tools")
    given = parser.parse_args()
    given.only = given.only.split(",")
    for size in given.sizes.split(","):
        with measure.stage() as directory:
            measure_size(int(size), given, directory)


if __name__ == "__main__":
    main()
