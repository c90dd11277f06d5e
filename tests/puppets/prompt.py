"""prompt.py  a prompt on its terminal that does what each line says and survives Ctrl-C.

`say WORDS`, `raw` (leaves the terminal unreadable and its cursor hidden), `red` (begins a colour),
`children` (one in its group, one in a session of its own and without an environment), `deaf`
(ignores what asks it to end), `mortal` (dies of Ctrl-C), `stop` (stops its group itself), `exit N`.
"""

import os
import signal
import subprocess
import sys
import termios
import time
import tty


def do(verb: str, rest: str) -> None:  # noqa: C901 - one arm per verb
    if verb == "say":
        print("said", rest, flush=True)
    elif verb == "raw":
        print("\x1b[?25l\x1b[31mraw", flush=True)
        tty.setraw(0)
        while True:
            time.sleep(60)
    elif verb == "red":
        print("\x1b[31mred", flush=True)
    elif verb == "children":
        near = subprocess.Popen(["sleep", "300"])
        far = subprocess.Popen(["/usr/bin/sleep", "300"], start_new_session=True, env={})
        print("children", near.pid, far.pid, flush=True)
    elif verb == "deaf":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("deaf", flush=True)
    elif verb == "mortal":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("mortal", flush=True)
    elif verb == "stop":
        os.killpg(0, signal.SIGTSTP)
        print("continued", flush=True)
    elif verb == "exit":
        sys.exit(int(rest or 0))


def mine() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


print("terminal" if os.isatty(0) else "no terminal", "mine" if mine() else "not mine", flush=True)
while True:
    try:
        print("ask> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            break
        verb, _, rest = line.strip().partition(" ")
        do(verb, rest)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except termios.error as error:
        print(error, flush=True)
