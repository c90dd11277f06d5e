"""The network of one box: its proxy, a process of its own, and what that has refused.

The listeners lie in the network of the box, the process in that of the host. It knows the rules
of one task alone, has nothing else of vx's, and ends with the box.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from vxwatch.errors import UserError
from vxwatch.hosts import EVERY_HOST, NO_HOST, Refusal, patterns
from vxwatch.process.nursery import Launch
from vxwatch.process.tree import LaunchError

if TYPE_CHECKING:
    from vxwatch.model import Sandbox, Task
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.tree import Tree
    from vxwatch.sandbox.trace import Report

Tell = Callable[[Refusal], None]

_RULES_FD = 3
_LAST_WORDS = 4096  # bytes
_DOOR_FD = 4
# asyncio does without ssl, and loads it if it can, which takes a third of the start.
_START = """import sys; sys.path += sys.argv[1:]; sys.modules["ssl"] = None
from vxwatch.sandbox.proxy_main import main; main(3, 4)"""


class Proxy:
    """The proxy of one box: `begin` it while the box is made. `close` must be awaited at the end.

    `tell` is called with each refusal when it comes about.
    """

    def __init__(
        self, nursery: "Nursery", sandbox: "Sandbox", port: int, tell: "Tell | None"
    ) -> None:
        self.port = port
        self._tell = tell
        self._refused: list[Refusal] = []
        self._nursery = nursery
        self._sandbox = sandbox
        self._tree: Tree | None = None
        self._door, self._its_door = socket.socketpair()
        self._said = b""
        self._complaint = b""

    async def begin(self) -> None:
        """Start it, without a listener yet. Raises `UserError`."""
        with ExitStack() as given:
            rules = os.memfd_create("vx-rules")
            given.callback(os.close, rules)
            os.write(
                rules, json.dumps((self._sandbox.network, self._sandbox.deny_network)).encode()
            )
            os.lseek(rules, 0, os.SEEK_SET)
            given.callback(self._its_door.close)
            launch = Launch(
                argv=(sys.executable, "-I", "-S", "-c", _START, *import_paths()),
                cwd="/",
                env={},
                fds={_RULES_FD: rules, _DOOR_FD: self._its_door.fileno()},
            )
            try:
                self._tree = await self._nursery.launch(launch, self._hear)
            except LaunchError as error:
                raise UserError(
                    "sandbox-network", f"the sandbox's network cannot be opened: {error.message}"
                ) from None

    async def open(self, init: int) -> None:
        """Listen in the box whose first process this is. Raises `OSError`.

        Who connects before the program serves waits for it.
        """
        with ExitStack() as given:
            listeners = await self._nursery.listen_in(init, self.port)
            for listener in listeners:
                given.callback(listener.close)
            with contextlib.suppress(ConnectionError):  # it fell, which `finish` tells
                socket.send_fds(self._door, [b"."], [one.fileno() for one in listeners])

    async def finish(self) -> tuple[Refusal, ...]:
        """End it; what it has refused until now. Raises `UserError` if it had ended by itself."""
        fell = self._tree is not None and self._tree.gone.done()
        await self.close()
        if fell:
            *_, last = ("it was killed", *self._complaint.decode(errors="replace").splitlines())
            raise UserError("sandbox-network", f"the sandbox's network has failed: {last}")
        return tuple(self._refused)

    async def close(self) -> None:
        """End it."""
        self._door.close()
        self._its_door.close()
        if self._tree is not None:
            await self._tree.stop(signal.SIGKILL, 0, asyncio.Event())

    async def _hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stderr":
            self._complaint = (self._complaint + data)[-_LAST_WORDS:]
            return
        *lines, self._said = (self._said + data).split(b"\n")
        for host, port, why, grants in map(json.loads, lines):
            refusal = Refusal(host, port, why, tuple(grants))
            self._refused.append(refusal)
            if self._tell is not None:
                self._tell(refusal)


def with_refusals(report: "Report", refusals: Iterable[Refusal], task: "Task") -> "Report":
    """The report of a task, with the connections that its proxy has refused."""
    from vxwatch.sandbox.advice import key, toml  # noqa: PLC0415 - most tasks have none

    assert task.sandbox is not None
    ignored = patterns(task.sandbox.ignore_network)
    told = [one for one in refusals if not any(p.matches(one.host, one.port) for p in ignored)]
    said = tuple(f"connected to {one.target}, {one.why}" for one in told)
    grants = dict.fromkeys(grant for one in told for grant in one.grants)
    hints = list(report.remedies)
    network = f"tasks.{key(task.name)}.sandbox.allow.network"
    if grants and EVERY_HOST in task.sandbox.network:
        hints.append(f"true grants no such address; name every host: {network} = {toml(grants)}")
    elif grants:
        complete = dict.fromkeys((*task.sandbox.network, *grants))
        complete.pop(NO_HOST, None)
        hints.append(f"allow it: {network} = {toml(complete)}")
    if any(not one.grants for one in told):
        hints.append(f"change tasks.{key(task.name)}.sandbox.deny.network to allow it")
    return replace(report, findings=(*report.findings, *said), remedies=tuple(hints))


def import_paths() -> tuple[str, ...]:
    """Where a program of ours finds vx and the library that it reads HTTP with."""
    spec = importlib.util.find_spec("h11")
    assert spec is not None
    assert spec.origin is not None
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return here, os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))
