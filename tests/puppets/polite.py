"""polite.py PORT NAME  an HTTP server that finishes its answers before it obeys SIGTERM.

It answers `NAME PATH`; /slow after 0.3 s, /big with four MiB more. Prints READY when it listens.
"""

import os
import signal
import socket
import sys
import threading
import time


def stop(*_: object) -> None:
    server.shutdown(socket.SHUT_RDWR)


def answer(client: socket.socket) -> None:
    request = client.recv(4096)
    if not request:
        return client.close()
    path = request.split(b" ")[1].decode()
    if path == "/slow":
        time.sleep(0.3)
    body = f"{sys.argv[2]} {path}".encode() + b"." * ((4 << 20) if path == "/big" else 0)
    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return client.close()


server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
signal.signal(signal.SIGTERM, stop)
print("READY", flush=True)
threads = []
while True:
    try:
        connection, _ = server.accept()
    except OSError:
        break
    threads.append(threading.Thread(target=answer, args=(connection,)))
    threads[-1].start()
for thread in threads:
    thread.join()
os._exit(0)
