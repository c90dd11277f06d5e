"""A proxy as a box has one, its listener on the host's loopback, and origins to ask through it."""

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_START = "import sys; from vxwatch.sandbox.proxy_main import serve; serve(int(sys.argv[1]), [int(sys.argv[2])])"


@dataclass(frozen=True, slots=True)
class Proxied:
    """A running proxy."""

    port: int
    process: "subprocess.Popen[bytes]"

    def connect(self) -> socket.socket:
        """A client of it."""
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def ask(self, text: bytes, *, close: bool = False) -> bytes:
        """All that it answers to this; `close` ends the client's side first."""
        with self.connect() as client:
            client.sendall(text)
            if close:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def told(self) -> list[list[Any]]:
        """What it has refused; ends it."""
        self.process.kill()
        out, _ = self.process.communicate()
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def proxy(*allow: str, deny: tuple[str, ...] = ()) -> Iterator[Proxied]:
    """A proxy with these rules."""
    rules = os.memfd_create("rules")
    os.write(rules, json.dumps((allow, deny)).encode())
    os.lseek(rules, 0, os.SEEK_SET)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        numbers = (rules, listener.fileno())
        words = [sys.executable, "-c", _START, *map(str, numbers)]
        process = subprocess.Popen(words, pass_fds=numbers, stdout=subprocess.PIPE)
        os.close(rules)
        port = listener.getsockname()[1]
    try:
        yield Proxied(port, process)
        assert process.poll() in {None, -signal.SIGKILL}, "it has ended by itself"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def origin(serve: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """A server whose connections are each served by this, in a thread; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        request_queue_size = 512

        def handle_error(self, *_: object) -> None:
            pass

    with Server((host, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def read_all(one: socket.socket) -> bytes:
    """Everything up to the end."""
    data = b""
    while part := one.recv(1 << 16):
        data += part
    return data


def read_to(one: socket.socket, end: bytes) -> bytes:
    """Everything up to this."""
    data = b""
    while end not in data and (part := one.recv(1)):
        data += part
    return data
