"""The filter of every box."""

import pytest

from tests.harness import filters
from tests.harness.filters import ARCHES
from vxwatch.sandbox.seccomp import filter_program, supported

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = 0x50001, 0x50000 + 38, 0x50000 + 97
NUMBERS = {
    "x86_64": {"socket": 41, "socketpair": 53, "ioctl": 16, "keyctl": 250, "openat": 257},
    "aarch64": {"socket": 198, "socketpair": 199, "ioctl": 29, "keyctl": 219, "openat": 56},
}
machines = pytest.mark.parametrize("machine", sorted(ARCHES))


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter of every box does with this call."""
    return filters.verdict(filter_program(machine), machine, number, *arguments, arch=arch)


def call(machine: str, name: str, *arguments: int) -> int:
    return verdict(machine, NUMBERS[machine][name], *arguments)


@machines
@pytest.mark.parametrize(
    ("family", "result"),
    [(2, ALLOW), (10, ALLOW), (16, ALLOW), (1, EPERM), (40, EAFNOSUPPORT), (17, EAFNOSUPPORT)],
)
def test_only_harmless_socket_families(machine: str, family: int, result: int) -> None:
    assert call(machine, "socket", family, 1) == result


@machines
def test_the_high_half_of_an_argument_hides_nothing(machine: str) -> None:
    assert call(machine, "socket", 1 | 1 << 32) == EPERM
    assert call(machine, "ioctl", 0, 0x5412 | 1 << 40) == EPERM


@machines
def test_pairs_files_and_other_calls_stay(machine: str) -> None:
    assert call(machine, "socketpair", 1) == ALLOW
    assert call(machine, "openat") == ALLOW


@machines
def test_io_uring_is_not_there(machine: str) -> None:
    assert verdict(machine, 425) == ENOSYS


@machines
def test_keys_are_refused(machine: str) -> None:
    assert call(machine, "keyctl") == EPERM


@machines
@pytest.mark.parametrize("request_", [0x5412, 0x541C])
def test_typing_into_a_terminal_is_refused(machine: str, request_: int) -> None:
    assert call(machine, "ioctl", 0, request_) == EPERM


@machines
def test_other_requests_of_a_terminal_stay(machine: str) -> None:
    assert call(machine, "ioctl", 0, 0x5401) == ALLOW


@machines
def test_a_foreign_entry_point_ends_the_process(machine: str) -> None:
    assert verdict(machine, 1, arch=0x40000003) == KILL  # 32-bit x86
    assert verdict(machine, 1, arch=0x40000028) == KILL  # 32-bit arm


def test_x32_numbers_end_the_process() -> None:
    assert verdict("x86_64", 0x40000000 + 41, 1) == KILL


def test_other_machines_are_told_apart() -> None:
    assert supported("x86_64")
    assert not supported("riscv64")
