"""vx's own programs are found on PATH, never inside the workspace; ports have holders."""

import os
import socket
from collections.abc import Callable

import pytest

from vxwatch.process.ports import holder
from vxwatch.process.programs import resolve


@pytest.fixture
def place(tmp_path: object) -> str:
    place = os.path.realpath(str(tmp_path))
    for path in ("ws/node_modules/.bin", "one", "two"):
        os.makedirs(f"{place}/{path}")
    return place


def program(path: str, mode: int = 0o755) -> str:
    with open(path, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(path, mode)
    return path


def test_the_first_that_can_be_run_is_found(place: str) -> None:
    os.mkdir(f"{place}/one/tool")
    program(f"{place}/two/tool")
    path = f"{place}/none:{place}/one:{place}/two"
    assert resolve("tool", path, f"{place}/ws") == f"{place}/two/tool"
    os.rmdir(f"{place}/one/tool")
    program(f"{place}/one/tool", 0o644)
    assert resolve("tool", path, f"{place}/ws") == f"{place}/two/tool"
    os.chmod(f"{place}/one/tool", 0o755)
    assert resolve("tool", path, f"{place}/ws") == f"{place}/one/tool"


def test_what_lies_in_the_workspace_is_passed_over(place: str) -> None:
    inside = program(f"{place}/ws/node_modules/.bin/tool")
    assert resolve("tool", os.path.dirname(inside), f"{place}/ws") is None
    os.symlink(os.path.dirname(inside), f"{place}/link")
    assert resolve("tool", f"{place}/link", f"{place}/ws") is None
    os.symlink(inside, f"{place}/one/tool")
    assert resolve("tool", f"{place}/one", f"{place}/ws") is None
    os.symlink(f"{place}/two", f"{place}/ws/out")
    program(f"{place}/two/tool")
    assert resolve("tool", f"{place}/ws/out", f"{place}/ws") is None
    assert resolve("tool", f"{place}/two", f"{place}/ws") == f"{place}/two/tool"
    assert resolve("tool", f"{place}/two", f"{place}/w") == f"{place}/two/tool"


def test_relative_entries_are_passed_over(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program(f"{place}/one/tool")
    monkeypatch.chdir(f"{place}/one")
    for path in (".", "", ":", "../one", "./"):
        assert resolve("tool", path, f"{place}/ws") is None


def test_the_holder_of_a_port_is_named(free_port: Callable[[], int]) -> None:
    port = free_port()
    assert holder(port) is None
    with socket.create_server(("127.0.0.1", port)), open("/proc/self/comm") as file:
        assert holder(port) == (os.getpid(), file.read().strip())
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        assert holder(port) is not None
