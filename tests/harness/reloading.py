"""The live reload program of vx by itself, between clients on a port and a server of the test."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.harness.waiting import patience
from vxwatch.reload.news import encode
from vxwatch.sandbox.proxy import import_paths

PATH = "/__vx__/token/"
VERSION = "run.0"
TAG = f'<script async src="{PATH}reload.js?v={VERSION}"></script>'.encode()
_START = """import sys; sys.path += sys.argv[1:4]
from vxwatch.reload.main import main; main(*map(int, sys.argv[4:]))"""

Talk = Callable[[socket.socket], None]
"""What the server does with one connection, in a thread of its own; it is closed afterwards."""


@dataclass(slots=True)
class Program:
    """A running program; the server behind it `talk`s so on new connections."""

    talk: Talk
    port: int
    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    stopped: bool = False

    def stop(self) -> None:
        """Ask it to end, once."""
        if not self.stopped:
            self.stopped = True
            self.process.send_signal(signal.SIGTERM)

    def connect(self) -> socket.socket:
        """A new client."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=patience(10))

    def ask(self, request: bytes) -> bytes:
        """What comes back for these bytes, sent by a client that sends no more, until the end."""
        with self.connect() as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            return rest(client)

    def publish(self, version: str, *failed: dict[str, str], servers: bool = False) -> None:
        """Have it tell its pages."""
        self.channel.send(encode(version, servers=servers, failed=failed))

    def listen(self) -> "Events":
        """A page's connection to the reload channel."""
        return Events(self.connect())


class Events:
    """The reload channel as a page hears it."""

    def __init__(self, client: socket.socket, path: str = PATH) -> None:
        self.client = client
        client.sendall(f"GET {path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._file = client.makefile("rb")
        self.head = list(iter(self._file.readline, b"\r\n"))
        assert self._file.readline() == b"retry: 500\n"

    def next(self) -> tuple[str, Any]:
        """The next event and its data."""
        lines = [line.decode().rstrip("\n") for line in iter(self._file.readline, b"\n") if line]
        assert len(lines) == 2, lines
        return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))

    @property
    def quiet(self) -> bool:
        """Whether nothing came that was not read."""
        return not select.select([self.client], [], [], 0)[0]

    def close(self) -> None:
        """The page goes away."""
        self._file.close()
        self.client.close()


def silent(_: socket.socket) -> None:
    """A server that ends each connection at once."""


@contextmanager
def program(talk: Talk = silent) -> Iterator[Program]:
    """The program in front of a server that talks so; it is ended with the block."""
    inner = socket.socket(socket.AF_UNIX)
    inner.bind("")
    inner.listen(1024)
    running: list[Program] = []

    def talk_now(client: socket.socket) -> None:
        running[0].talk(client)

    with (
        serving(inner, talk_now),
        socket.create_server(("127.0.0.1", 0), backlog=1024) as public,
    ):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = os.memfd_create("settings")
        news = json.loads(encode(VERSION, servers=False, failed=()))
        doors = [(inner.getsockname().decode("latin-1"), 1)]
        os.write(settings, json.dumps({"path": PATH, "news": news, "doors": doors}).encode())
        os.lseek(settings, 0, os.SEEK_SET)
        numbers = (settings, theirs.fileno(), public.fileno())
        paths = (*import_paths(), "")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, *paths[:3], *map(str, numbers)],
            pass_fds=numbers,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        os.close(settings)
        try:
            running.append(Program(talk, public.getsockname()[1], process, ours))
            yield running[0]
        finally:
            running[0].stop()
            ours.close()
            _, complaint = process.communicate(timeout=patience(10))
        assert complaint.decode() == "", complaint.decode()
        assert process.returncode == 0


@contextmanager
def serving(listener: socket.socket, talk: Talk) -> Iterator[None]:
    """Have clients of the listener talked to; all that is over when the block is left."""
    threads: list[threading.Thread] = []
    clients: list[socket.socket] = []

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            talk(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listener.close()
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def rest(client: socket.socket) -> bytes:
    """All that still comes."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def head(client: socket.socket) -> bytes:
    """The head of a message; nothing after it has come with it."""
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        piece = client.recv(1)
        if not piece:
            raise ConnectionError(got)
        got += piece
    return got


def length_of(message: bytes) -> int:
    """The Content-Length that a head tells."""
    found = re.search(rb"(?i)content-length: *(\d+)", message)
    assert found
    return int(found[1])
