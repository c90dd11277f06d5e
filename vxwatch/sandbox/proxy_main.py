"""The program that stands between one box and the network: a filtering proxy, HTTP and SOCKS5.

It has the listeners of one box, the rules of its task and the network of the host, and nothing
else of vx's; as root it becomes nobody. It opens a connection only to what the rules grant,
tells of every other one on its stdout, a JSON text in each line, and lives until it is killed.
"""

import asyncio
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from vxwatch.hosts import Refusal, Rules, patterns
from vxwatch.process.rights import give_up_rights
from vxwatch.sandbox.proxy_dial import Dialler
from vxwatch.sandbox.proxy_http import speak_http
from vxwatch.sandbox.proxy_socks import VERSION, speak_socks
from vxwatch.sandbox.proxy_tunnel import Tunnels

_HANDSHAKE = 30.0
"""Seconds that a client gets to say what it wants."""
_LEAVE = 2.0
"""Seconds for a client to read its answer when nothing more is expected from it."""
_MOST_TOLD = 200
_LOOKUPS = 32
_AT_ONCE = 512
"""Clients that may be asking at the same time; those whose tunnel stands do not count."""
_REST = 0.1
_MOST_LISTENERS = 2
"""One for each of the two families of addresses."""


class Proxy:
    """Serves the clients of one box."""

    def __init__(self, rules: Rules) -> None:
        self._tunnels = Tunnels()
        self._dialler = Dialler(rules, self._tell)
        self._told: set[Refusal] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def serve(self, listeners: list[socket.socket]) -> None:
        """Accept until the end of the process."""
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                listener.setblocking(False)
                group.create_task(self._accept(listener, group))

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors; the clients wait
                self._room.release()
                await asyncio.sleep(_REST)
                continue
            group.create_task(self._speak(client))

    async def _speak(self, client: socket.socket) -> None:
        client.setblocking(False)
        tunnelled = False
        try:
            async with asyncio.timeout(_HANDSHAKE):
                first = await asyncio.get_running_loop().sock_recv(client, 1)
            if first == VERSION:
                tunnelled = await speak_socks(client, self._dialler, self._tunnels)
            elif first:
                tunnelled = await speak_http(client, first, self._dialler, self._tunnels)
            if not tunnelled:
                await _leave(client)
        except (OSError, TimeoutError):
            pass  # it went away, or is cut for saying nothing
        finally:
            self._room.release()
            if not tunnelled:
                client.close()

    def _tell(self, refusal: Refusal) -> None:
        if refusal in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(refusal)
        line = [refusal.host, refusal.port, refusal.why, refusal.grants]
        os.write(1, json.dumps(line).encode() + b"\n")


async def _leave(client: socket.socket) -> None:
    """Let the client read its answer: a close with something unread would take that away."""
    client.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(_LEAVE):
        while await asyncio.get_running_loop().sock_recv(client, 65536):
            pass


def main(rules: int, door: int) -> None:
    """Serve with the rules at this descriptor and the listeners that come through this socket."""
    with socket.socket(fileno=door) as given:
        _, listeners, *_ = socket.recv_fds(given, 1, _MOST_LISTENERS)
    if listeners:  # else there was no box
        serve(rules, listeners)


def serve(rules: int, listeners: list[int]) -> None:
    """Serve with the rules and the listeners that lie at these descriptors."""
    with open(rules, "rb") as file:
        allow, deny = json.load(file)
    sockets = [socket.socket(fileno=number) for number in listeners]
    give_up_rights()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(ThreadPoolExecutor(_LOOKUPS, "lookup"))
        runner.run(Proxy(Rules(patterns(allow), patterns(deny))).serve(sockets))
