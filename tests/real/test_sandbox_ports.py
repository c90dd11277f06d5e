"""Ports through the wall of a real box, in both directions."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.harness.boxes import Live, Site, live
from tests.harness.ports import has_ipv6, is_open
from tests.harness.processes import descendants
from tests.harness.waiting import patience, wait_for
from vxwatch.errors import UserError
from vxwatch.model import Port, Sandbox, Task
from vxwatch.process.nursery import Nursery
from vxwatch.sandbox.carrier import Bridge
from vxwatch.sandbox.runtime import SandboxRuntime

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bwrap"),
]

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
PUPPETS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "puppets")
INSIDE = 5173


@dataclass(slots=True)
class Server:
    """A bridged server of a test and the session around it."""

    site: Site
    nursery: Nursery
    runtime: SandboxRuntime
    bridge: Bridge
    port: int

    @asynccontextmanager
    async def up(self, words: str, says: str = "READY", grace: float = 5.0) -> AsyncIterator[Live]:
        """One life of it; when the block is left it was stopped politely and detached."""
        task = Task(
            "app",
            "dev",
            command=f"exec {PYTHON} -S {PUPPETS}/{words}",
            sandbox=Sandbox(read=(PUPPETS,)),
        )
        async with live(self.nursery, self.runtime, task, self.site.environ) as alive:
            assert alive.tree.init is not None
            self.bridge.attach(alive.tree.init)
            await alive.says(says)
            yield alive
            await self.bridge.pause()
            await alive.stop(signal.SIGTERM)
        await self.bridge.detach(grace)


def served(
    site: Site, port: int, body: Callable[[Server], Awaitable[None]], *more: Port, limit: float = 40
) -> None:
    """Run the body with a bridge from this host port to `INSIDE`."""

    async def run() -> None:
        async with asyncio.timeout(patience(limit)), site.session() as (nursery, runtime):
            bridge = Bridge(nursery, (Port(INSIDE, port), *more))
            bridge.open()
            try:
                await body(Server(site, nursery, runtime, bridge, port))
            finally:
                await bridge.close()
            assert not carriers()

    asyncio.run(run())


def carriers() -> list[int]:
    """The processes that carry connections."""
    return [seen.pid for seen in descendants() if _name(seen.pid) == "vx-carrier"]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""


async def get(port: int, path: str = "/", host: str = "127.0.0.1", late: float = 0) -> str:
    """The body of an answer; read after `late` seconds."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 16)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        await asyncio.sleep(late)
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        length = int(head.rpartition(b" ")[2])
        assert len(body) == length, f"{len(body)} of {length} bytes"
        return body.decode()
    finally:
        writer.close()


async def refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "0.0.0.0"])
def test_both_addresses_reach_whichever_the_server_binds(
    site: Site, free_port: Callable[[], int], bound: str
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"server.py port={INSIDE} host={bound}"):
            assert await get(port) == "ok"
            if has_ipv6():
                assert await get(port, host="::1") == "ok"

    served(site, port, body)
    assert not is_open(port)


def test_several_ports_and_only_on_loopback(site: Site, free_port: Callable[[], int]) -> None:
    port, other = free_port(), free_port()

    async def body(server: Server) -> None:
        async with server.up(f"wire.py {INSIDE} {INSIDE + 1}"):
            reader, writer = await asyncio.open_connection("127.0.0.1", other)
            writer.write(b"line\n")
            assert await reader.readline() == b"line\n"
            writer.close()
            with socket.socket() as everywhere:
                everywhere.bind(("127.0.0.2", port))

    served(site, port, body, Port(INSIDE + 1, other))


def test_a_late_answer_after_a_half_close(site: Site, free_port: Callable[[], int]) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"wire.py {INSIDE} {INSIDE + 1}"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"q")
            writer.write_eof()
            assert await reader.read() == b"late answer"
            writer.close()

    served(site, port, body)


