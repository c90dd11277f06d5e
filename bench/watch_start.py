"""From the start of a watch until it has nothing to do and waits, for vx and turbo, in turns.

    python bench/watch_start.py [--packages 1090] [--rounds 3]

Everything was built before, so that the first cycle finds it all in the cache. Both watch `build`
and `test` of all packages. vx is through when it says how its first cycle ended; turbo, which runs
the native program with three lines of shell in npm's place, when it has said of every task what the cache has of it.
"""

import os
import time
from functools import partial

import measure
import tools
import workspace

PATIENCE = 300.0
THROUGH = {"vx": "cycle 1: ", "turbo": ": cache "}
"""What vx says once at the end, and turbo once for each task."""


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--packages", type=int, nargs="+", default=[1090])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(measure.machine(), end="\n\n")
    for packages in given.packages:
        with measure.stage() as directory:
            compare(directory, packages, given.rounds)


def compare(directory: str, packages: int, rounds: int) -> None:
    """Print how long each takes, and what it holds in memory then."""
    stub = f'#!/bin/sh\ncase "$2" in build) {workspace.BUILD} ;; esac\n'
    workspace.write(f"{directory}/stub/npm", stub)
    os.chmod(f"{directory}/stub/npm", 0o755)
    path = f"{directory}/stub:{os.environ['PATH']}"
    programs = {"vx": [measure.VX], "turbo": [tools.find("turbo") or "", "--skip-infer"]}
    roots = {
        n: workspace.make(f"{directory}/{n}", packages).root for n in programs if programs[n][0]
    }
    taken: dict[str, list[float]] = {name: [] for name in roots}
    memory: dict[str, int] = {}
    for name, root in roots.items():
        for _ in range(2):
            argv = _command(programs[name], "run")
            measure.run_time(argv, root, {**measure.clean_environment(), "PATH": path})
    for number in range(rounds + 1):
        for name, root in roots.items():
            output, tag = f"{directory}/{name}.out", f"{name}-{number}"
            begun = time.monotonic()
            process = measure.start(_command(programs[name], "watch"), root, output, tag, PATH=path)
            try:
                times = 1 if name == "vx" else 2 * packages
                if not measure.wait_for(partial(_says, output, THROUGH[name], times), PATIENCE):
                    raise SystemExit(f"{name} did not come to rest:\n{measure.tail(output)}")
                if number:
                    taken[name].append(time.monotonic() - begun)
                memory[name] = measure.memory(measure.tree(tag))
            finally:
                measure.stop(process, tag)
    print(f"{packages} packages")
    measure.compare(taken, "turbo" if "turbo" in taken else "vx")
    print(", ".join(f"{name}: {size / 2**20:.0f} MiB" for name, size in memory.items()), end="\n\n")


def _says(path: str, text: str, times: int) -> bool:
    with open(path, encoding="utf8", errors="replace") as file:
        return file.read().count(text) >= times


def _command(program: list[str], verb: str) -> list[str]:
    everything = ["--all"] if program[0] == measure.VX else []
    return [*program, verb, "build", "test", *everything]


if __name__ == "__main__":
    main()
