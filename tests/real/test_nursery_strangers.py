"""No stranger is ever signalled, though pids come round and numbers of our dead become theirs."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.harness.running import PUPPETS, PYTHON
from tests.harness.waiting import patience

# Ends trees in all the ways in which a number may be asked for after its process is gone: leaders
# that leave daemons or members, that are gone before they are stopped, polite ones and deaf ones.
_SESSION = r"""
import asyncio, os, signal, sys
from vxwatch.process.nursery import Launch, Nursery

COMMANDS = (
    "exit 0", "sleep 0.01 & exit 0", "(setsid sleep 0.02 &); exit 0", "(setsid sleep 600 &); exit 0",
    "(env -i setsid sh -c 'sleep 0.02 & wait' &); exit 0", "trap 'exit 0' TERM; sleep 0.02 & wait; wait",
    "trap '' TERM; sleep 0.03", "sh -c 'trap \"\" TERM; sleep 600' & exit 0",
)

async def ignore(stream, data):
    pass

async def one(nursery, number):
    launch = Launch(("/bin/sh", "-c", COMMANDS[number % len(COMMANDS)]), "/", {"PATH": os.environ["PATH"]})
    tree = await nursery.launch(launch, ignore)
    if number % 3:
        await tree.wait()
        await asyncio.sleep(0.01)  # in which the number may become another's
    await tree.stop(signal.SIGTERM, 0.03, asyncio.Event())

async def main():
    async with Nursery.open() as nursery:
        for first in range(0, 48, 4):
            await asyncio.gather(*(one(nursery, first + more) for more in range(4)))

asyncio.run(main())
"""

# In a pid namespace of its own. It says what became of the strangers while each session ran, and
# then of one that is hit on purpose.
_NAMESPACE = r"""
import subprocess, sys
with open("/proc/sys/kernel/pid_max", "w") as file:
    file.write("420")
strangers = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
strangers.stdout.readline()
for ask in ("", "", "", "hit"):
    if not ask:
        subprocess.run((sys.argv[1], "-c", sys.argv[2]), check=True)
    print(ask, file=strangers.stdin, flush=True)
    print(strangers.stdout.readline(), end="", flush=True)
strangers.stdin.close()
sys.exit(strangers.wait())
"""


def _lets_lower_pid_max() -> bool:
    """Whether a pid namespace has a limit of its own; before Linux 6.14 it is the host's."""
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    return version >= (6, 14)


@pytest.mark.slow
@pytest.mark.skipif(not _lets_lower_pid_max(), reason="pid_max would be lowered for all")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_no_stranger_is_signalled_though_pids_are_taken_over_at_once() -> None:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    inside = (sys.executable, "-c", _NAMESPACE, sys.executable, _SESSION)
    done = subprocess.run(
        (
            "unshare",
            *user,
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            *inside,
            *PYTHON,
            os.path.join(PUPPETS, "tree_strangers.py"),
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(50),
        check=False,
    )
    if b"unshare" in done.stderr and b"not permitted" in done.stderr:
        pytest.skip("no pid namespace is to be had here")
    assert done.returncode == 0, done.stderr
    *rounds, when_hit = map(json.loads, done.stdout.splitlines())
    for while_vx_ran in rounds:
        assert while_vx_ran["taken"] > 20, while_vx_ran
        assert while_vx_ran["signalled"] == []
    assert len(when_hit["signalled"]) == 1  # it would have been seen
