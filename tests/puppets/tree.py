"""tree.py SPEC LOG  builds the process tree of a JSON file and logs each member of it.

A node has `traits`, `children` and perhaps a `port` that it listens on. Each member appends a
line to LOG: its pid namespace, its pid in there, its start time, its name. The traits:

    session, group   it leads a session, a process group
    orphan           its parent ends at once, so that it is adopted
    deaf             it ignores INT, TERM, HUP and QUIT, and so does what it starts
    slow             it needs a moment after one of these
    phoenix          it starts a deaf daemon when one of these comes, then ends
    mute             it lets go of its output
    noisy            it writes a few hundred lines
    storm            it starts a bush of processes as fast as it can
    hare             a member that goes on being replaced by its own child for a while
    bare             a `sleep` without environment, open files, a directory or a name of its own
    stopped          it stops itself when it has started its children
    leaves           it ends with 0 when it has started its children
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HARE_SECONDS, HARE_GENERATIONS = 2.0, 120
SLOW_SECONDS = 0.1
LOG = ""
KEPT: list[object] = []


def log(name: str) -> None:
    with open("/proc/self/stat", "rb") as file:
        started = file.read().rpartition(b") ")[2].split()[19].decode()
    line = f"{os.stat('/proc/self/ns/pid').st_ino} {os.getpid()} {started} {name}\n"
    number = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(number, line.encode())
    os.close(number)


def be(node: dict[str, Any], name: str) -> None:
    """Be this member; it returns only to end."""
    traits = node["traits"]
    log(name)
    hear(traits, name)
    if "port" in node:
        listen(node["port"])
    for number, child in enumerate(node["children"]):
        start(child, f"{name}.{number}")
    if "storm" in traits:
        storm(name, 4)
    if "hare" in traits and os.fork() == 0:
        run_like_a_hare(name)
    if "noisy" in traits:
        os.write(1, b"".join(b"line %d %s\n" % (line, b"." * 80) for line in range(300)))
    if "mute" in traits:
        let_go_of_output()
    if "bare" in traits:
        os.closerange(0, 1024)
        os.chdir("/")
        os.execve("/bin/sleep", ["sleep", "600"], {})
    if "stopped" in traits:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "leaves" not in traits:
        stay()


def hear(traits: list[str], name: str) -> None:
    def slow(*_: object) -> None:
        time.sleep(SLOW_SECONDS)
        os._exit(0)

    def rise(*_: object) -> None:
        if os.fork() == 0:
            os.setsid()
            hear(["deaf"], name)
            log(f"{name}.reborn")
            stay()
        os._exit(0)

    for trait, answer in (("deaf", signal.SIG_IGN), ("slow", slow), ("phoenix", rise)):
        if trait in traits:
            for number in SIGNALS:
                signal.signal(number, answer)


def start(node: dict[str, Any], name: str) -> None:
    if os.fork():
        return
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if "session" in node["traits"]:
        os.setsid()
    if "group" in node["traits"]:
        os.setpgid(0, 0)
    if "orphan" in node["traits"] and os.fork():
        os._exit(0)
    be(node, name)
    os._exit(0)


def listen(port: int) -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.suppress(OSError):  # an earlier member of a cycle may hold it for a moment
        server.bind(("127.0.0.1", port))
        server.listen()
    KEPT.append(server)


def storm(name: str, depth: int) -> None:
    for number in range(2 if depth else 0):
        if os.fork() == 0:
            if (number + depth) % 2:
                os.setsid()
            log(f"{name}.storm")
            storm(name, depth - 1)
            stay()


def run_like_a_hare(name: str) -> None:
    end = time.monotonic() + HARE_SECONDS
    for generation in range(HARE_GENERATIONS):
        if time.monotonic() > end:
            break
        if os.fork():
            os._exit(0)
        if generation % 3 == 0:
            os.setsid()
        log(f"{name}.hare")
        time.sleep(0.002)
    stay()


def let_go_of_output() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def stay() -> None:
    while True:
        signal.pause()


def main() -> None:
    global LOG  # a puppet has one log
    spec, LOG = sys.argv[1:]
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    KEPT.append(open(LOG, "a"))  # noqa: SIM115  # every member inherits it
    with open(spec) as file:
        root = json.load(file)
    be(root, root["name"])


if __name__ == "__main__":
    main()
