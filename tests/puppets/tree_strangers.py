"""tree_strangers.py  keeps strangers beside vx that nobody may signal.

A few are a group from the start. The others take over the pids of processes that have just
ended: each leads a session and a group of its own under a number that was another's, which is
what a signal to a stale pid or group would hit. Where the kernel does not let a pid be chosen,
they come as they come.

Every line on its input ends a round. The answer is one line of JSON: `taken`, how many pids were
taken over, and `signalled`, what was done to whom. All strangers of the round are ended then.
The line "hit" makes it send SIGTERM to one of them first.
"""

import contextlib
import json
import os
import select
import signal

FIRST, MOST = 3, 40
LOOK_AGAIN = 4  # milliseconds
LAST_PID = "/proc/sys/kernel/ns_last_pid"


class Strangers:
    def __init__(self) -> None:
        self.told, self.tell = os.pipe()
        self.all: dict[int, str] = {}
        self.taken = 0
        self.seen = pids()

    def begin(self) -> None:
        """The group that is there from the start."""
        leader = 0
        for _ in range(FIRST):
            pid = self.fork(leader)
            leader = leader or pid
            self.all[pid] = "from the start"
        self.seen = pids()

    def look(self) -> None:
        """Take over the pids that became free."""
        now = pids()
        for pid in sorted(self.seen - now - self.all.keys()):
            if len(self.all) < MOST + FIRST:
                self.take(pid)
        self.seen = now | self.all.keys()

    def take(self, pid: int) -> None:
        with contextlib.suppress(OSError), open(LAST_PID, "w") as file:
            file.write(str(pid - 1))
        got = self.fork(None)
        self.taken += got == pid
        self.all[got] = f"in the place of {pid}"

    def fork(self, group: int | None) -> int:
        """A stranger in this group (0: it leads one), or in a session of its own, that hears."""
        ready, up = os.pipe()
        pid = os.fork()
        if pid == 0:
            if group is None:
                os.setsid()
            else:
                os.setpgid(0, group)
            be_stranger(self.tell, up)
        os.close(up)
        os.read(ready, 1)
        os.close(ready)
        return pid

    def end(self) -> dict[str, object]:
        """What was done to them; then they are ended."""
        signalled = []
        for pid, which in self.all.items():
            dead, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if dead:
                signalled.append(f"stranger {pid} {which}: wait status {status:#x}")
            if not dead or os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        while select.select([self.told], [], [], 0)[0]:
            for line in os.read(self.told, 65536).decode().splitlines():
                pid, number = map(int, line.split())
                signalled.append(f"stranger {pid} {self.all.get(pid)}: signal {number}")
        answer = {"taken": self.taken, "signalled": signalled}
        self.all, self.taken = {}, 0
        return answer


def be_stranger(tell: int, up: int) -> None:
    def report(number: int, _: object) -> None:
        os.write(tell, b"%d %d\n" % (os.getpid(), number))

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, report)
    os.write(up, b"y")
    os.close(up)
    while True:
        signal.pause()


def pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def main() -> None:
    strangers = Strangers()
    strangers.begin()
    print("ready", flush=True)
    while True:
        if not select.select([0], [], [], LOOK_AGAIN / 1000)[0]:
            strangers.look()
            continue
        line = os.read(0, 64)
        if not line:
            strangers.end()
            return
        if line.startswith(b"hit"):
            os.kill(max(strangers.all), signal.SIGTERM)
            select.select([strangers.told], [], [], 5)
        print(json.dumps(strangers.end()), flush=True)
        strangers.begin()


if __name__ == "__main__":
    main()
