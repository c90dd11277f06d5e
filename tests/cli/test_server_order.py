"""Servers that depend on servers: who starts and who stops first, and what a config edit ends."""

import os
import signal

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def chain(ws: Workspace) -> Workspace:
    """front needs back; both write into one log."""
    log = "both"
    ws.server("back", ws.serve(log, ws.port(), slow_start=0.2), ready_port=ws.ports[0])
    ws.server(
        "front", ws.serve("front", ws.port(), cleanup=0.5), ready_port=ws.ports[1], after=["back"]
    )
    return ws


def _time(ws: Workspace, log: str) -> float:
    return os.stat(os.path.join(ws.logs, log)).st_mtime


def test_a_server_is_gone_before_the_one_it_needs_hears_of_the_end(chain: Workspace) -> None:
    vx = chain.watch("front")
    chain.wait_open(chain.ports[1])
    assert vx.stop() == 0
    assert chain.steps("front")[-1] == "clean"
    assert chain.steps("both")[-1] == "clean"
    # The clock of files is coarse, and the other's signal follows at once.
    assert _time(chain, "front") <= _time(chain, "both")
    chain.nothing_left()


def test_a_config_without_the_needed_server_ends_it_and_keeps_the_other(chain: Workspace) -> None:
    config = chain.read("vx.toml").replace("restart_on_dependencies = true", "")
    chain.replace("vx.toml", config)
    vx = chain.watch("front")
    vx.wait_says("^cycle 1:")
    table = config[config.index("[tasks.front]") :].replace('depends_on = ["back"]', "")
    assert "depends_on" not in table
    chain.replace("vx.toml", table)
    chain.wait_steps("both", "clean", 1)
    vx.wait_says(r"cycle 2:")
    assert chain.steps("front") == ["start", "listen"]
    assert vx.stop() == 0
    chain.nothing_left()


def test_a_run_keeps_the_servers_that_the_requested_one_needs(chain: Workspace) -> None:
    chain.task("use", 'echo run >> "$LOGS/use"', after=["back"])
    vx = chain.start("run", "front", "use")
    chain.wait_open(chain.ports[1])
    chain.wait_runs("use", 1)
    vx.wait_says(r"front ready")
    assert "clean" not in chain.steps("both")
    assert vx.stop() == 130
    chain.nothing_left()


def test_a_watch_whose_helper_is_killed_ends_everything_and_says_so(chain: Workspace) -> None:
    vx = chain.watch("front")
    vx.wait_says("^cycle 1:")
    nursery = next(seen.pid for seen in chain.processes() if "nursery_main" in seen.line)
    os.kill(nursery, signal.SIGKILL)
    assert vx.ended() == 70
    assert "was killed" in vx.output
    assert "ended by itself" not in vx.output
    assert "Traceback" not in vx.output
    chain.nothing_left()
