"""What the strings of a grant mean, and which are refused."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.errors import UserError
from vxwatch.sandbox.grants import Grant, Place, check_kind, check_write, literal, parse

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
        ("//etc//hosts", "/etc/hosts", "", False),
        ("//", "/", "", True),
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


@pytest.mark.parametrize("text", ["src/a/", "src/a/**", "src/a/**/*"])
def test_a_file_is_no_directory(text: str) -> None:
    for access in ("read", "write"):
        grant = parse(text, access, directory=APP, home="/h")
        check_kind(grant, Place(grant.path, grant.path, "directory"))
        check_kind(grant, Place(grant.path, grant.path, "missing"))
        with pytest.raises(UserError) as caught:
            check_kind(grant, Place(grant.path, grant.path, "file"))
        assert f"{access} grant {text!r} means a directory" in caught.value.message
        assert caught.value.hint == "name the file: 'src/a'"


@pytest.mark.parametrize("text", ["/", "/proc", "/proc/self/x", "/sys/", "/dev", "/dev/x", "/**"])
def test_what_each_box_has_of_its_own_is_not_opened(text: str) -> None:
    grant = parse(text, "write", directory=APP, home="/h")
    message = refused(text, Place(grant.path, grant.path, "missing"))
    assert f"write grant {text!r} cannot be given" in message


@pytest.mark.parametrize("path", ["/dev/shm/x", "/processes", "/devices"])
def test_what_only_begins_alike_is(path: str) -> None:
    grant = parse(path, "write", directory=APP, home="/h")
    check_write(grant, Place(path, path, "missing"), directory=APP, root="/w")


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=()), min_size=1, max_size=8
)


@given(st.lists(names, max_size=4), st.sampled_from(["", "/", "~/", "../", "./"]))
def test_any_text_is_a_path_that_its_literal_names(parts: list[str], start: str) -> None:
    text = start + "/".join(parts)
    if not text or text[0] == "~" != start[:1]:
        return
    grant = parse(text, "read", directory=APP, home="/h/u")
    base = "/h/u" if start == "~/" else APP
    plain = text.removeprefix("~/") if start == "~/" else text
    assert grant.path == posixpath.normpath(grant.path)
    assert grant.path.startswith("/")
    if not grant.directory:
        whole = posixpath.normpath(posixpath.join(base, plain))
        assert posixpath.normpath(literal(grant)) == "/" + whole.lstrip("/")
