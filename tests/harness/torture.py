"""Random process trees, ended in random ways at random moments: does anything survive?

    python -m tests.harness.torture --rounds 1000 --seed 1 --jobs 2

Each round has a seed of its own, counted up from `--seed`, so a failed one is played again with
`--seed N --rounds 1`. Rounds are played by workers, each in a pid namespace with few pids, so
that they are used again soon. Ends with 0 if no round found a fault.
"""

import argparse
import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.harness import processes
from tests.harness.ports import Ports
from tests.harness.torture_plan import make_plan
from tests.harness.torture_round import Result, Strangers, play

BATCH = 10
"""Rounds that a worker plays, one after the other."""

PIDS = 1000
"""The number of pids in a worker's namespace."""

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_LOWER = f'echo {PIDS} > /proc/sys/kernel/pid_max && exec "$@"'


def main(argv: Sequence[str] | None = None) -> int:
    """Play the rounds and print what they showed; 1 if one found a fault."""
    given = _parser().parse_args(argv)
    seeds = range(given.seed, given.seed + given.rounds)
    if given.worker:
        return _work(seeds, plant=given.plant, boxes=not given.no_boxes)
    namespace, why = _namespace()
    results: list[Result] = []
    with _busy(given.load), ThreadPoolExecutor(given.jobs) as pool:
        batches = [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]
        for done in pool.map(lambda batch: _batch(batch, namespace, given), batches):
            results += done
            for result in done:
                _tell(result)
            print(f"{len(results)} of {len(seeds)} rounds", file=sys.stderr, flush=True)
    _summarise(results, why, load=given.load)
    return 1 if any(result.problems for result in results) or len(results) < len(seeds) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--load", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--no-boxes", action="store_true", help="without sandboxes")
    parser.add_argument("--plant", choices=("survivor", "kill"), default="", help="make a fault")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def _batch(seeds: range, namespace: Sequence[str], given: argparse.Namespace) -> list[Result]:
    argv = [*namespace, sys.executable, "-m", "tests.harness.torture", "--worker"]
    argv += ["--seed", str(seeds.start), "--rounds", str(len(seeds))]
    argv += ["--plant", given.plant] if given.plant else []
    argv += ["--no-boxes"] if given.no_boxes else []
    done = subprocess.run(argv, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    results = [Result(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        results.append(Result(seeds.start, "", [f"the worker of {seeds} failed: see above"]))
    return results


def _work(seeds: Iterable[int], *, plant: str, boxes: bool) -> int:
    """Play these rounds here; a line of JSON for each."""
    processes.adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:  # nohup, or a script's `&`
            signal.signal(number, signal.SIG_DFL)
    ports, strangers = Ports(), Strangers()
    try:
        for seed in seeds:
            result = play(make_plan(seed, boxes=boxes), ports.take, strangers, plant)
            print(json.dumps(dataclasses.asdict(result)), flush=True)
    finally:
        strangers.close()
        ports.close()
    return 0


def _namespace() -> tuple[tuple[str, ...], str]:
    """What a worker is started with to have pids of its own, or why it cannot have them."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    argv = (_NAMESPACE[0], *user, *_NAMESPACE[1:], "sh", "-c", _LOWER, "sh")
    try:
        tried = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return (), "there is no unshare"
    if tried.returncode:
        return (), tried.stderr.strip()
    return argv, ""


@contextmanager
def _busy(wanted: bool) -> Iterator[None]:
    """Every core has something else to do."""
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    cores = range(os.cpu_count() or 1) if wanted else range(0)
    spinning = [subprocess.Popen(spin) for _ in cores]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def _tell(result: Result) -> None:
    if result.problems:
        print("\n".join([f"FAILED {result.told}", *(f"  {line}" for line in result.problems)]))


def _summarise(results: Sequence[Result], why: str, *, load: bool) -> None:
    failed = [result.seed for result in results if result.problems]
    taken = sum(result.taken for result in results)
    print(
        f"rounds {len(results)}{' under load' if load else ''}, failed {len(failed)} {failed or ''}"
    )
    print(f"members of trees {sum(result.members for result in results)}")
    print(f"survivors {sum(result.survivors for result in results)}")
    print(f"strangers signalled {sum(result.signalled for result in results)}")
    print(
        f"pids taken over by strangers {taken}, in namespaces of {PIDS if not why else 'all'} pids"
    )
    if why:
        print(f"no namespace with fewer pids: {why}")
    print(f"gone after the end of vx: {_spread([result.gone for result in results])}")
    print(f"end of vx after its signal: {_spread([result.end for result in results])}")


def _spread(seconds: Iterable[float | None]) -> str:
    known = sorted(value for value in seconds if value is not None)
    if not known:
        return "never"
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    at = {name: known[min(len(known) - 1, int(len(known) * s))] for name, s in shares.items()}
    return " ".join(f"{name} {value * 1000:.0f} ms" for name, value in at.items())


if __name__ == "__main__":
    sys.exit(main())
