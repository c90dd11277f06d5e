"""A fault of ours ends a session as anything else does: in order, completely, and it is told."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager, closing, nullcontext
from pathlib import Path

import pytest

from vxwatch.events import Event, TaskOutput
from vxwatch.masking import Masker
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, make_plan
from vxwatch.session.run import run
from vxwatch.session.session import Session

TRAPS = (
    "trap 'echo {0} sig >> order; sleep 0.2; echo {0} gone >> order; exit 0' TERM; "
    "echo {0} up >> order; echo READY; while :; do sleep 0.05; done"
)


class BoomError(Exception):
    pass


class Faulty:
    """A renderer with a fault."""

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, TaskOutput) and b"boom" in event.data:
            raise BoomError

    def quiet(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def drained(self) -> None:
        pass


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tables = ""
    for name, command, after in (
        ("a", TRAPS.format("a"), []),
        ("b", TRAPS.format("b"), ["a"]),
        ("c", TRAPS.format("c"), ["b"]),
        ("t", TRAPS.format("t"), ["c"]),
        ("faulty-server", "echo READY; sleep 0.3; echo boom; sleep 300", []),
        ("faulty-task", "sleep 0.3; echo boom; sleep 300", []),
        ("faulty-start", "echo boom; sleep 300", []),
    ):
        tables += f'[tasks.{name}]\ncommand = """{command}"""\ndepends_on = {after}\n'
        if name not in ("t", "faulty-task"):
            tables += f'[tasks.{name}.persistent]\nready_when = "READY"\n'
    (tmp_path / "vx.toml").write_text(tables)
    return tmp_path


@pytest.mark.parametrize("name", ["faulty-server", "faulty-task", "faulty-start"])
def test_servers_and_tasks_end_in_order_when_a_fault_ends_the_session(
    place: Path, name: str
) -> None:
    async def scenario() -> None:
        options = Options("run", ("t", name), str(place), concurrency=8)
        plan = make_plan(options)
        with closing(Knowledge(plan, options, os.environ)) as known:
            session = Session(plan, options, Faulty(), os.environ, Masker(), known)
            async with session:
                await session.until_stopped(run(session))

    with pytest.raises((BoomError, ExceptionGroup)) as caught:
        asyncio.run(asyncio.wait_for(scenario(), 30))
    assert _leaves(caught.value) == {BoomError}
    told = (place / "order").read_text().splitlines()
    ends = [line for line in told if not line.endswith("up")]
    up = [line.split()[0] for line in told if line.endswith("up")]
    assert ends == [f"{one} {what}" for one in reversed(up) for what in ("sig", "gone")]
    assert name == "faulty-start" or up == ["a", "b", "c", "t"]


def _leaves(fault: BaseException) -> set[type[BaseException]]:
    if isinstance(fault, BaseExceptionGroup):
        return {kind for one in fault.exceptions for kind in _leaves(one)}
    return {type(fault)}
