"""The carrier that bench/bridge.py compares with: a socat of its own for each connection.

    python socat_bridge.py HOST_PORT PID PORT

It accepts on 127.0.0.1:HOST_PORT, enters the network of the process PID and becomes a socat to PORT
there. The waits and checks of vx are not in it, so it is a little faster than such a carrier would be.
"""

import os
import signal
import socket
import sys

from vxwatch.process import netns


def carry(client: socket.socket, network: str, port: int) -> None:
    netns.enter(os.open(network, os.O_RDONLY))
    os.set_inheritable(client.fileno(), True)
    ends = (f"FD:{client.fileno()},nodelay,shut-down", f"TCP:127.0.0.1:{port},nodelay,shut-down")
    os.execvp("socat", ["socat", "-t", "3600", "-b", "65536", *ends])


def main(host_port: int, pid: int, port: int) -> None:
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    listener = socket.create_server(("127.0.0.1", host_port), backlog=1024)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            carry(client, f"/proc/{pid}/ns/net", port)
        client.close()


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
