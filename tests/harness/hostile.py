"""Runs attempts to leave a box, in the box and beside it, as whoever tests and as a normal user.

An attempt is a Python expression; its outcome is `ok`, `signal N` or the name of the error it ends
in. Each runs in a process of its own, so that one that is killed takes no other with it.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from tests.harness.boxes import Ran, Site, make_site
from vxwatch.sandbox.host import reachable

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""A Python that every user may run, in a box as well."""
USER, GROUP = 12345, 12346
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PACKAGES = next((path for path in sys.path if path.endswith("site-packages")), "")
_PROGRAM = """
import ctypes, errno, fcntl, mmap, os, signal, socket, stat, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def must(result):
    if result:
        raise OSError(ctypes.get_errno(), "")
def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)
def read(path):
    with open(path) as file:
        return file.read()
def sh(command):
    subprocess.run(command, shell=True, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
for name, attempt in ATTEMPTS.items():
    pid = os.fork()
    if not pid:
        try:
            exec(attempt)
            told = "ok"
        except OSError as error:
            told = errno.errorcode.get(error.errno, str(error))
        except subprocess.CalledProcessError:
            told = "refused"
        except AssertionError:
            told = "nothing"
        print(name, told, flush=True)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        print(name, "signal", os.WTERMSIG(status), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Attacker:
    """Somebody whose tasks try to get out: whoever runs the tests, or a normal user."""

    site: Site
    is_user: bool

    def tries(
        self, attempts: dict[str, str], project: str = "app", **sandbox: object
    ) -> dict[str, str]:
        """What becomes of the attempts in a box with these grants."""
        script = self._script(attempts)
        reads = (*sandbox.pop("read", ()), script)  # type: ignore[misc]
        ran = self.run(f"{PYTHON} -S {script}", project, read=reads, **sandbox)
        assert ran.err == "", ran
        return _outcomes(ran.out)

    def outside(self, attempts: dict[str, str], project: str = "app") -> dict[str, str]:
        """What becomes of the same without a box: the attempt is a real one."""
        argv = [PYTHON, "-S", self._script(attempts)]
        done = subprocess.run(
            argv,
            cwd=self.site.path(project),
            check=True,
            capture_output=True,
            text=True,
            **_as(self.is_user),
        )
        return _outcomes(done.stdout)

    def run(self, command: str, project: str = "app", **sandbox: object) -> Ran:
        """Run a command in a box with these grants."""
        if not self.is_user:
            return self.site.run(command, project, **sandbox)
        self.own()
        argv = [PYTHON, "-c", "from tests.harness.hostile import main; main()"]
        path = f"{_HERE}:{_PACKAGES}"
        needs = {p.name: p.dependencies for p in self.site.workspace.projects.values()}
        told = json.dumps(
            {
                "root": self.site.root,
                "needs": needs,
                "environ": {**self.site.environ, "PATH": "/usr/bin:/bin"},
                "configs": self.site.workspace.config_files,
                "parents": self.site.workspace.member_parents,
                "command": command,
                "project": project,
                "sandbox": sandbox,
            }
        )
        done = subprocess.run(
            argv,
            input=told,
            cwd="/",
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": path,
                "TMPDIR": "/tmp",
                "HOME": self.site.environ["HOME"],
            },
            capture_output=True,
            text=True,
            check=False,
            **_as(self.is_user),
        )
        assert done.returncode == 0, done.stderr
        return Ran(**json.loads(done.stdout))

    def own(self) -> None:
        """Give the user what lies in the workspace and in the home."""
        if self.is_user:
            for top in (self.site.root, self.site.environ["HOME"]):
                for directory, _, files in os.walk(top):
                    for path in (directory, *(os.path.join(directory, name) for name in files)):
                        status = os.lstat(path)
                        if status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISUID:
                            os.chown(path, USER, GROUP, follow_symlinks=False)

    def _script(self, attempts: dict[str, str]) -> str:
        place = os.path.join(os.path.dirname(self.site.root), "attempts")
        os.makedirs(place, exist_ok=True)
        script = os.path.join(place, "try.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"ATTEMPTS = {attempts!r}\n{_PROGRAM}")
        return script


def attackers() -> list[object]:
    """The parameters of a fixture: one for each kind of attacker."""
    needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as a user already")
    private = not all(reachable(path, USER, GROUP) for path in (_HERE, _PACKAGES))
    needs_way = pytest.mark.skipif(private, reason="a normal user may not enter this checkout")
    return [
        pytest.param(False, id="self"),
        pytest.param(True, id="user", marks=[needs_root, needs_way]),
    ]


def _as(user: bool) -> Any:
    return {"user": USER, "group": GROUP, "extra_groups": []} if user else {}


def _outcomes(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def main() -> None:
    """Run one command in a box as told on stdin, and tell how it ended."""
    told = json.load(sys.stdin)
    site = make_site(told["root"], tuple(name for name in told["needs"] if name != "root"))
    site.environ = told["environ"]
    site.workspace = site.workspace._replace(
        config_files=tuple(told["configs"]), member_parents=tuple(told["parents"])
    )
    grants = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told["sandbox"].items()
    }
    print(json.dumps(asdict(site.run(told["command"], told["project"], **grants))))
