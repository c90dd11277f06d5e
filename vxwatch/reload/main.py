"""The program that stands between browsers and the bridge of one server.

It has the listeners of the server's host ports and an address behind each, where the bridge takes
its connections; it lives as long as those ports are open, whatever becomes of the server. News for
the pages come on a channel; what the user should know goes to its stdout, a JSON text in each
line. It ends with SIGTERM, when what is owed to clients is sent, and when vx ends.
"""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from vxwatch.process.rights import give_up_rights
from vxwatch.reload.channel import Channel, News
from vxwatch.reload.conversation import Conversation
from vxwatch.reload.wire import Wire

LEAVE = 1.0
"""Seconds that answers which have begun get at the end."""
_LOOK = 0.01
_REST = 0.1
_FULL = 0.02
_MOST_TOLD = 20
_PACKET = 1 << 20


class Program:
    """Serves the clients of one server's ports."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._talks: dict[asyncio.Task[None], Conversation | None] = {}
        self._over = asyncio.Event()
        self._told: set[str] = set()

    async def run(self, news: socket.socket, doors: list[tuple[str, list[socket.socket]]]) -> None:
        """Serve until vx is gone or has enough of it."""
        loop = asyncio.get_running_loop()
        news.setblocking(False)
        loop.add_reader(news, self._on_news, news)
        loop.add_signal_handler(signal.SIGTERM, self._on_stop, news)
        async with asyncio.TaskGroup() as group:
            for address, listeners in doors:
                for listener in listeners:
                    listener.setblocking(False)
                    self._accept_from(listener, partial(_dial, address), group)
            await self._over.wait()
            for _, listeners in doors:
                for listener in listeners:
                    loop.remove_reader(listener)
                    listener.close()
            await self._end()

    async def _end(self) -> None:
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE):
                # Too many things could tell.
                while any(talk and talk.owes for talk in self._talks.values()):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
        for task in self._talks:
            task.cancel()

    def _on_stop(self, news: socket.socket) -> None:
        self._on_news(news)
        self._over.set()

    def _on_news(self, news: socket.socket) -> None:
        try:
            while packet := news.recv(_PACKET):
                self._channel.publish(_news(json.loads(packet)))
        except BlockingIOError:
            return
        asyncio.get_running_loop().remove_reader(news)
        self._over.set()

    def _accept_from(
        self, listener: socket.socket, dial: Callable[[], Any], group: asyncio.TaskGroup
    ) -> None:
        loop = asyncio.get_running_loop()

        def on_client() -> None:
            try:
                client, _ = listener.accept()
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    return
                loop.remove_reader(listener)
                if error.errno != errno.EINVAL:  # out of descriptors; the clients wait
                    loop.call_later(_REST, self._accept_from, listener, dial, group)
                return
            task = group.create_task(self._serve(client, dial))
            self._talks[task] = None
            task.add_done_callback(self._talks.pop)

        if not self._over.is_set():
            loop.add_reader(listener, on_client)

    async def _serve(self, client: socket.socket, dial: Callable[[], Any]) -> None:
        wire = Wire()
        task = asyncio.current_task()
        assert task is not None
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: wire, client)
            talk = self._talks[task] = Conversation(wire, self._channel, dial, self._tell)
            await talk.run()
        except OSError:
            client.close()
        except Exception:  # noqa: BLE001 - a fault in one talk is told and ends no other
            traceback.print_exc()
            wire.abort()

    def _tell(self, why: str, path: str) -> None:
        if why not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(why)
            os.write(1, json.dumps([why, path]).encode() + b"\n")


async def _dial(address: str) -> Wire:
    """A connection to the bridge, which may take it much later. Raises `OSError`."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    wire = Wire()
    try:
        while not _connected(one, address):  # noqa: ASYNC110 - nothing tells of room there
            await asyncio.sleep(_FULL)
        await asyncio.get_running_loop().create_unix_connection(lambda: wire, sock=one)
    except BaseException:
        one.close()
        raise
    return wire


def _connected(one: socket.socket, address: str) -> bool:
    """Connect, or find that too many wait there: for this family that is what EAGAIN means."""
    try:
        one.connect(address)
    except BlockingIOError:
        return False
    return True


def _news(value: dict[str, Any]) -> News:
    return News(value["version"], value["servers"], tuple(value["failed"]))


def main(settings: int, channel: int, first: int) -> None:
    """Serve with what lies at these descriptors; the listeners begin at the `first`."""
    with open(settings, "rb") as file:
        given = json.load(file)
    doors: list[tuple[str, list[socket.socket]]] = []
    for address, count in given["doors"]:
        doors.append((address, [socket.socket(fileno=first + i) for i in range(count)]))
        first += count
    program = Channel(given["path"], _news(given["news"]))
    give_up_rights()
    asyncio.run(Program(program).run(socket.socket(fileno=channel), doors))
