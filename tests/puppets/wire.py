"""wire.py LATE ECHO  listens on two ports of 127.0.0.1 and prints READY.

LATE reads to the end of its input and answers "late answer" 1.5 s after that. ECHO sends every
line back and keeps the connection until the client ends it.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable


def late(client: socket.socket) -> None:
    while client.recv(4096):
        pass
    time.sleep(1.5)
    client.sendall(b"late answer")


def echo(client: socket.socket) -> None:
    for line in client.makefile("rb"):
        client.sendall(line)


def serve(server: socket.socket, how: Callable[[socket.socket], None]) -> None:
    while True:
        client, _ = server.accept()
        threading.Thread(target=handle, args=(client, how), daemon=True).start()


def handle(client: socket.socket, how: Callable[[socket.socket], None]) -> None:
    with client:
        how(client)


servers = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[1:3]]
print("READY", flush=True)
threading.Thread(target=serve, args=(servers[0], late), daemon=True).start()
serve(servers[1], echo)
