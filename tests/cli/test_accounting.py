"""Many cycles beside two servers: nothing grows, nobody is refused, no server notices.

`SOAK` is for how many seconds at most a thousand cycles go on; fifty where it is not set.
"""

import os
import threading
import time
from typing import Self

import pytest

from tests.harness.accounting import Account, account, memory
from tests.harness.running import Background
from tests.harness.waiting import patience
from tests.harness.workspace import Box, Workspace, get

SECONDS = float(os.environ.get("SOAK", "90"))
CYCLES = 1000 if "SOAK" in os.environ else 50
MEMORY = 5 << 20
FIRST = 5
"""Cycles until everything that is made once is made."""

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(SECONDS + 240)]


class Clients:
    """One client for each port, who asks it all the time; `faults` says what went wrong."""

    def __init__(self, ports: list[int]) -> None:
        self.faults: list[str] = []
        self.answers = 0
        self.slowest = 0.0
        self._stop = threading.Event()
        self._go = threading.Event()
        self._go.set()
        self._idle = {port: threading.Event() for port in ports}
        self._threads = [threading.Thread(target=self._ask, args=(port,)) for port in ports]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._go.set()
        for thread in self._threads:
            thread.join()

    def rest(self) -> None:
        """Return when nobody asks any more, until `go_on`."""
        self._go.clear()
        for idle in self._idle.values():
            assert idle.wait(60)

    def go_on(self) -> None:
        """Let them ask again."""
        self._go.set()

    def _ask(self, port: int) -> None:
        while not self._stop.is_set():
            if not self._go.is_set():
                self._idle[port].set()
                self._go.wait()
                self._idle[port].clear()
            begun = time.monotonic()
            try:
                assert get(port) == "ok"
            except (OSError, AssertionError) as error:
                self.faults.append(f"{port}: {error!r}")
            self.answers += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)
            self._stop.wait(0.02)


def _site(ws: Workspace) -> list[int]:
    """Two servers in boxes; a task that fails at times, one in a box with a proxy, and one after both."""
    ws.write("notes/n", "0")
    ports = [ws.port(), ws.port()]
    for name, port in zip(("web", "api"), ports, strict=True):
        ws.server(name, ws.serve(name, port), ready_line="READY", box=Box(ports=(port,)))
    ws.task("lint", "! grep -q BAD notes/n", inputs=["notes/**"])
    box = Box(read=(".",), write=("out/",), network=("example.com",))
    command = "cat notes/n > out/n; echo made > $TMPDIR/x"
    ws.task("box", command, inputs=["notes/**"], outputs=["out/**"], box=box)
    ws.task("use", "cat out/n", inputs=["notes/**"], after=["lint", "box", "web"])
    return ports


def _cycle(ws: Workspace, vx: Background, number: int) -> None:
    ws.write("notes/n", f"{number} {'BAD' if number % 10 == 0 else ''}")
    path = os.path.join(ws.logs, ".output-0")

    def ended() -> bool:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 8192))
            return f"cycle {number}: ".encode() in file.read()

    ws.wait(ended, f"cycle {number}", 20)


def _account(ws: Workspace, vx: Background, clients: Clients, like: Account | None) -> Account:
    """What is held while nothing happens; if there is an earlier account, as soon as it is that."""
    tasks = frozenset(ws.server_pids("web") + ws.server_pids("api"))
    clients.rest()
    ws.settle(0.5)
    until = time.monotonic() + patience(5)
    while True:
        try:
            found = account(vx.pid, tasks, os.environ["TMPDIR"])
            if like is None or not like.differences(found) or time.monotonic() > until:
                clients.go_on()
                return found
        except (FileNotFoundError, ProcessLookupError):  # it went while it was looked at
            assert time.monotonic() < until
        time.sleep(0.05)


def _total(one: Account) -> dict[str, int]:
    total: dict[str, int] = {}
    for held in one.held.values():
        for kind, count in held.items():
            name = "files" if kind.startswith("/") else kind
            total[name] = total.get(name, 0) + count
    return total


@pytest.mark.soak
def test_nothing_grows_with_cycles_and_no_client_of_a_server_notices_them(ws: Workspace) -> None:
    ports = _site(ws)
    vx = ws.watch("web", "api", "use")
    vx.wait_says("^cycle 1: ", 30)
    with Clients(ports) as clients:
        number, until = 1, time.monotonic() + SECONDS
        while number < FIRST:
            number += 1
            _cycle(ws, vx, number)
        before = _account(ws, vx, clients, None)
        while number < CYCLES and time.monotonic() < until:
            number += 1
            _cycle(ws, vx, number)
            if number % 100 == 0:
                print(f"{number} cycles: {memory(vx.pid) >> 10} KiB")
        after = _account(ws, vx, clients, before)
    print(
        f"{number} cycles, {clients.answers} answers, the slowest after {clients.slowest:.3f} s, "
        f"memory {before.memory >> 10} KiB then {after.memory >> 10} KiB, "
        f"{sorted(after.processes.values())}, "
        f"held by vx and its helpers: {_total(before)}, then {_total(after)}"
    )
    assert vx.says(rf"^cycle {number - 1}: 3 ran, 0 failed") or number % 10 == 1
    assert clients.faults == []
    assert before.differences(after) == []
    assert after.memory - before.memory < MEMORY
    assert ws.steps("web") == ws.steps("api") == ["start", "listen"]
    assert vx.stop() == 0
    ws.nothing_left()
