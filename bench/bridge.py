"""What the bridge of a sandboxed server costs: the same server through it, and directly.

    python bench/bridge.py [--rounds 5] [--seconds 2]

bench/server.py runs plainly, as a sandboxed server of `vx run` whose port is bridged to the host's
loopback, and as one of `vx watch` with live reload. The first sandboxed one is also reached through
a socat for each connection, in place of vx's carrier. All are asked in turns, from this process.
"""

import asyncio
import os
import shutil
import socket
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import measure
import psutil
import server
import workspace

CONNECTIONS, CROWD = 8, 200
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE_SIZE = (
    len(server.HEAD % (len(server.CHUNK) * server.CHUNKS)) + len(server.CHUNK) * server.CHUNKS
)
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
RELOAD = "vxwatch.reload.main"
CONFIG = """
[tasks.serve]
command = "exec python3 server.py {port}"
persistent = {{ ready_port = {port} }}
sandbox = {{ allow = {{ read = ["."], local_binding = [{port}] }} }}

[tasks.reload]
command = "exec python3 server.py {live}"
persistent = {{ ready_port = {live}, live_reload = true }}
sandbox = {{ allow = {{ read = ["."], local_binding = [{live}] }} }}
"""


async def keep_alive(port: int, seconds: float, connections: int = CONNECTIONS) -> float:
    """Requests per second over connections that stay open."""
    deadline = time.perf_counter() + seconds

    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered = 0
        while time.perf_counter() < deadline:
            writer.write(REQUEST)
            await reader.readexactly(len(server.SMALL))
            answered += 1
        writer.close()
        return answered

    return await _rate(ask, connections)


async def crowd(port: int, seconds: float) -> float:
    """The same with many of them."""
    return await keep_alive(port, seconds, CROWD)


async def new_connections(port: int, seconds: float) -> float:
    """Requests per second when each has its own connection."""
    deadline = time.perf_counter() + seconds

    async def ask() -> int:
        answered = 0
        while time.perf_counter() < deadline:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            await reader.readexactly(len(server.SMALL))
            writer.close()
            answered += 1
        return answered

    return await _rate(ask, CONNECTIONS)


async def _rate(ask: Callable[[], Awaitable[int]], connections: int) -> float:
    begun = time.perf_counter()
    answered = await asyncio.gather(*(ask() for _ in range(connections)))
    return sum(answered) / (time.perf_counter() - begun)


async def throughput(port: int, _seconds: float) -> float:
    """Megabytes per second of one large answer."""
    return await asyncio.to_thread(_download, port)


def _download(port: int) -> float:
    buffer, size = bytearray(2**20), 0
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(LARGE)
        # Not until the end of the connection: with live reload that stays open.
        while size < LARGE_SIZE:
            size += (received := connection.recv_into(buffer))
            assert received
    return size / (time.perf_counter() - begun) / 1e6


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether the server sends a whole answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(REQUEST)
            return len(connection.recv(64)) > 0
    except OSError:
        return False


CASES = {
    "requests/s, 8 connections": keep_alive,
    "requests/s, 200 connections": crowd,
    "requests/s, new connections": new_connections,
    "MB/s, one answer": throughput,
}
MEBIBYTES = len(server.CHUNK) * server.CHUNKS / 2**20


@dataclass
class Way:
    """A port to ask, and whose CPU time carrying counts."""

    port: int
    carriers: Callable[[], Iterable[psutil.Process]]
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def ask(self, name: str, seconds: float) -> None:
        """One round of one case: its figure, and the CPU time for each request or MiB."""
        before, begun = self._spent(), time.perf_counter()
        figure = await CASES[name](self.port, seconds)
        amount = MEBIBYTES if "MB" in name else figure * (time.perf_counter() - begun)
        self.taken[name].append(figure)
        self.cpu[name].append((self._spent() - before) / amount)

    def _spent(self) -> float:
        return sum(map(_seconds, self.carriers()))


def _seconds(process: psutil.Process) -> float:
    """CPU time of the process and of its children that have ended."""
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.NoSuchProcess:
        return 0.0


async def compare(ways: dict[str, Way], rounds: int, seconds: float) -> None:
    """Ask all of them in turns and print the table."""
    for name in CASES:
        for _ in range(rounds):
            for way in ways.values():
                await way.ask(name, seconds)
    plain, *others = ways
    rows = []
    for name in CASES:
        middle = {way: statistics.median(ways[way].taken[name]) for way in ways}
        row = [name, f"{middle[plain]:.0f}"]
        for way in others:
            cpu = statistics.median(ways[way].cpu[name]) * 1e6
            row += [f"{middle[way]:.0f}", f"{middle[way] / middle[plain]:.2f}", f"{cpu:.0f}"]
        rows.append(row)
    heads = [head for way in others for head in (way, "ratio", "CPU us")]
    measure.table(["median", plain, *heads], rows)


def carriers_of(vx: int) -> list[psutil.Process]:
    """The carriers of this vx, and what stands before them for live reload."""
    return [
        one
        for one in psutil.Process(vx).children(recursive=True)
        if one.name() == "vx-carrier" or RELOAD in " ".join(one.cmdline())
    ]


def server_of(vx: int) -> int:
    """The pid of the sandboxed server."""
    found = psutil.Process(vx).children(recursive=True)
    return next(one.pid for one in found if "server.py" in one.cmdline())


def socat_way(root: str, pid: int, port: int) -> Way:
    """The sandboxed server, reached without vx."""
    own = free_port()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "socat_bridge.py")
    words = [sys.executable, script, str(own), str(pid), str(port)]
    process = measure.start(words, root, os.devnull, "socat")
    measure.wait_for(lambda: answers(own), 10)
    bridge = psutil.Process(process.pid)
    return Way(own, lambda: (bridge, *bridge.children()))


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    with measure.stage() as directory:
        root, port, direct, live = f"{directory}/bridge", *(free_port() for _ in range(3))
        workspace.write(f"{root}/package.json", '{"name": "bridge", "private": true}')
        workspace.write(f"{root}/vx.toml", CONFIG.format(port=port, live=live))
        shutil.copy(server.__file__, root)
        workspace.commit(root)
        plain = measure.start(["python3", "server.py", str(direct)], root, os.devnull, "plain")
        output = f"{directory}/vx.out"
        vx = measure.start([measure.VX, "run", "serve"], root, output, "vx")
        watch = measure.start(
            [measure.VX, "watch", "reload"], root, f"{directory}/watch.out", "watch"
        )
        if measure.wait_for(lambda: answers(direct) and answers(port) and answers(live), 30):
            print(measure.machine() + "\n")
            ways = {
                "direct": Way(direct, lambda: ()),
                "vx": Way(port, lambda: carriers_of(vx.pid)),
                "live reload": Way(live, lambda: carriers_of(watch.pid)),
            }
            if shutil.which("socat"):
                ways["socat"] = socat_way(root, server_of(vx.pid), port)
            asyncio.run(compare(ways, given.rounds, given.seconds))
        else:
            print("the bridged server did not come up; its last words:\n" + measure.tail(output))
        measure.stop(plain, "plain")
        measure.stop(vx, "vx")
        measure.stop(watch, "watch")


if __name__ == "__main__":
    main()
