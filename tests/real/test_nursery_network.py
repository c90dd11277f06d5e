"""Reaching into the network of a box, and of the host: listeners, dials, relays."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
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
    children = helper_pids(nursery, tree)
    return [seen.line for seen in descendants() if seen.pid in children]


def helper_pids(nursery: Nursery, tree: Tree) -> set[int]:
    with open(f"/proc/{nursery._helper.pid}/task/{nursery._helper.pid}/children") as file:
        return {int(pid) for pid in file.read().split()} - {tree.pid}


@contextlib.contextmanager
def carried(nursery: Nursery, tree: Tree, inside: int = PORT) -> Iterator[tuple[int, Relay]]:
    """A port of the host whose clients are carried into the box, and by whom."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        relay = nursery.relay([(inside, [listener])], tree.init, patient=True)
        yield listener.getsockname()[1], relay


async def say(port: int, text: bytes) -> bytes:
    """Send, half-close, and read to the end."""
    async with asyncio.timeout(patience(15)):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
    return answer


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_relay_carries_both_ways_and_keeps_a_half_close(host: str) -> None:
    async def scenario() -> None:
        async with boxed(*server(host)) as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                assert await say(port, b"hello") == b"heard hello"
                assert await say(port, b"late x") == b"heard late x"
                await end(tree)
                await asyncio.wait_for(relay.done, patience(10))
            assert helpers(nursery, tree) == []

    asyncio.run(scenario())


def test_the_tail_of_a_server_that_left_arrives() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                assert len(await say(port, b"big 20000000 ")) == 20_000_000
                assert (await tree.wait()).code == 0
                await asyncio.wait_for(relay.done, patience(10))

    asyncio.run(scenario())


def test_many_connections_at_once_are_carried() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree) as (port, _):
                texts = [b"number %d" % number for number in range(40)]
                answers = await asyncio.gather(*(say(port, text) for text in texts))
                assert answers == [b"heard " + text for text in texts]

    asyncio.run(scenario())


def test_a_client_waits_for_a_server_that_is_not_up_yet() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(box(*server(delay=0.5)), Heard())
            with carried(nursery, tree) as (port, _):
                assert await say(port, b"early") == b"heard early"

    asyncio.run(scenario())


def test_who_waits_for_a_server_that_never_came_is_left_to_the_next() -> None:
    async def scenario() -> None:
        async with boxed("/bin/sh", "-c", "echo up; sleep 600", ready=b"up\n") as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                asked = asyncio.create_task(say(port, b"early"))
                await asyncio.sleep(0.1)
                await end(tree)
                await asyncio.wait_for(relay.done, patience(10))
                assert not asked.done()
            with pytest.raises(ConnectionError):
                await asked

    asyncio.run(scenario())


def test_a_relay_that_is_ended_cuts_its_connections() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"begun")
                relay.hold()
                await relay.settled()
                relay.end()
                await asyncio.wait_for(relay.done, patience(10))
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
                relay.end()  # once more does nothing
            await until(lambda: helpers(nursery, tree) == [])

    asyncio.run(scenario())


def test_who_is_held_accepts_nobody_and_carries_on() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await until(lambda: bool(established(PORT, tree)))
                relay.hold()
                await asyncio.wait_for(relay.settled(), patience(10))
                later = asyncio.create_task(say(port, b"later"))
                writer.write(b"hello")
                writer.write_eof()
                assert await reader.read() == b"heard hello"
                writer.close()
                assert not later.done()
                relay.end()
                later.cancel()

    asyncio.run(scenario())


def established(port: int, tree: Tree) -> list[str]:
    """The rows of connections that clients have to this port of the box."""
    with open(f"/proc/{tree.init}/net/tcp") as rows:
        return [row for row in rows if f":{port:04X} 01 " in row]


def test_settled_means_that_the_server_has_accepted() -> None:
    sleepy = (
        "import socket, time\n"
        "s = socket.create_server(('127.0.0.1', 5173)); print('listening', flush=True)\n"
        "time.sleep(0.5); s.accept(); print('accepted', flush=True); time.sleep(600)\n"
    )

    command = (os.path.realpath(sys.executable), "-I", "-S", "-c", sleepy)

    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(box(*command), heard)
            await heard.until(b"listening\n")
            with carried(nursery, tree) as (port, relay):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                await until(lambda: bool(established(PORT, tree)))
                relay.hold()
                await asyncio.wait_for(relay.settled(), patience(10))
                await heard.until(b"accepted\n")
                writer.close()

    asyncio.run(scenario())


def test_a_relay_whose_client_never_lets_go_ends_after_its_box(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vxwatch.process.nursery._WRITE_OUT", 0.3)

    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree) as (port, relay):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                await until(lambda: bool(established(PORT, tree)))
                await end(tree)
                await asyncio.wait_for(relay.done, patience(10))
                writer.close()
            await until(lambda: helpers(nursery, tree) == [])

    asyncio.run(scenario())


def test_a_relay_into_a_box_that_is_gone_is_done_at_once() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            await end(tree)
            with carried(nursery, tree) as (_, relay):
                await asyncio.wait_for(relay.done, patience(10))
                await asyncio.wait_for(relay.settled(), patience(10))

    asyncio.run(scenario())


def test_an_impatient_relay_resets_who_comes_to_nobody() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            with socket.create_server(("127.0.0.1", 0)) as unused:
                nobody = unused.getsockname()[1]
            with socket.create_server(("127.0.0.1", 0)) as listener:
                nursery.relay([(nobody, [listener])], None, patient=False)
                with pytest.raises(ConnectionResetError):
                    await say(listener.getsockname()[1], b"")

    asyncio.run(scenario())


def test_a_helper_has_none_of_the_nurserys_descriptors() -> None:
    async def scenario() -> None:
        async with boxed(*server()) as (nursery, tree):
            with carried(nursery, tree):
                await until(lambda: len(helper_pids(nursery, tree)) == 1)
                (helper,) = helper_pids(nursery, tree)
                names = f"/proc/{helper}/fd"
                await until(lambda: any("eventpoll" in one for one in links(names)))
                # Its channel and its listener, and none of the pair that joins vx and the nursery.
                assert sum(one.startswith("socket:") for one in links(names)) == 2
                assert not any(one.startswith("pipe:") for one in links(names)[3:])

    asyncio.run(scenario())


def links(directory: str) -> list[str]:
    """What the descriptors in this directory of /proc are, in order."""
    numbers = sorted(map(int, os.listdir(directory)))
    return [os.readlink(f"{directory}/{number}") for number in numbers]


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
