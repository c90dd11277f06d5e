"""Which grant is told when a sandbox needs more mounts than it can start with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.errors import UserError
from vxwatch.sandbox.budget import MOST_MOUNTS, check, too_many
from vxwatch.sandbox.grants import Access, Grant, parse
from vxwatch.sandbox.policy import Kind, Mount

APP = "/w/app"


def grant(text: str, access: Access = "read") -> Grant:
    return parse(text, access, directory=APP, home="/h")


def mounts(count: int, directory: str = APP, kind: Kind = "read") -> tuple[Mount, ...]:
    return tuple(Mount(f"{directory}/{number}", kind) for number in range(count))


def refused(shown: tuple[Mount, ...], sizes: dict[Grant, int]) -> str:
    with pytest.raises(UserError) as caught:
        check(shown, sizes)
    assert caught.value.slug == "sandbox-grant"
    assert f"needs {len(shown)} mounts, more than the 200" in caught.value.message
    return f"{caught.value.message}\n{caught.value.hint}"


def test_too_many_matches_name_the_grant_and_the_directory() -> None:
    error = too_many(grant("src/**/*.ts"))
    assert "read grant 'src/**/*.ts' matches more than 200" in error.message
    assert error.hint == "grant the directory: /w/app/src/"
    assert too_many(grant("**/.env", "deny.read")).hint == "name the directory: /w/app/"


def test_as_many_as_it_can_start_with_are_taken() -> None:
    check(mounts(MOST_MOUNTS), {grant("*"): MOST_MOUNTS})


@given(st.integers(0, 5000))
def test_what_is_no_mount_of_its_own_does_not_count(count: int) -> None:
    kinds: tuple[Kind, ...] = ("link", "folder", "saved")
    for kind in kinds:
        check(mounts(count, kind=kind), {})


def test_too_many_packages_are_told_without_a_grant() -> None:
    assert "too many packages" in refused(mounts(230), {})


def test_the_heaviest_glob_is_named() -> None:
    text = refused(mounts(230), {grant("x"): 1, grant("src/*.ts"): 150, grant("*.js"): 79})
    assert "read grant 'src/*.ts' stands for 150 paths" in text
    assert text.endswith("grant a directory instead of what lies in it: /w/app/src/")


@pytest.mark.parametrize(
    ("access", "verb"),
    [("read", "grant"), ("write", "grant"), ("deny.read", "name"), ("deny.write", "name")],
)
def test_many_names_of_one_directory_are_told_as_such(access: Access, verb: str) -> None:
    sizes = {grant(f"src/{number}", access): 1 for number in range(220)}
    text = refused(mounts(230), sizes)
    assert f"220 paths of /w/app/src/ are named one by one for {access}" in text
    assert text.endswith(f"{verb} the directory: /w/app/src/")


def test_what_can_be_read_beside_a_file_is_told() -> None:
    shown = (Mount(f"{APP}/d", "desk"), *mounts(220, f"{APP}/d"))
    text = refused(shown, {grant("d"): 1, grant("d/file", "write"): 1})
    assert "beside a file that may be written, 220 names of /w/app/d/ can be read" in text
    assert "grant the directory: /w/app/d/" in text


def test_what_stays_closed_in_a_grant_is_told() -> None:
    text = refused(mounts(230, "/w", "mask"), {grant("../"): 1, grant("/w/1"): 1})
    assert "228 of them are for projects, repositories and configs in read grant '../'" in text
    assert text.endswith("grant what the task needs in /w/")
