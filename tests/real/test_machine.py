"""What the machine has for vx, as control groups of either version cap it."""

from pathlib import Path

import pytest

from vxwatch.model import Resources
from vxwatch.process.machine import Machine, look

MEMINFO = "MemTotal:        8388608 kB\nMemFree:  1 kB\n"
G = 1 << 30


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Machine(8.0, 8 * G)),
        ({"proc/self/cgroup": "0::/\n"}, Machine(8.0, 8 * G)),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/a/memory.max": f"{2 * G}\n",
            },
            Machine(1.5, 2 * G),
        ),
        (
            {
                "proc/self/cgroup": "0::/docker/of-the-host\n",
                "sys/fs/cgroup/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/memory.max": f"{G}\n",
            },
            Machine(2.0, G),
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/\n0::/\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{3 * G}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            Machine(0.5, 3 * G),
        ),
        (
            {
                "proc/self/cgroup": "0::/../../x\nnonsense\n",
                "sys/fs/cgroup/cpu.max": "a b c\n",
                "sys/fs/cgroup/memory.max": "-5\n",
                "proc/meminfo": "MemTotal: lots\n",
            },
            Machine(8.0, None),
        ),
    ],
    ids=["no groups", "no caps", "version 2", "seen from inside", "version 1", "nonsense"],
)
def test_the_least_of_all_caps_counts(
    files: dict[str, str], expected: Machine, tmp_path: Path
) -> None:
    assert look(write(tmp_path, files), cores=8) == expected


def test_this_machine_has_something() -> None:
    machine = look()
    assert machine.cpus > 0
    assert machine.memory is not None
    assert machine.memory > 1 << 20


def test_what_it_can_hold() -> None:
    machine = Machine(1.5, G)
    assert machine.can_hold(Resources(1, G))
    assert not machine.can_hold(Resources(2))
    assert not machine.can_hold(Resources(memory=G + 1))
    assert Machine(1, None).can_hold(Resources(1, 1 << 50))
