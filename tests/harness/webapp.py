"""The example web application, copied fresh and given free ports, under the installed vx.

The copy is a git repository of its own. Its node_modules are hard links of what npm installed
once; nothing in a sandbox can write to those.
"""

import filecmp
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.harness import processes
from tests.harness.ports import is_open
from tests.harness.running import Background
from tests.harness.waiting import wait_for
from tests.harness.workspace import Workspace

SOURCE = os.path.realpath(os.path.join(__file__, "../../../fixtures/webapp"))
API, WEB, UI = "services/api/greeting.py", "apps/web/src/title.ts", "packages/ui/src/index.ts"
_OFFLINE = re.compile(r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH)\b")
_UNINSTALLED = shutil.ignore_patterns("node_modules", "dist", "__pycache__")


@dataclass(frozen=True, slots=True)
class Pids:
    """The host's pids of the two servers."""

    web: int
    api: int


class WebApp(Workspace):
    """A copy of the application; its site is on host port `web`, its API on host port `api`."""

    def __init__(
        self, path: str, logs: str, node_modules: str, take_port: Callable[[], int]
    ) -> None:
        super().__init__(path, logs, take_port)
        self.web, self.api = take_port(), take_port()
        self._others = processes.children_now()
        shutil.copytree(SOURCE, path, ignore=_UNINSTALLED, dirs_exist_ok=True)
        shutil.copytree(
            node_modules, self.file("node_modules"), symlinks=True, copy_function=_link_or_copy
        )
        self._use_ports()
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "start")

    def _use_ports(self) -> None:
        # The site keeps its own port inside its box; the API has one number everywhere.
        host_port = f"{{ port = 5173, host = {self.web} }}"
        self._substitute("apps/web/vx.toml", r"(local_binding *= )\[5173\]", rf"\1[{host_port}]")
        for path in ("apps/web/vx.toml", "apps/web/vite.config.ts", "services/api/vx.toml"):
            self._substitute(path, r"\b8787\b", str(self.api))

    def _substitute(self, path: str, pattern: str, replacement: str) -> None:
        text, count = re.subn(pattern, replacement, self.read(path))
        assert count, f"{path} has no {pattern}"
        self.replace(path, text)

    def edit(self, path: str, pattern: str, replacement: str) -> None:
        """Change what the pattern matches in a file, as an editor saves it."""
        self._substitute(path, pattern, replacement)

    def up(self, *tasks: str) -> Background:
        """Start `vx watch` on both servers, and more tasks; wait until both are ready."""
        vx = self.start("watch", "dev", *tasks, "--all")
        vx.wait_says(r"^cycle 1: |^vx: ", 60)
        assert vx.says(r"web#dev ready"), vx.output
        assert vx.says(r"api#dev ready"), vx.output
        return vx

    def pids(self) -> Pids:
        """The processes that serve now; fails unless there is exactly one of each."""
        seen = processes.descendants(self._others)
        web = [p.pid for p in seen if p.argv[1:2] and p.argv[1].endswith("/.bin/vite")]
        api = [p.pid for p in seen if p.argv[1:] == ("server.py",)]
        assert len(web) == len(api) == 1, [p.line for p in seen]
        return Pids(web[0], api[0])

    def wait_gone(self, within: float = 3.0) -> None:
        """Everything vx started is gone in time: processes, ports, sockets and temp files."""
        wait_for(lambda: not self._left(), "nothing is left", within, self._what_is_left)

    def _left(self) -> list[str]:
        temporary = os.environ["TMPDIR"]
        return [
            *(seen.line for seen in processes.descendants(self._others)),
            *(f"port {port}" for port in (self.web, self.api) if is_open(port)),
            *(os.path.join(temporary, n) for n in os.listdir(temporary) if n.startswith("vx")),
        ]

    def _what_is_left(self) -> str:
        return "\n".join([*self._left(), self._story()])


def node_modules(spare: str) -> str:
    """What `npm ci` installs: in the checkout if that is current, else in the directory `spare`.

    Skips the test only when nothing is installed and the npm registry cannot be reached.
    """
    lock = os.path.join(SOURCE, "package-lock.json")
    stamp = os.path.join(SOURCE, "node_modules", ".installed-lock")
    if os.path.exists(stamp) and filecmp.cmp(lock, stamp, shallow=False):
        return os.path.dirname(stamp)
    shutil.copytree(SOURCE, spare, ignore=_UNINSTALLED, dirs_exist_ok=True)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=spare,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode and _OFFLINE.search(done.stderr):
        pytest.skip("the npm registry cannot be reached, and nothing is installed")
    assert done.returncode == 0, done.stderr
    return os.path.join(spare, "node_modules")


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or another owner's file
        shutil.copy2(source, target)
