"""How much of the machine vx may use: cores, and memory, as its control groups cap them.

A group and every one that it lies in may cap it, so the least counts. Version 2 of control groups,
version 1, and both beside each other. What cannot be read caps nothing.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vxwatch.model import Resources

_GROUPS = "sys/fs/cgroup"
_NONE = 1 << 62
"""Version 1 has a number about as large as this where nothing is capped."""


class Machine(NamedTuple):
    """What there is: `cpus` may be a part of a core, `memory` is in bytes and None if unknown."""

    cpus: float
    memory: int | None

    def can_hold(self, resources: Resources) -> bool:
        """Whether a task that needs as much fits beside others."""
        return resources.cpus <= self.cpus and (
            self.memory is None or resources.memory <= self.memory
        )


def look(root: str = "/", cores: int | None = None) -> Machine:
    """The machine as it is for this process. `root` is where `/proc` and `/sys` lie."""
    cpus = [float(cores if cores is not None else len(os.sched_getaffinity(0)))]
    memory = [amount for amount in (_memory_total(root),) if amount is not None]
    for place, read_cpus, read_memory in _groups(root):
        cpus += [amount for amount in (read_cpus(place),) if amount is not None]
        memory += [amount for amount in (read_memory(place),) if amount is not None]
    return Machine(min(cpus), min(memory, default=None))


_Cpus = Callable[[str], float | None]
_Memory = Callable[[str], int | None]


def _groups(root: str) -> Iterator[tuple[str, _Cpus, _Memory]]:
    """The directory of each group that this process is in, and of those around it."""
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        top = os.path.join(root, _GROUPS, controllers)
        version: tuple[_Cpus, _Memory] = (_cpu_quota, _limit) if controllers else (_cpu_max, _max)
        for place in _upward(inside):
            yield f"{top.rstrip('/')}{place}", *version


def _upward(inside: str) -> Iterator[str]:
    place = os.path.normpath(f"/{inside}").lstrip("/")
    while place:
        yield f"/{place}"
        place = place.rpartition("/")[0]
    yield ""


def _cpu_max(place: str) -> float | None:
    words = _text(f"{place}/cpu.max").split()
    return _share(*words) if len(words) == len(("quota", "period")) else None


def _cpu_quota(place: str) -> float | None:
    quota, period = (_text(f"{place}/cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return _share(quota, period)


def _share(quota: str, period: str) -> float | None:
    if not (quota.isdecimal() and period.isdecimal()) or "0" in (quota, period):
        return None
    return int(quota) / int(period)


def _max(place: str) -> int | None:
    return _bytes(_text(f"{place}/memory.max"))


def _limit(place: str) -> int | None:
    return _bytes(_text(f"{place}/memory.limit_in_bytes"))


def _bytes(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and int(text) < _NONE else None


def _memory_total(root: str) -> int | None:
    for line in _text(os.path.join(root, "proc/meminfo")).splitlines():
        name, _, amount = line.partition(":")
        if name == "MemTotal":
            words = amount.split()
            return int(words[0]) << 10 if words and words[0].isdecimal() else None
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
