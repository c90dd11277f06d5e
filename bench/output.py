"""What it costs to have output go through vx: how fast, how much memory, beside `cat` alone.

    python bench/output.py [--rounds 7] [--megabytes 100]

The same text is printed by `cat` into a pipe, and by a task that is that `cat`, in each way in
which vx shows output. Its reader throws it away. The rate is taken from the first byte that the
reader gets to the last, so that it holds no start; where vx keeps output until the task has ended,
from the start of the command, less the time of a task that prints nothing. CPU time (of all
processes but the reader) and memory (the peak of one process) are over those of that task too.
"""

import fcntl
import functools
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import measure
import workspace

CONFIG = """
[tasks.nothing]
command = "true"

[tasks.lines]
command = "cat $TEXT"
env.pass = ["TEXT"]

[tasks.line]
command = "cat $LINE"
env.pass = ["LINE"]

[tasks.served]
command = "cat $TEXT"
env.pass = ["TEXT"]
persistent = {}
"""
SECRET = """
[tasks.hidden]
command = "cat $TEXT"
env = { pass = ["TEXT"], secret = ["TOKEN"] }
"""
"""In a workspace of its own: what one task declares is looked for in the output of all."""


@dataclass(frozen=True)
class Flow:
    """Seconds from the start to the first byte, to the last, and to the end; bytes; CPU; memory."""

    first: float
    last: float
    end: float
    size: int
    cpu: float
    memory: int


def flow(argv: Sequence[str], directory: str, environment: dict[str, str], expected: int) -> Flow:
    """Run the command and throw away what it prints; the last byte is that of what is expected."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 16)
    buffer = bytearray(1 << 20)
    begun = first = last = time.perf_counter()
    actions = [
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_CLOSE, reader),
        (os.POSIX_SPAWN_CLOSE, writer),
    ]
    here = os.getcwd()
    os.chdir(directory)
    pid = os.posix_spawnp(argv[0], argv, environment, file_actions=actions)
    os.chdir(here)
    os.close(writer)
    size = 0
    while read := os.readv(reader, [buffer]):
        now = time.perf_counter()
        first = now if size == 0 else first
        last = now if size < expected else last
        size += read
    os.close(reader)
    _, _, usage = os.wait4(pid, 0)
    end = time.perf_counter()
    return Flow(
        first - begun,
        last - begun,
        end - begun,
        size,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
    )


def write_texts(directory: str, megabytes: int) -> dict[str, str]:
    """Lines of random lengths, and the same as one line; the variables that name them."""
    made = random.Random(1)
    lines = "".join(f"{i:05} {'x' * made.randrange(20, 140)}\n" for i in range(5000)).encode()
    paths = {"TEXT": f"{directory}/text", "LINE": f"{directory}/line"}
    with open(paths["TEXT"], "wb") as text, open(paths["LINE"], "wb") as line:
        for _ in range(megabytes * 1_000_000 // len(lines)):
            text.write(lines)
            line.write(lines.replace(b"\n", b" "))
    return paths


def rate(name: str, one: Flow, nothing: float) -> float:
    """Bytes a second."""
    if name == "vx, block":
        return one.size / max(1e-9, one.end - nothing)
    return one.size / max(1e-9, one.last - one.first)


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=100)
    given = parser.parse_args()
    with measure.stage() as directory:
        plain, secret = (workspace.make(f"{directory}/{name}", 1).leaf for name in ("one", "two"))
        for place, config in ((plain, CONFIG), (secret, SECRET)):
            with open(f"{place}/vx.toml", "a", encoding="utf8") as file:
                file.write(config)
        texts = write_texts(directory, given.megabytes)
        environment = measure.clean_environment() | texts | {"TOKEN": "tok-9f3b1c77d2"}
        commands = {
            "cat": ["cat", texts["TEXT"]],
            "cat | cat": ["sh", "-c", "cat $TEXT | cat"],
            "vx, nothing": [measure.VX, "run", "nothing"],
            "vx, raw": [measure.VX, "run", "lines"],
            "vx, raw, with a secret": [measure.VX, "run", "hidden"],
            "vx, one line": [measure.VX, "run", "line"],
            "vx, prefixed": [measure.VX, "run", "served", "nothing"],
            "vx, block": [measure.VX, "run", "lines", "nothing"],
        }
        size = os.path.getsize(texts["TEXT"])
        cases = {
            name: functools.partial(
                flow, argv, secret if "hidden" in argv else plain, environment, size
            )
            for name, argv in commands.items()
        }
        flows: dict[str, list[Flow]] = {name: [] for name in cases}
        for _ in range(given.rounds):
            for name, case in cases.items():
                flows[name].append(case())
    print(measure.machine() + "\n")
    report(flows)


def report(flows: dict[str, list[Flow]]) -> None:
    """Print a table; everything is compared with cat."""
    silent = flows.pop("vx, nothing")
    nothing, cpu, memory = (
        statistics.median(getattr(one, name) for one in silent) for name in ("end", "cpu", "memory")
    )
    rates = {name: [rate(name, one, nothing) for one in all_] for name, all_ in flows.items()}
    base, best = statistics.median(rates["cat"]), max(rates["cat"])
    rows = []
    for name, found in rates.items():
        ours = name.startswith("vx")
        spent = statistics.median(one.cpu for one in flows[name]) - (cpu if ours else 0)
        more = max(one.memory for one in flows[name]) - memory if ours else 0
        middle = statistics.median(found)
        rows.append(
            [
                name.replace("|", "into"),
                f"{middle / 1e6:.0f}",
                f"{middle / base:.2f}",
                f"{max(found) / best:.2f}",
                f"{spent * 1000:.0f}",
                f"{max(0.0, more) / 2**20:.0f}",
            ]
        )
    head = ["", "MB/s, median", "over cat", "best over best", "CPU ms", "MiB"]
    measure.table(head, rows)


if __name__ == "__main__":
    main()
