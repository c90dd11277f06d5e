"""A small dev server that does what its words say and writes each step of its life to a log.

    server.py port=8080 [host=127.0.0.1] [name=web] [log=FILE] [page=FILE]
              [slow_start=S] [cleanup=S] [deaf=1] [helper=1] [die_after=S] [needs_stdin=1]

Each line of the log is a word and a pid: start, helper, listen, sigN, clean, crash, eof.
`cleanup` is how long it needs after a signal, `deaf` makes it ignore signals, `helper` gives it
a sleeping child, `needs_stdin` makes it quit when its input ends. Standard library only, and
little of it, so that a start is cheap.

GET / gives the page (read anew each time) or "ok"; /pid its pid; /slow answers after a second;
/big eight MiB; /env?NAME a variable; /die nothing: the server crashes.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time

WORDS = dict(word.split("=", 1) for word in sys.argv[1:])
BIG = b"x" * (8 << 20)


def log(word: str, pid: int | None = None) -> None:
    if "log" in WORDS:
        line = f"{word} {pid or os.getpid()}\n".encode()
        fd = os.open(WORDS["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, line)
        os.close(fd)


def stop(number: int, _frame: object) -> None:
    log(f"sig{number}")
    time.sleep(float(WORDS.get("cleanup", 0)))
    log("clean")
    os._exit(0)


def crash(after: float) -> None:
    time.sleep(after)
    log("crash")
    os._exit(3)


def quit_at_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    log("eof")
    os._exit(0)


def body(path: str) -> bytes:
    if path == "/pid":
        return str(os.getpid()).encode()
    if path == "/die":
        crash(0)
    if path == "/slow":
        time.sleep(1)
        return b"slow"
    if path == "/big":
        return BIG
    if path.startswith("/env?"):
        return os.environ.get(path[5:], "(unset)").encode()
    if "page" in WORDS:
        with open(WORDS["page"], "rb") as file:
            return file.read()
    return b"ok"


def answer(client: socket.socket) -> None:
    with client:
        request = b""
        while b"\r\n\r\n" not in request:
            piece = client.recv(65536)
            if not piece:
                return
            request += piece
        text = body(request.split(b" ", 2)[1].decode())
        head = f"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(text)}\r\n\r\n"
        with contextlib.suppress(OSError):
            client.sendall(head.encode() + text)


def main() -> None:
    log("start")
    if "helper" in WORDS:
        log("helper", os.posix_spawnp("sleep", ["sleep", "600"], os.environ))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if "deaf" in WORDS else stop)
    time.sleep(float(WORDS.get("slow_start", 0)))
    host = WORDS.get("host", "127.0.0.1")
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, int(WORDS["port"])))
    server.listen(128)
    log("listen")
    print(f"READY {WORDS.get('name', 'server')} {WORDS['port']}", flush=True)
    if "die_after" in WORDS:
        after = float(WORDS["die_after"])
        threading.Thread(target=crash, args=(after,), daemon=True).start()
    if "needs_stdin" in WORDS:
        threading.Thread(target=quit_at_end_of_input, daemon=True).start()
    while True:
        client, _ = server.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main()
