"""What the bridge of a sandboxed server costs: the same server through it, and directly.

    python bench/bridge.py [--rounds 5] [--seconds 2]

bench/server.py runs twice: plainly, and as a sandboxed server of `vx run` whose port is bridged
to the host's loopback. Both are asked in turns, from this process.
"""

import asyncio
import os
import shutil
import socket
import statistics
import time
from collections.abc import Awaitable, Callable

import measure
import server
import workspace

CONNECTIONS = 8
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
CONFIG = """
[tasks.serve]
command = "exec python3 server.py {port}"
persistent = {{ ready_port = {port} }}
sandbox = {{ allow = {{ read = ["."], local_binding = [{port}] }} }}
"""


async def keep_alive(port: int, seconds: float) -> float:
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

    return await _rate(ask)


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

    return await _rate(ask)


async def _rate(ask: Callable[[], Awaitable[int]]) -> float:
    begun = time.perf_counter()
    answered = await asyncio.gather(*(ask() for _ in range(CONNECTIONS)))
    return sum(answered) / (time.perf_counter() - begun)


async def throughput(port: int, _seconds: float) -> float:
    """Megabytes per second of one large answer."""
    return await asyncio.to_thread(_download, port)


def _download(port: int) -> float:
    buffer, size = bytearray(2**20), 0
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(LARGE)
        while received := connection.recv_into(buffer):
            size += received
    assert size > len(server.CHUNK) * server.CHUNKS
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


async def compare(ports: dict[str, int], rounds: int, seconds: float) -> None:
    """Ask both servers in turns and print the table."""
    cases = {
        "requests/s, keep-alive": keep_alive,
        "requests/s, new connections": new_connections,
        "MB/s, one answer": throughput,
    }
    rows = []
    for name, case in cases.items():
        taken: dict[str, list[float]] = {way: [] for way in ports}
        for _ in range(rounds):
            for way, port in ports.items():
                taken[way].append(await case(port, seconds))
        direct, bridged = (statistics.median(taken[way]) for way in ports)
        rows.append([name, f"{direct:.0f}", f"{bridged:.0f}", f"{bridged / direct:.2f}"])
    measure.table(["median", *ports, "ratio"], rows)


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    with measure.stage() as directory:
        root, port, direct = f"{directory}/bridge", free_port(), free_port()
        workspace.write(f"{root}/package.json", '{"name": "bridge", "private": true}')
        workspace.write(f"{root}/vx.toml", CONFIG.format(port=port))
        shutil.copy(server.__file__, root)
        workspace.commit(root)
        plain = measure.start(["python3", "server.py", str(direct)], root, os.devnull, "plain")
        output = f"{directory}/vx.out"
        vx = measure.start([measure.VX, "run", "serve"], root, output, "vx")
        if measure.wait_for(lambda: answers(direct) and answers(port), 30):
            print(measure.machine() + "\n")
            ports = {"direct": direct, "bridge": port}
            asyncio.run(compare(ports, given.rounds, given.seconds))
        else:
            print("the bridged server did not come up; its last words:\n" + measure.tail(output))
        measure.stop(plain, "plain")
        measure.stop(vx, "vx")


if __name__ == "__main__":
    main()