def test_requests_that_begin_while_no_server_is_up_are_answered(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        for name in ("first", "second"):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(get(port, f"/{n}")) for n in range(30)]
                await asyncio.sleep(0.1)
                assert not any(task.done() for task in asked)
                async with server.up(f"polite.py {INSIDE} {name}"):
                    await asyncio.gather(*asked)
            assert sorted(task.result() for task in asked) == sorted(
                f"{name} /{n}" for n in range(30)
            )

    served(site, port, body)


def test_no_request_is_lost_across_restarts(site: Site, free_port: Callable[[], int]) -> None:
    port = free_port()

    async def late_get(after: float, path: str) -> str:
        await asyncio.sleep(after)
        return await get(port, path)

    async def body(server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            for life in range(4):
                async with server.up(f"polite.py {INSIDE} {life}"):
                    for n in range(40):
                        group.create_task(late_get(n * 0.006, f"/{n}"))
                    group.create_task(get(port, "/slow"))
                    await asyncio.sleep(0.12)
            async with server.up(f"polite.py {INSIDE} last"):
                await get(port)

    served(site, port, body)


def test_a_big_answer_read_after_the_stop_arrives_whole(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with asyncio.TaskGroup() as group, server.up(f"polite.py {INSIDE} x", grace=15):
            asked = [group.create_task(get(port, "/big", late=1)) for _ in range(3)]
            await asyncio.sleep(0.4)
        assert {len(task.result()) for task in asked} == {len("x /big") + (4 << 20)}

    served(site, port, body)


def test_a_client_that_never_reads_is_cut_after_the_grace(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        loop = asyncio.get_running_loop()
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET /big HTTP/1.0\r\n\r\n")
        async with server.up(f"server.py port={INSIDE}", grace=0.3) as alive:
            await get(port)
            await alive.stop(signal.SIGKILL, 0)
            begun = loop.time()
        assert loop.time() - begun < patience(5)
        writer.close()

    served(site, port, body)


def test_two_hundred_connections_at_once(site: Site, free_port: Callable[[], int]) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"wire.py {INSIDE + 1} {INSIDE}"):
            pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
            for number, (_, writer) in enumerate(pairs):
                writer.write(b"%d\n" % number)
            answers = [await reader.readline() for reader, _ in pairs]
            assert answers == [b"%d\n" % number for number in range(200)]
            for _, writer in pairs:
                writer.close()

    served(site, port, body, limit=60)


def test_one_process_carries_all_and_keeps_nothing_of_what_ended(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"server.py port={INSIDE}"):
            (carrier,) = carriers()
            held = len(os.listdir(f"/proc/{carrier}/fd"))
            await asyncio.gather(*(get(port, "/slow") for _ in range(10)))
            assert carriers() == [carrier]
            await asyncio.to_thread(
                wait_for,
                lambda: len(os.listdir(f"/proc/{carrier}/fd")) <= held,
                "the carrier has no connection left",
            )

    served(site, port, body)


def test_a_carrier_that_is_killed_is_replaced(site: Site, free_port: Callable[[], int]) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"polite.py {INSIDE} x"):
            assert await get(port) == "x /"
            (carrier,) = carriers()
            os.kill(carrier, signal.SIGKILL)
            await server.bridge._carriage.relay.done  # type: ignore[union-attr]
            assert await get(port) == "x /"

    served(site, port, body)


def test_a_crowd_before_a_server_that_accepts_slowly_is_served(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()
    few = (
        "import socket,time\n"
        f"s = socket.create_server(('127.0.0.1', {INSIDE}), backlog=1); print('READY', flush=True)\n"
        "while True:\n"
        "    time.sleep(0.01); c = s.accept()[0]; c.recv(99)\n"
        "    c.sendall(b'HTTP/1.0 200\\r\\nContent-Length: 2\\r\\n\\r\\nok'); c.close()\n"
    )

    async def body(server: Server) -> None:
        path = server.site.write("app/few.py", few)
        task = Task("app", "dev", command=f"exec {PYTHON} -S {path}", sandbox=Sandbox(read=(".",)))
        async with live(server.nursery, server.runtime, task, site.environ) as alive:
            assert alive.tree.init is not None
            server.bridge.attach(alive.tree.init)
            await alive.says("READY")
            assert await asyncio.gather(*(get(port) for _ in range(60))) == ["ok"] * 60
            await server.bridge.pause()
            await alive.stop(signal.SIGKILL)
        await server.bridge.detach(5)

    served(site, port, body)


def test_gone_for_good_means_refused_at_once(site: Site, free_port: Callable[[], int]) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"server.py port={INSIDE}"):
            assert not await refused(port)
        waiting = asyncio.create_task(get(port))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await server.bridge.close()
        with pytest.raises(ConnectionError):
            await waiting
        assert await refused(port)

    served(site, port, body)


def test_a_server_that_crashes_leaves_its_port_to_the_next(
    site: Site, free_port: Callable[[], int]
) -> None:
    port = free_port()

    async def body(server: Server) -> None:
        async with server.up(f"server.py port={INSIDE} die_after=0.1") as alive:
            assert (await alive.end()).code == 3
        async with server.up(f"polite.py {INSIDE} next"):
            assert await get(port) == "next /"

    served(site, port, body)


class TestTakenPort:
    def test_the_holder_is_named_and_nothing_is_held(
        self, site: Site, free_port: Callable[[], int]
    ) -> None:
        port, other = free_port(), free_port()

        async def body() -> None:
            async with site.session() as (nursery, _):
                bridge = Bridge(nursery, (Port(INSIDE, other), Port(INSIDE + 1, port)))
                with pytest.raises(UserError) as caught:
                    bridge.open()
                assert caught.value.slug == "port-taken"
                assert f"port {port} " in caught.value.message
                assert f"(pid {os.getpid()})" in caught.value.message
                assert not is_open(other)

        with socket.create_server(("127.0.0.1", port)):
            asyncio.run(body())

    @pytest.mark.skipif(not has_ipv6(), reason="needs ::1")
    def test_one_that_is_taken_on_the_other_address_counts(
        self, site: Site, free_port: Callable[[], int]
    ) -> None:
        port = free_port()

        async def body() -> None:
            async with site.session() as (nursery, _):
                with pytest.raises(UserError, match="in use"):
                    Bridge(nursery, (Port(INSIDE, port),)).open()
                assert not is_open(port)

        with socket.create_server(("::1", port), family=socket.AF_INET6):
            asyncio.run(body())


class TestHostPorts:
    def client(self, port: int, host: str = "localhost") -> str:
        code = (
            "import socket\n"
            f"with socket.create_connection(({host!r}, {port}), 20) as s:\n"
            "    s.sendall(b'GET /x HTTP/1.0\\r\\n\\r\\n'); print(s.makefile('rb').read()[-4:])\n"
        )
        return f'{PYTHON} -S -c "{code}" 2>&1 | tail -1'

    def run(self, site: Site, port: int, command: str) -> str:
        return site.run(command, host_ports=(port,)).out

    def test_a_port_of_the_host_is_reached(self, site: Site, free_port: Callable[[], int]) -> None:
        port = free_port()
        with _answering(port):
            assert self.run(site, port, self.client(port)) == "b'host'\n"
            if has_ipv6():
                assert self.run(site, port, self.client(port, "::1")) == "b'host'\n"

    def test_others_are_not(self, site: Site, free_port: Callable[[], int]) -> None:
        port, other = free_port(), free_port()
        with _answering(other):
            assert "ConnectionRefused" in self.run(site, port, self.client(other))

    def test_without_a_listener_the_client_hears_at_once(
        self, site: Site, free_port: Callable[[], int]
    ) -> None:
        port = free_port()
        assert "ConnectionReset" in self.run(site, port, self.client(port))

    def test_a_command_finds_the_port_from_its_first_moment(
        self, site: Site, free_port: Callable[[], int]
    ) -> None:
        port = free_port()
        listening = f"grep -c ' 0100007F:{port:04X} .* 0A ' /proc/net/tcp"
        assert self.run(site, port, listening) == "1\n"


def _answering(port: int) -> "_Answering":
    return _Answering(port)


class _Answering:
    """A host server that answers each connection with `host` until the block is left."""

    def __init__(self, port: int) -> None:
        import threading

        self._server = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client:
                client.recv(4096)
                client.sendall(b"host")
