"""A signal while vx still loads its modules ends it as the documentation says, without a stack."""

import signal
import subprocess
import sys

import pytest

from tests.harness.waiting import patience
from tests.harness.workspace import Workspace

_MAIN = """
import os, sys
from vxwatch.cli import main

module, number, *words = sys.argv[1:]

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signalling())
sys.argv = ["vx", *words]
main()
"""


_MODULES = ("vxwatch.cli.sessions", "vxwatch.process.ahead", "asyncio", "vxwatch.session.session")
_DEFAULT_SIGNALS = ("env", "--default-signal=INT,TERM,HUP")


def _signalled(ws: Workspace, module: str, number: int, *words: str) -> tuple[int, str]:
    """The exit code and the output of a vx that gets the signal when it imports the module."""
    done = subprocess.run(
        [*_DEFAULT_SIGNALS, sys.executable, "-c", _MAIN, module, str(number), *words],
        cwd=ws.path,
        env=ws.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("module", "options"),
    [("click", ["--concurrency=1"]), *((m, []) for m in _MODULES)],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("verb", ["run", "watch"])
def test_a_signal_while_modules_load(
    ws: Workspace, verb: str, number: int, module: str, options: list[str]
) -> None:
    ws.task("work", "true")
    code = 0 if verb == "watch" else 128 + number
    assert _signalled(ws, module, number, verb, "work", *options) == (code, "")
    ws.nothing_left()


@pytest.mark.parametrize("module", ["click", "vxwatch.cli.reading", "vxwatch.config.load"])
def test_ctrl_c_while_a_command_that_reads_loads(ws: Workspace, module: str) -> None:
    ws.task("work", "true")
    assert _signalled(ws, module, signal.SIGINT, "show") == (130, "")


def test_a_signal_that_is_ignored_from_the_start_stays_ignored(ws: Workspace) -> None:
    ws.task("work", "echo worked")
    done = subprocess.run(
        ["env", "--ignore-signal=HUP", sys.executable, "-c", _MAIN, "asyncio", "1", "run", "work"],
        cwd=ws.path,
        env=ws.environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "worked" in done.stdout


@pytest.mark.parametrize(("verb", "code"), [("run", 143), ("watch", 0)])
def test_a_signal_whose_exception_is_lost_still_ends_the_session(
    ws: Workspace, verb: str, code: int
) -> None:
    ws.write("vx.toml", "[tasks.t]\ncommand = 'sleep 300'\ncache = { inputs = [], outputs = [] }\n")
    lost = (
        "import contextlib, os, signal, sys\n"
        "from vxwatch.session import knowledge\n"
        "def init(self, *given, real=knowledge.Knowledge.__init__):\n"
        "    with contextlib.suppress(BaseException):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    real(self, *given)\n"
        "knowledge.Knowledge.__init__ = init\n"
        f"sys.argv = ['vx', '{verb}', 't']\n"
        "from vxwatch.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", lost],
        cwd=ws.path,
        env=ws.environment,
        capture_output=True,
        timeout=patience(20),
        check=False,
    )
    assert done.returncode == code, done.stderr
    ws.nothing_left()
