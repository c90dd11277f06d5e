"""What the benchmarks share: a stage that cleans up after itself, processes, clocks, tables.

Everything a benchmark starts descends from it, daemons included, and is gone when its stage
is left. Times are seconds, memory is bytes. Nothing here judges a figure.
"""

import argparse
import contextlib
import ctypes
import math
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

import psutil

VX = os.path.join(os.path.dirname(sys.executable), "vx")
BARE_PYTHON = [sys.executable, "-c", "pass"]
MARK = "VX_BENCH"
"""A variable that names the tool a process belongs to, even after it left its parent."""

_PR_SET_CHILD_SUBREAPER = 36


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser that shows the module's text as its help."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


@contextlib.contextmanager
def stage() -> Iterator[str]:
    """A temp directory; when it is left it is removed and no process is alive that we started."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    directory = os.path.realpath(tempfile.mkdtemp(prefix="vx-bench-"))
    try:
        yield directory
    finally:
        _end_everything()
        shutil.rmtree(directory, ignore_errors=True)


def _end_everything() -> None:
    # One look is not enough: what is orphaned by a kill becomes our child only then.
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=5)


def start(
    argv: Sequence[str], cwd: str, output: str, name: str, **env: str
) -> subprocess.Popen[bytes]:
    """Start a tool in the background, marked with its name, its output in a file."""
    with open(output, "wb") as file:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env={**clean_environment(), MARK: name, **env},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def clean_environment() -> dict[str, str]:
    """Our environment without what a package manager or a CI put there, and without telemetry."""
    kept = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("npm_")}
    return kept | {"TURBO_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1"}


def stop(tool: subprocess.Popen[bytes], name: str, patience: float = 5.0) -> None:
    """Ask a tool to end as Ctrl-C does, then kill what is left of it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(tool.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        tool.wait(patience)
    for process in tree(name):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    tool.wait()


def wait_for(condition: Callable[[], bool], patience: float) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def says(path: str, text: str) -> bool:
    """Whether a tool's output holds this text."""
    with open(path, encoding="utf8", errors="replace") as file:
        return text in file.read()


def tree(name: str) -> list[psutil.Process]:
    """Every live process of this tool: marked with its name, or a descendant of a marked one."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == name:
                for one in (process, *process.children(recursive=True)):
                    found[one.pid] = one
    return [one for one in found.values() if _alive(one)]


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def cpu_clocks(processes: Iterable[psutil.Process]) -> dict[int, float]:
    """CPU time of each so far, by the kernel's own clock of it, which counts nanoseconds."""
    clocks = {}
    for process in processes:
        with contextlib.suppress(OSError):
            clocks[process.pid] = time.clock_gettime(~process.pid << 3 | 2)
    return clocks


def cpu_between(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU time used between two readings by the processes that lived at both."""
    return sum(after[pid] - before[pid] for pid in before.keys() & after.keys())


def memory(processes: Iterable[psutil.Process]) -> int:
    """Their proportional set size: a page that several share is counted once."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def run_time(
    argv: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None
) -> float:
    """Seconds from just before a command is started until it has ended well."""
    begun = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        code = process.wait()
        seconds = time.perf_counter() - begun
    if code:
        raise SystemExit(f"exit {code}: {shlex.join(argv)}")
    return seconds


def interleave(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call every case once per round, so that a busy moment falls on all; the first round is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            figure = case()
            if number:
                taken[name].append(figure)
    return taken


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that is no less than this share of them (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


async def in_turns(
    cases: dict[str, Callable[[], Awaitable[float]]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of every case, once per round; the first round is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            seconds = await case()
            if number:
                taken[name].append(seconds)
    return taken


def compare(taken: Mapping[str, Sequence[float]], base: str) -> None:
    """Print what each case took, best and median, and as a ratio of the base case."""
    lowest, middle = min(taken[base]), statistics.median(taken[base])
    rows = [
        [
            name,
            f"{min(times) * 1000:.1f}",
            f"{statistics.median(times) * 1000:.1f}",
            f"{min(times) / lowest:.2f}",
            f"{statistics.median(times) / middle:.2f}",
        ]
        for name, times in taken.items()
    ]
    table(["", "min ms", "median ms", "min ratio", "median ratio"], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, its columns aligned."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            + " |"
        )
    print(flush=True)


def machine() -> str:
    """One line about where the figures come from, with the load of the last minute."""
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def tail(path: str, lines: int = 5) -> str:
    """The last lines of a tool's output."""
    with open(path, encoding="utf8", errors="replace") as file:
        return "\n".join(file.read().strip().splitlines()[-lines:])
