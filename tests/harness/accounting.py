"""What a vx and its helpers hold: processes, descriptors, threads, temp files and memory."""

import os
from dataclasses import dataclass

import psutil

from tests.harness.processes import descendants

_SPARE = {"threads": min(32, (os.cpu_count() or 1) + 4) - 1}
"""How many more of a kind are no growth."""


@dataclass(frozen=True, slots=True)
class Account:
    """What is held at one moment.

    `processes` maps each pid to its name; `held` says of each process of vx's own how many
    descriptors of which kind and how many threads it has; `memory` is what vx alone uses, in bytes.
    """

    processes: dict[int, str]
    held: dict[int, dict[str, int]]
    files: frozenset[str]
    memory: int

    def differences(self, later: "Account") -> list[str]:
        """What is no more as it was, memory apart; one line each.

        The pool of threads that a process has for waiting on files may have grown to its bound.
        """
        told = []
        for what in ("processes", "files"):
            before, after = getattr(self, what), getattr(later, what)
            if before != after:
                told.append(f"{what}: {before} became {after}")
        for pid in self.held.keys() & later.held.keys():
            before, after = self.held[pid], later.held[pid]
            told += [
                f"{self.processes[pid]} ({pid}): {kind}: {before.get(kind, 0)} became {after.get(kind, 0)}"
                for kind in sorted(before.keys() | after.keys())
                if not 0 <= after.get(kind, 0) - before.get(kind, 0) <= _SPARE.get(kind, 0)
            ]
        return told


def account(vx: int, tasks: frozenset[int], directory: str) -> Account:
    """What the vx of this pid holds; the insides of `tasks` are their own business."""
    processes = {seen.pid: _name(seen.pid) for seen in descendants()}
    return Account(
        processes,
        {pid: _holds(pid) for pid in processes if pid not in tasks},
        frozenset(_files(directory)),
        memory(vx),
    )


def memory(pid: int) -> int:
    """The bytes that this process alone uses."""
    used: int = psutil.Process(pid).memory_full_info().uss
    return used


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


def _holds(pid: int) -> dict[str, int]:
    held = {"threads": len(os.listdir(f"/proc/{pid}/task"))}
    for number in os.listdir(f"/proc/{pid}/fd"):
        kind = os.readlink(f"/proc/{pid}/fd/{number}")
        kind = kind if kind.startswith("anon_inode:") else kind.partition(":")[0]
        held[kind] = held.get(kind, 0) + 1
    return held


def _files(directory: str) -> list[str]:
    return [
        os.path.join(place, name)
        for place, names, files in os.walk(directory)
        for name in (*names, *files)
    ]
