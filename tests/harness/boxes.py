"""Runs one command in a real box of a workspace made for a test."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from vxwatch.errors import UserError
from vxwatch.model import Project, Sandbox, Task, Workspace
from vxwatch.process.nursery import Nursery
from vxwatch.process.tree import Tree
from vxwatch.sandbox.runtime import SandboxRuntime
from vxwatch.sandbox.trace import Report


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command in a box ended, and what it wrote."""

    code: int
    out: str
    err: str
    started: bool


@dataclass(slots=True)
class Site:
    """A workspace on disk with a root project and members, and what its boxes are started with."""

    root: str
    workspace: Workspace
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, path: str, text: str = "") -> str:
        """Make a file of the workspace, with its directories; returns its absolute path."""
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)
        return whole

    def path(self, path: str) -> str:
        """The absolute path of a path of the workspace."""
        return os.path.join(self.root, path)

    async def report(
        self,
        command: str,
        sandbox: Sandbox,
        meanwhile: Callable[[Nursery, Tree], None] = lambda _nursery, _tree: None,
    ) -> tuple[int, Report]:
        """How a command in a box of `app` ended, and what it was told to be denied."""
        task = Task("app", "t", command=command, sandbox=sandbox)
        async with self.session() as (nursery, runtime):
            box = await runtime.box(task, command, self.environ, "null")
            try:
                tree = await nursery.launch(box.launch, lambda _stream, _data: None)
                await box.open(tree)
                meanwhile(nursery, tree)
                code = (await tree.wait()).code
                report = await box.report(code)
                await tree.stop(signal.SIGKILL, 0, asyncio.Event())
                return code, report
            finally:
                await box.close()

    def run(self, command: str, project: str = "app", /, **sandbox: Any) -> Ran:
        """Run the command in a box of the project with these grants; wait for its end."""
        return asyncio.run(self._run(command, project, Sandbox(**sandbox)))

    async def _run(self, command: str, project: str, sandbox: Sandbox) -> Ran:
        async with self.boxed(command, project, sandbox) as live:
            return await live.end()

    @asynccontextmanager
    async def session(self, *, asked: bool = True) -> AsyncIterator[tuple[Nursery, SandboxRuntime]]:
        """A nursery with a sandbox runtime, which was `asked` whether there can be boxes."""
        async with (
            Nursery.open() as nursery,
            SandboxRuntime(nursery, self.workspace, self.environ) as runtime,
        ):
            if asked:
                await runtime.ensure()
            yield nursery, runtime

    @asynccontextmanager
    async def boxed(
        self, command: str, project: str = "app", sandbox: Sandbox | None = None
    ) -> AsyncIterator["Live"]:
        """A box whose command runs while the block does."""
        async with self.session() as (nursery, runtime):
            task = Task(project, "t", command=command, sandbox=sandbox or Sandbox())
            async with live(nursery, runtime, task, self.environ) as alive:
                yield alive


@dataclass(slots=True)
class Live:
    """A command that runs in a box."""

    tree: Tree
    said: dict[str, bytearray]
    heard: asyncio.Event

    async def end(self) -> Ran:
        """Wait until it has ended by itself."""
        end = await self.tree.wait()
        return Ran(end.code, self.text("stdout"), self.text("stderr"), end.started)

    async def stop(self, sig: int = signal.SIGTERM, grace: float = 20.0) -> Ran:
        """Stop it politely."""
        await self.tree.stop(sig, grace, asyncio.Event())
        return await self.end()

    async def says(self, text: str) -> None:
        """Wait until it has written this on stdout."""
        async with asyncio.timeout(30):
            while text not in self.text("stdout"):
                self.heard.clear()
                await self.heard.wait()

    def text(self, stream: str) -> str:
        """What it has written so far."""
        return self.said[stream].decode(errors="replace")


@asynccontextmanager
async def live(
    nursery: Nursery, runtime: SandboxRuntime, task: Task, environ: Mapping[str, str]
) -> AsyncIterator[Live]:
    """The task's command in its box; when the block is left it is dead and taken back."""
    assert task.command is not None
    said = {"stdout": bytearray(), "stderr": bytearray()}
    heard = asyncio.Event()

    async def on_output(stream: Literal["stdout", "stderr"], data: bytes) -> None:
        said[stream] += data
        heard.set()

    box = await runtime.box(task, task.command, environ, "null")
    try:
        tree = await nursery.launch(box.launch, on_output)
        try:
            await box.open(tree)
            yield Live(tree, said, heard)
        finally:
            await tree.stop(signal.SIGKILL, 0, asyncio.Event())
    finally:
        await box.close()


def make_site(
    root: str, members: tuple[str, ...] = ("app", "ui"), **needs: tuple[str, ...]
) -> Site:
    """A workspace with these member directories; `needs` maps a member to what it depends on."""
    root = os.path.realpath(root)
    for member in members:
        os.makedirs(os.path.join(root, member), exist_ok=True)
    projects = {name: Project(name, name, (), None, needs.get(name, ()), {}) for name in members}
    projects["root"] = Project("root", "", (), None, (), {})
    workspace = Workspace(root, projects, "root", ())
    home = os.path.join(root, "..", "home")
    os.makedirs(home, exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": os.path.realpath(home), "LANG": "C.UTF-8"}
    return Site(root, workspace, environ)


def with_config(site: Site, *files: str) -> None:
    """Let the workspace have been read from these files."""
    site.workspace = site.workspace._replace(config_files=files)


def refused(site: Site, **grants: tuple[str, ...]) -> UserError:
    """The refusal of a task with these grants."""
    with pytest.raises(UserError) as caught:
        site.run("true", **grants)
    assert caught.value.slug == "sandbox-grant"
    return caught.value
