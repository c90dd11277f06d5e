"""How long vx takes to start: its answers beside a bare Python, a trivial task beside its shell.

    python bench/start.py [--rounds 30]

The commands are run in turns, so that a busy moment falls on all of them. A bare Python is
the interpreter of vx with `-c pass`. The task lies in a workspace of one package.
"""

import functools
from collections.abc import Mapping, Sequence

import measure
import workspace

CONFIG = """
[tasks.plain]
command = "true"

[tasks.boxed]
command = "true"
sandbox = {}
"""
ANSWERS = {
    "python -c pass": measure.BARE_PYTHON,
    "vx --version": [measure.VX, "--version"],
    "vx --help": [measure.VX, "--help"],
    "vx show": [measure.VX, "show"],
}
RUNS = {
    "sh -c true": ["sh", "-c", "true"],
    "vx run, a task": [measure.VX, "run", "plain"],
    "vx run, a sandboxed task": [measure.VX, "run", "boxed"],
}


def compare(commands: Mapping[str, Sequence[str]], directory: str, rounds: int) -> None:
    """Print a table of these commands; the others are compared with the first."""
    environment = measure.clean_environment()
    cases = {
        name: functools.partial(measure.run_time, argv, directory, environment)
        for name, argv in commands.items()
    }
    measure.compare(measure.interleave(cases, rounds), next(iter(commands)))


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    with measure.stage() as directory:
        made = workspace.make(f"{directory}/one", 1)
        with open(f"{made.leaf}/vx.toml", "a", encoding="utf8") as file:
            file.write(CONFIG)
        print(measure.machine() + "\n")
        compare(ANSWERS, made.leaf, given.rounds)
        compare(RUNS, made.leaf, given.rounds)


if __name__ == "__main__":
    main()
