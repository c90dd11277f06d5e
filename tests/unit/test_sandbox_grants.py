"""What the strings of a grant mean, and which are refused."""

import pytest

from vxwatch.errors import UserError
from vxwatch.sandbox.grants import Grant, Place, check_write, literal, parse

APP = "/w/app"


@pytest.mark.parametrize(
    ("text", "path", "pattern", "directory"),
    [
        ("src", "/w/app/src", "", False),
        ("src/", "/w/app/src", "", True),
        (".", "/w/app", "", True),
        ("..", "/w", "", True),
        ("../ui/dist", "/w/ui/dist", "", False),
        ("/etc/hosts", "/etc/hosts", "", False),
        ("/", "/", "", True),
        ("~", "/h/u", "", False),
        ("~/.cache/x/", "/h/u/.cache/x", "", True),
        ("~other", "/w/app/~other", "", False),
        ("src/**", "/w/app/src", "", True),
        ("src/**/*", "/w/app/src", "", True),
        ("**", "/w/app", "", True),
        ("/**", "/", "", True),
        ("*.json", "/w/app", "*.json", False),
        ("src/**/*.ts", "/w/app/src", "**/*.ts", False),
        ("a/*/b/", "/w/app/a", "*/b", False),
        ("pages/[id].tsx", "/w/app/pages", "[id].tsx", False),
        ("~/.cache/x-*", "/h/u/.cache", "x-*", False),
    ],
)
def test_meaning(text: str, path: str, pattern: str, directory: bool) -> None:
    assert parse(text, "read", directory=APP, home="/h/u") == Grant(
        text, "read", path, pattern, directory
    )


def test_wildcards_may_be_part_of_a_name() -> None:
    grant = parse("pages/[id].tsx", "read", directory=APP, home="/h")
    assert literal(grant) == "/w/app/pages/[id].tsx"


def refused(text: str, place: Place) -> str:
    grant = parse(text, "write", directory=APP, home="/h/u")
    with pytest.raises(UserError) as caught:
        check_write(grant, place, directory=APP, root="/w")
    assert caught.value.slug == "sandbox-grant"
    return f"{caught.value.message}\n{caught.value.hint}"


def test_a_write_grant_that_leaves_the_project_is_refused_with_the_link() -> None:
    place = Place("/w/app/a/b", "/etc/b", "missing", (("/w/app/a", "/etc"),))
    text = refused("a/b", place)
    assert "write grant 'a/b' leaves the project: a is a link to /etc" in text
    assert "/etc/b" in text


def test_a_write_grant_that_leaves_the_workspace_is_refused() -> None:
    place = Place("/w/ui/o", "/elsewhere", "directory", (("/w/ui/o", "/elsewhere"),))
    assert "leaves the workspace: ui/o is a link to /elsewhere" in refused("../ui/o", place)


def test_into_another_project_is_leaving_too() -> None:
    place = Place("/w/app/o", "/w/ui/o", "directory", (("/w/app/o", "../ui/o"),))
    assert "leaves the project" in refused("o", place)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("dist/", Place("/w/app/dist", "/w/app/dist", "missing")),
        ("o", Place("/w/app/o", "/w/app/p", "directory", (("/w/app/o", "p"),))),
        ("../ui/o", Place("/w/ui/o", "/w/ui/o", "directory")),
        ("/var/x", Place("/var/x", "/data/x", "directory", (("/var/x", "/data/x"),))),
    ],
)
def test_other_write_grants_are_taken(text: str, place: Place) -> None:
    grant = parse(text, "write", directory=APP, home="/h/u")
    check_write(grant, place, directory=APP, root="/w")
