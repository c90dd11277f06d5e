"""Reaching into the network of a box, and of the host: listeners, dials, relays."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.harness.processes import descendants
from tests.harness.trees import Heard, end, until
from tests.harness.waiting import patience
from tests.real.test_nursery_boxes import box
from vxwatch.process.nursery import Nursery
from vxwatch.process.relay import Relay
from vxwatch.process.tree import Tree

pytestmark = pytest.mark.sandbox

PORT = 5173  # of networks that are the boxes' own

SERVER = """
import socket, sys, threading, time
def serve(c):
    said = b""
    while part := c.recv(65536):
        said += part
        if said.startswith(b"big "): break
    word, *rest = said.split(b" ")
    if word == b"late": time.sleep(0.8)
    if word == b"big":
        c.sendall(b"x" * int(rest[0])); import os; c.close(); os._exit(0)
    c.sendall(b"heard " + said); c.close()
time.sleep(float(sys.argv[2]))
s = socket.create_server((sys.argv[1], 5173), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, backlog=64)
print("listening", flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


def server(host: str = "127.0.0.1", delay: float = 0) -> tuple[str, ...]:
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", SERVER, host, str(delay))


@asynccontextmanager
async def boxed(
    *command: str, ready: bytes = b"listening\n"
) -> AsyncIterator[tuple[Nursery, Tree]]:
    async with Nursery.open() as nursery:
        heard = Heard()
        tree = await nursery.launch(box(*command), heard)
        await heard.until(ready)
        yield nursery, tree


def helpers(nursery: Nursery, tree: Tree) -> list[str]:
    """What the nursery's children are, but for the box."""
    with open(f"/proc/{nursery._helper.pid}/task/{nursery._helper.pid}/children") as file:
        children = {int(pid) for pid in file.read().split()} - {tree.pid}
    return [seen.line for seen in descendants() if seen.pid in children]


async def say(nursery: Nursery, tree: Tree, text: bytes) -> tuple[bytes, Relay]:
    """Send through a relay, half-close, and read to the end."""
    loop = asyncio.get_running_loop()
    client, far = _pair()
    with client:
        relay = await nursery.relay(far, tree.init, PORT)
        await loop.sock_sendall(client, text)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        async with asyncio.timeout(patience(15)):
            while part := await loop.sock_recv(client, 1 << 20):
                answer += part
    return answer, relay


def _pair() -> tuple[socket.socket, socket.socket]:
    """A client and the accepted connection of a TCP port of the host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    client.setblocking(False)
    return client, far


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_relay_carries_both_ways_and_keeps_a_half_close(host: str) -> None:
    async def scenario() -> None:
        async with boxed(*server(host)) as (nursery, tree):
            answer, relay = await say(nursery, tree, b"hello")
            assert answer == b"heard hello"
            await asyncio.wait_for(relay.done, patience(10))
            assert helpers(nursery, tree) == []

    asyncio.run(scenario())


def test_an_answer_long_after_the_half_close_arrives() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            assert (await say(nursery, tree, b"late x"))[0] == b"heard late x"

    asyncio.run(scenario())


def test_the_tail_of_a_server_that_left_arrives() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            answer, _ = await say(nursery, tree, b"big 20000000 ")
            assert len(answer) == 20_000_000
            assert (await tree.wait()).code == 0

    asyncio.run(scenario())


def test_many_connections_at_once_are_carried() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            texts = [b"number %d" % number for number in range(40)]
            answers = await asyncio.gather(*(say(nursery, tree, text) for text in texts))
            assert [answer for answer, _ in answers] == [b"heard " + text for text in texts]

    asyncio.run(scenario())


def test_a_relay_waits_for_a_server_that_is_not_up_yet() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(box(*server(delay=0.5)), Heard())
            assert (await say(nursery, tree, b"early"))[0] == b"heard early"

    asyncio.run(scenario())


def test_a_relay_that_still_dials_ends_with_its_box() -> None:
    async def scenario() -> None:
        async with boxed("/bin/sh", "-c", "echo up; sleep 600", ready=b"up\n") as (nursery, tree):
            client, far = _pair()
            with client:
                relay = await nursery.relay(far, tree.init, PORT)
                await asyncio.sleep(0.1)
                assert not relay.done.done()
                await end(tree)
                await asyncio.wait_for(relay.done, patience(10))
                assert await asyncio.get_running_loop().sock_recv(client, 10) == b""

    asyncio.run(scenario())


@pytest.mark.parametrize("dialled", [True, False])
def test_a_relay_that_is_ended_cuts_its_connection(dialled: bool) -> None:
    async def scenario() -> None:
        async with boxed(*server(), ready=b"listening\n") as (nursery, tree):
            client, far = _pair()
            with client:
                relay = await nursery.relay(far, tree.init, PORT if dialled else PORT + 1)
                if dialled:
                    await until(lambda: any("socat" in one for one in helpers(nursery, tree)))
                relay.end()
                await asyncio.wait_for(relay.done, patience(10))
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.get_running_loop().sock_recv(client, 10) == b""
                relay.end()  # once more does nothing
            await until(lambda: helpers(nursery, tree) == [])

    asyncio.run(scenario())


def test_a_relay_whose_client_never_lets_go_ends_after_its_box(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vxwatch.process.nursery._WRITE_OUT", 0.3)

    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            client, far = _pair()
            with client:
                relay = await nursery.relay(far, tree.init, PORT)
                await asyncio.wait_for(relay.connected, patience(10))
                await end(tree)
                await asyncio.wait_for(relay.done, patience(10))
            await until(lambda: helpers(nursery, tree) == [])

    asyncio.run(scenario())


def test_a_relay_into_a_box_that_is_gone_is_done_at_once() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            await end(tree)
            client, far = _pair()
            with client:
                relay = await nursery.relay(far, tree.init, PORT)
                await asyncio.wait_for(relay.done, patience(10))
                assert await asyncio.get_running_loop().sock_recv(client, 10) == b""

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_dial_returns_when_the_server_in_the_box_listens(host: str) -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(box(*server(host, delay=0.4)), heard)
            assert tree.init is not None
            await asyncio.wait_for(nursery.dial(tree.init, PORT), patience(10))
            await heard.until(b"listening\n")

    asyncio.run(scenario())


def test_a_dial_ends_with_its_box() -> None:
    async def scenario() -> None:
        async with boxed("/bin/sh", "-c", "echo up; sleep 600", ready=b"up\n") as (nursery, tree):
            dial = asyncio.create_task(nursery.dial(tree.init, PORT))
            await asyncio.sleep(0.1)
            await end(tree)
            with pytest.raises(ConnectionAbortedError):
                await asyncio.wait_for(dial, patience(10))
            with pytest.raises(OSError, match="box is gone"):
                await nursery.dial(tree.init, PORT)

    asyncio.run(scenario())


def test_a_cancelled_dial_leaves_no_process() -> None:
    async def scenario() -> None:
        async with boxed("/bin/sh", "-c", "echo up; sleep 600", ready=b"up\n") as (nursery, tree):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(nursery.dial(tree.init, PORT), 0.2)
            await until(lambda: helpers(nursery, tree) == [])

    asyncio.run(scenario())


def test_a_dial_of_the_host_meets_servers_and_never_itself(
    free_port: Callable[[], int],
) -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            port = free_port()
            dial = asyncio.create_task(nursery.dial(None, port))
            await asyncio.sleep(0.1)
            assert not dial.done()
            with socket.create_server(("127.0.0.1", port)):
                await asyncio.wait_for(dial, patience(10))

    asyncio.run(scenario())


def test_listeners_in_a_box_are_reached_from_inside_alone() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with boxed(*server(), ready=b"listening\n") as (nursery, tree):
            assert tree.init is not None
            listeners = await nursery.listen_in(tree.init, 5432)
            assert [one.getsockname()[:2] for one in listeners] == [
                ("127.0.0.1", 5432),
                ("::1", 5432),
            ]
            with pytest.raises(OSError, match="in use"):
                await nursery.listen_in(tree.init, 5432)
            for listener in listeners:
                listener.setblocking(False)
            # The kernel's own answer to a dial inside the box: a helper that dials, accepted here.
            dial = asyncio.create_task(nursery.dial(tree.init, 5432))
            accepted, _ = await asyncio.wait_for(loop.sock_accept(listeners[0]), patience(10))
            await dial
            accepted.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", 5432)).close()
            for listener in listeners:
                listener.close()

    asyncio.run(scenario())


def test_listeners_of_a_box_that_is_being_born_wait_for_its_loopback() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            for _ in range(10):
                tree = await nursery.launch(box("/bin/sleep", "600"), Heard())
                assert tree.init is not None
                listeners = await nursery.listen_in(tree.init, 5432)
                assert len(listeners) == 2
                for listener in listeners:
                    listener.close()
                await end(tree)

    asyncio.run(scenario())


def test_nothing_can_be_asked_of_a_process_that_is_no_box() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            with pytest.raises(OSError, match="box is gone"):
                await nursery.listen_in(os.getpid(), 5432)

    asyncio.run(scenario())
