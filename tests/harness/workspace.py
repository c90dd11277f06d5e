"""A workspace to run vx in: a git repository, tasks written into its vx.toml, and logs.

Logs lie outside the workspace, so that logging never wakes a watch. A task finds the log
directory in `$LOGS`; a line appended to `$LOGS/name` is counted by `runs("name")`.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.harness import ptys, running
from tests.harness.ports import is_free, is_open
from tests.harness.processes import Seen, descendants
from tests.harness.waiting import patience, wait_for

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Box:
    """What a sandboxed task is granted, beside the puppets and the log directory."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    host_ports: tuple[int, ...] = ()
    network: tuple[str, ...] = ()


class Workspace:
    """A directory with a vx.toml that grows with each `task` and `server`."""

    def __init__(self, path: str, logs: str, take_port: Callable[[], int]) -> None:
        self.path = path
        self.logs = logs
        self.ports: list[int] = []
        self._take_port = take_port
        self.environment = _environment()
        self.before: tuple[str, ...] = ()
        self._tables: dict[str, dict[str, object]] = {}
        self._running: list[running.Background | running.Terminal] = []
        self._piped: list[subprocess.Popen[bytes]] = []
        self._strangers: list[subprocess.Popen[bytes]] = []
        os.makedirs(path)
        os.makedirs(logs)
        self.git("init", "-q", "--template=", "-b", "main")
        self.git("config", "user.email", "a@example.invalid")
        self.git("config", "user.name", "a")

    # Files

    def file(self, path: str) -> str:
        """The absolute path of a file of the workspace."""
        return os.path.join(self.path, path)

    def write(self, path: str, text: str) -> None:
        """Write in place, as a shell's `>` does; makes its directory."""
        os.makedirs(os.path.dirname(self.file(path)), exist_ok=True)
        with open(self.file(path), "w") as file:
            file.write(text)

    def replace(self, path: str, text: str) -> None:
        """Write beside it and rename, as editors do."""
        self.write(path + ".swp", text)
        os.rename(self.file(path + ".swp"), self.file(path))

    def read(self, path: str) -> str:
        """The text of a file of the workspace."""
        with open(self.file(path)) as file:
            return file.read()

    def holds(self, path: str, text: str) -> bool:
        """Whether a file is there and has this text."""
        return os.path.exists(self.file(path)) and self.read(path) == text

    def git(self, *words: str) -> str:
        """Run git in the workspace and give its output."""
        command = ["git", "-c", "core.hooksPath=/dev/null", *words]
        return subprocess.run(
            command, cwd=self.path, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    # Config

    def task(
        self,
        name: str,
        command: str | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        after: Sequence[str] = (),
        grace: str | None = None,
        timeout: str | None = None,
        retries: int | None = None,
        secrets: Sequence[str] = (),
        box: Box | None = None,
    ) -> None:
        """Add a task; None leaves a field out."""
        table: dict[str, object] = {"depends_on": list(after)} if after else {}
        if command is not None:
            env: dict[str, object] = {"secret": list(secrets)} if secrets else {}
            table |= {"command": command, "env": {**env, "set": {"LOGS": self.logs}}}
        cache = {"inputs": inputs, "outputs": outputs}
        if inputs is not None or outputs is not None:
            table["cache"] = {key: list(v) for key, v in cache.items() if v is not None}
        limits = {"grace": grace, "timeout": timeout, "retries": retries}
        table |= {key: value for key, value in limits.items() if value is not None}
        if box is not None:
            table["sandbox"] = {"allow": self._allow(box)}
        self._tables[name] = table
        self.save_config()

    def server(
        self,
        name: str,
        command: str,
        *,
        ready_line: str | None = None,
        ready_port: int | None = None,
        ready_timeout: str | None = None,
        restart_on: Sequence[str] = (),
        after: Sequence[str] = (),
        grace: str | None = None,
        stop_signal: str | None = None,
        restart: str | None = None,
        live_reload: bool | None = None,
        secrets: Sequence[str] = (),
        box: Box | None = None,
        follows: bool = True,
    ) -> None:
        """Add a server that its `restart_on` files and, if it follows them, its dependencies restart."""
        fields = {
            "ready_when": ready_line,
            "ready_port": ready_port,
            "ready_timeout": ready_timeout,
            "restart_on": list(restart_on),
            "restart_on_dependencies": follows and restart != "never",
            "stop_signal": stop_signal,
            "restart": restart,
            "live_reload": live_reload,
        }
        self.task(name, command, after=after, grace=grace, secrets=secrets, box=box)
        self._tables[name]["persistent"] = {k: v for k, v in fields.items() if v is not None}
        self.save_config()

    def save_config(self) -> None:
        """Write vx.toml as the tasks are now."""
        self.replace("vx.toml", "".join(_toml(f"tasks.{n}", t) for n, t in self._tables.items()))

    def puppet(self, script: str, /, *words: object, **named: object) -> str:
        """The shell command that runs a puppet."""
        path = os.path.join(running.PUPPETS, script)
        pairs = [f"{key}={value}" for key, value in named.items()]
        return " ".join([*running.PYTHON, path, *map(str, words), *pairs])

    def serve(self, log: str, port: int, /, **named: object) -> str:
        """The shell command of the small server that logs to this log."""
        return self.puppet("server.py", port=port, log=os.path.join(self.logs, log), **named)

    def _allow(self, box: Box) -> dict[str, object]:
        read = [*box.read, running.PUPPETS, os.path.realpath(sys.base_prefix)]
        allow: dict[str, object] = {"read": read, "write": [*box.write, self.logs + "/"]}
        if box.ports:
            allow["local_binding"] = list(box.ports)
        if box.host_ports:
            allow["host_ports"] = list(box.host_ports)
        if box.network:
            allow["network"] = list(box.network)
        return allow

    def port(self) -> int:
        """A free port of the host; `nothing_left` checks that it is free again."""
        self.ports.append(self._take_port())
        return self.ports[-1]

    # Running vx

    def vx(self, *words: str, seconds: float = 20.0, cwd: str = "") -> running.Finished:
        """Run vx to its end, started by the command `before`, if there is one."""
        argv = [*self.before, running.VX, *words]
        return running.finish(argv, self.file(cwd), self.environment, seconds)

    def in_python(
        self, *words: str, first: str = "pass", then: str = "pass"
    ) -> subprocess.CompletedProcess[str]:
        """Run vx in a Python that does something more before and after it, and wait for its end."""
        code = (
            f"import sys; {first}\nfrom vxwatch import cli; sys.argv = {['vx', *words]}\n"
            f"cli._leave = sys.exit\ntry: cli.main()\nfinally: {then}\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )

    def trace_with_strace(self) -> None:
        """Have `vx` find that the kernel tells it of no calls."""
        self.before = (sys.executable, os.path.join(running.PUPPETS, "heard.py"))

    def start(self, *words: str) -> running.Background:
        """Start vx in the background."""
        return self.start_command(running.VX, *words)

    def start_command(self, *argv: str) -> running.Background:
        """Start a command that becomes vx in the background."""
        output = os.path.join(self.logs, f".output-{len(self._running)}")
        vx = running.Background(argv, self.path, self.environment, output)
        self._running.append(vx)
        return vx

    def watch(self, *tasks: str) -> running.Background:
        """Start `vx watch` and wait until it promises to see edits."""
        vx = self.start("watch", *tasks)
        vx.wait_says(r"^watching \d+ project")
        return vx

    def terminal(self, *words: str) -> running.Terminal:
        """Start vx as the foreground job of a new terminal."""
        vx = running.Terminal([running.VX, *words], self.path, self.environment)
        self._running.append(vx)
        return vx

    def person(self, *argv: str) -> ptys.Person:
        """Seat a person at a new terminal whose foreground job is the command, else vx with words."""
        command = [running.VX, *argv] if argv[0] in ("run", "watch") else argv
        person = ptys.Person(command, self.path, {**self.environment, "VX": running.VX})
        self._running.append(person)
        return person

    def interactive(self, name: str, command: str, **fields: Any) -> None:
        """Add a task that owns the terminal."""
        self.task(name, command, **fields)
        self._tables[name] = {"interactive": True, **self._tables[name]}
        self.save_config()

    def piped(self, *words: str) -> subprocess.Popen[bytes]:
        """Start vx with its output in a small pipe, which the test reads, or not, or closes."""
        vx = running.start_piped([running.VX, *words], self.path, self.environment)
        self._piped.append(vx)
        return vx

    def stranger(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a puppet that is no task of vx."""
        process = running.start_puppet(name, *words)
        self._strangers.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs."""
        for vx in self._running:
            vx.close()
        for process in (*self._piped, *self._strangers):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    # Facts

    def lines(self, log: str) -> list[str]:
        """The lines of a log, none if it does not exist."""
        try:
            with open(os.path.join(self.logs, log), errors="replace") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def runs(self, log: str) -> int:
        """How many lines a log has."""
        return len(self.lines(log))

    def steps(self, log: str) -> list[str]:
        """The first word of each line: what a server did, in order."""
        return [line.split()[0] for line in self.lines(log) if line.strip()]

    def wait(self, fact: Callable[[], _T], what: str, seconds: float = 10.0) -> _T:
        """Wait for a fact about the workspace; a failure shows what vx printed and the logs."""
        return wait_for(fact, what, seconds, self._story)

    def wait_runs(self, log: str, count: int, seconds: float = 10.0) -> None:
        """Wait until a log has this many lines."""
        self.wait(lambda: self.runs(log) >= count, f"run {count} of {log}", seconds)
        assert self.runs(log) == count, f"{log}: {self.runs(log)} runs, not {count}"

    def wait_steps(self, log: str, word: str, count: int, seconds: float = 10.0) -> None:
        """Wait until a server did something this many times."""
        self.wait(lambda: self.steps(log).count(word) >= count, f"{word} {count} of {log}", seconds)

    def wait_open(self, port: int, seconds: float = 10.0) -> None:
        """Wait until something answers at this port of the host."""
        self.wait(lambda: is_open(port), f"port {port} is open", seconds)

    def settle(self, quiet: float = 1.0, seconds: float = 15.0) -> None:
        """Wait until no log and no output grew for `quiet` seconds."""
        limit = time.monotonic() + patience(seconds)
        before, since = self._sizes(), time.monotonic()
        while time.monotonic() - since < quiet:
            assert time.monotonic() < limit, f"never quiet for {quiet} s\n{self._story()}"
            time.sleep(0.02)
            if (now := self._sizes()) != before:
                before, since = now, time.monotonic()

    def processes(self) -> list[Seen]:
        """The live processes of vx and its tasks, boxed ones as the host sees them."""
        return descendants([process.pid for process in self._strangers])

    def server_pids(self, log: str) -> list[int]:
        """The host's pids of the live servers that write this log, boxed ones too."""
        word = f"log={os.path.join(self.logs, log)}"
        return sorted(seen.pid for seen in self.processes() if word in seen.argv)

    def dirt(self) -> list[str]:
        """The paths that git would call changed or new."""
        return [line[3:] for line in self.git("status", "--porcelain").splitlines()]

    def nothing_left(self, within: float = 3.0) -> None:
        """No process of vx's, no port and no temp file is there, at the latest after `within`."""

        def left() -> list[str]:
            return [
                *(seen.line for seen in self.processes()),
                *(f"port {port}" for port in self.ports if not is_free(port)),
                *(n for n in os.listdir(os.environ["TMPDIR"]) if n.startswith("vx")),
            ]

        limit = time.monotonic() + patience(within)
        while rest := left():
            assert time.monotonic() < limit, f"left after {within} s: {rest}\n{self._story()}"
            time.sleep(0.01)

    def _sizes(self) -> dict[str, int]:
        sizes = {}
        for entry in os.scandir(self.logs):
            with contextlib.suppress(FileNotFoundError):
                sizes[entry.name] = entry.stat().st_size
        return sizes

    def _story(self) -> str:
        outputs = [vx.output for vx in self._running]
        logs = {name: self.lines(name) for name in os.listdir(self.logs) if name[0] != "."}
        return "\n".join(["vx printed:", *outputs, f"logs: {logs}"])


def get(port: int, path: str = "/", host: str = "localhost", seconds: float = 10.0) -> str:
    """The body that a server answers with; OSError if it does not."""
    connection = http.client.HTTPConnection(host, port, timeout=patience(seconds))
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, f"{response.status} {text}"
        return text
    finally:
        connection.close()


def _environment() -> dict[str, str]:
    """Ours, less what changes how vx talks."""
    talk = ("CI", "GITHUB_ACTIONS", "FORCE_COLOR", "NO_COLOR", "COLUMNS")
    return {k: v for k, v in os.environ.items() if k not in talk and not k.startswith("VX_")}


def _toml(path: str, table: Mapping[str, object]) -> str:
    """The table and its sub-tables; JSON's strings, numbers and lists are TOML's."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    text = "".join(f"{k} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in plain.items())
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    rest = "".join(_toml(f"{path}.{key}", value) for key, value in tables.items())
    return (f"[{path}]\n{text}" if text or not rest else "") + rest
