"""Finds out whether this host can hold a sandbox, by making one.

One sandboxed `true` through the very argv that tasks get. Only when that fails, smaller boxes are
tried to tell the cause. Changes nothing on the host.
"""

import asyncio
import os
import platform
from collections.abc import Mapping
from typing import Literal

from vxwatch.errors import UserError
from vxwatch.model import Project, Sandbox, Task, Workspace
from vxwatch.process.command import capture
from vxwatch.process.nursery import Nursery
from vxwatch.process.programs import resolve
from vxwatch.process.tree import LaunchError
from vxwatch.sandbox.boxes import BoxMaker
from vxwatch.sandbox.bwrap import Programs
from vxwatch.sandbox.diagnosis import SETTINGS, Trial, Verdict, diagnose, missing
from vxwatch.sandbox.host import holds_the_system
from vxwatch.sandbox.seccomp import supported
from vxwatch.sandbox.supervision import may_supervise

_NEEDED = ("bwrap", "sh")
_SMALL = ("--unshare-user", "--ro-bind", "/", "/")
_WITH_PROC = (*_SMALL, "--unshare-pid", "--proc", "/proc")
_CONTAINER_SIGNS = ("/.dockerenv", "/run/.containerenv")


def find_programs(environ: Mapping[str, str], root: str) -> Programs | Verdict:
    """What a box is started with, or the verdict that names what is missing."""
    path = environ.get("PATH", os.defpath)
    found = {name: resolve(name, path, root) for name in _NEEDED}
    absent = [name for name, program in found.items() if program is None]
    if absent:
        return missing(absent, _systems())
    return Programs(**{name: program or "" for name, program in found.items()})


async def examine(environ: Mapping[str, str], root: str) -> Verdict:
    """The verdict about this host for a person who asks, outside of any session."""
    try:
        async with Nursery.open() as nursery:
            return await probe(nursery, environ, root)
    except UserError as error:
        return Verdict(False, error.message, error.hint)


async def probe(nursery: Nursery, environ: Mapping[str, str], root: str) -> Verdict:
    """The verdict about this host for the workspace at this absolute path."""
    if holds_the_system(root):
        reason = f"the workspace at {root} holds the system itself"
        return Verdict(False, reason, "move it to a directory of its own")
    programs = find_programs(environ, root)
    if isinstance(programs, Verdict):
        return programs
    machine = platform.machine()
    if not supported(machine):
        return Verdict(
            False, f"vx has no system call filter for {machine}", "use x86-64 or aarch64"
        )
    maker = BoxMaker(nursery, _workspace(root), environ, programs)
    maker.tracing.supervises = may_supervise(programs.bwrap)
    if maker.tracing.supervises and await _try_true(nursery, maker, environ) is None:
        return Verdict(True, supervises=True)
    maker.tracing.supervises = False
    message = await _try_true(nursery, maker, environ)
    if message is None:
        return Verdict(True)
    weaker = await _try_true(nursery, maker, environ, own_proc=False) is None
    return await asyncio.to_thread(_explain, programs.bwrap, message, environ, weaker=weaker)


async def _try_true(
    nursery: Nursery, maker: BoxMaker, environ: Mapping[str, str], *, own_proc: bool = True
) -> str | None:
    """Run `true` in a box with no grants: None if that works, else the last words about it."""
    said: list[bytes] = []

    async def listen(_: Literal["stdout", "stderr"], data: bytes) -> None:
        said.append(data)

    task = Task("", "true", command="true", sandbox=Sandbox())
    environment = {"PATH": environ.get("PATH", os.defpath)}
    box = await maker.make(task, "true", environment, "null", own_proc=own_proc)
    try:
        tree = await nursery.launch(box.launch, listen)
        await box.open(tree)
        end = await tree.wait()
        report = await box.report(end.code)
    except LaunchError as error:
        return error.message
    finally:
        await box.close()
    if end.code == 0 and end.started:
        return "nothing was told of it" if report.lost else None
    lines = b"".join(said).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit {end.code} without a word"


def _workspace(root: str) -> Workspace:
    project = Project("", "", (), None, (), {})
    return Workspace(root, {"": project}, "", ())


def _explain(bwrap: str, message: str, environ: Mapping[str, str], *, weaker: bool) -> Verdict:
    def works(*options: str) -> bool:
        return capture((bwrap, *options, "true"), cwd="/", env=environ).code == 0

    return diagnose(
        Trial(
            message=message,
            user_namespace=works(*_SMALL),
            own_proc=works(*_WITH_PROC),
            settings={name: _setting(name) for name in SETTINGS},
            in_container="container" in environ or any(map(os.path.exists, _CONTAINER_SIGNS)),
            as_root=os.geteuid() == 0,
            weaker=weaker,
            filtered=_filtered(),
            chrooted=_chrooted(),
        )
    )


def _filtered() -> bool:
    """Whether somebody put this very process behind a system call filter."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        return any(line.split() == ["Seccomp:", "2"] for line in status)


def _chrooted() -> bool:
    """Whether nothing is mounted at what this process sees as the root."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            return not any(line.split()[4] == "/" for line in mounts)
    except OSError:
        return False


def _setting(name: str) -> str:
    try:
        with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _systems() -> list[str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
