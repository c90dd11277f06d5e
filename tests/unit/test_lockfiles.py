"""A lockfile concerns a project as far as what the project depends on is pinned in it.

The lockfiles were written by the package managers themselves, for a root that needs is-odd 3, and
a -> b and once -> wrappy; b -> inflight -> once, and is-odd 0 -> is-number 3 -> kind-of -> is-buffer;
c -> left-pad in two versions. That of uv: top -> six; x -> y and click; y -> idna, iniconfig.
"""

import os
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.workspace.lockfiles import Lock, read_lock

HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "lockfiles")
MANIFESTS: dict[str, dict[str, Any]] = {
    "": {"devDependencies": {"is-odd": "3.0.1"}},
    "packages/a": {"dependencies": {"b": "1.0.0", "once": "1.4.0"}},
    "packages/b": {"dependencies": {"inflight": "1.0.6"}, "devDependencies": {"is-odd": "0.1.2"}},
    "packages/c": {"dependencies": {"left-pad": "1.3.0", "lp-old": "npm:left-pad@1.1.0"}},
    "packages/x": {},
    "packages/y": {},
}
NPM = ["npm-package-lock.json", "pnpm-8-pnpm-lock.yaml", "pnpm-9-pnpm-lock.yaml"]
YARN = ["yarn-1-yarn.lock", "yarn-4-yarn.lock"]
# What a needs by way of b: with yarn 1 that is known of the workspace, not of its lockfile.
NEEDS = {"packages/a": ["packages/a", "packages/b"], "packages/x": ["packages/x", "packages/y"]}


def text(file: str) -> str:
    with open(os.path.join(HERE, file), encoding="utf-8") as stream:
        return stream.read()


def read(file: str, content: str) -> Lock:
    name = "-".join(
        part
        for part in file.split("-")
        if part not in ("npm", "pnpm", "yarn", "uv") and not part.isdigit()
    )
    name = {"lock.yaml": "pnpm-lock.yaml"}.get(name, name)
    return read_lock(name, content, MANIFESTS.__getitem__, MANIFESTS)


def moved(file: str, before: str, after: str) -> list[str]:
    """The projects whose part differs once this is changed wherever it stands."""
    content = text(file)
    assert before in content
    old, new = read(file, content), read(file, content.replace(before, after))
    places = {place: NEEDS.get(place, [place]) for place in MANIFESTS}
    found = [p for p, needs in places.items() if old.part(needs) != new.part(needs)]
    return [place.rpartition("/")[2] for place in found]


HASHES = {
    "left-pad 1.3.0": ("XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQGinBN9yTQT3bFlCBy", ["c"]),
    "left-pad 1.1.0": (
        "C8cw/7VpfXLj8Yjlmux8lqb3mfIe3vEXTdik/cXTuzZ8FXJnu45UAWp94XlWWmcW7Yxl74wvHw8w10wIHNGHRQ",
        ["c"],
    ),
    "inflight": ("k92I/b08q4wvFscXCLvqfsHCrjrF7yiXsQuIVvVE7N82W3", ["a", "b"]),
    "is-buffer": ("NcdALwpXkTm5Zvvbk7owOUSvVvBKDgKP5/ewfXEznmQFfs4Z", ["a", "b"]),
    "once": ("lNaJgI+2Q5URQBkccEKHTQOPaXdUxnZZElQTZY0MFUAuaEqe1E", ["a", "b"]),
    "is-odd 3 of the root": (
        "CQpnWPrDwmP1+SMHXZhtLtJv90yiyVfluGsX5iNCVkrhQtU3TQ",
        ["", "a", "b", "c", "x", "y"],
    ),
}


@pytest.mark.parametrize("file", [*NPM, "yarn-1-yarn.lock"])
@pytest.mark.parametrize(("pinned", "projects"), HASHES.values(), ids=HASHES)
def test_a_bump_moves_the_projects_that_it_reaches(
    file: str, pinned: str, projects: list[str]
) -> None:
    assert moved(file, pinned, "other") == projects


@pytest.mark.parametrize(
    ("pinned", "projects"),
    [
        ("7faca22584600a9dc5b9fca2cd5feb7135ac", ["a", "b"]),
        ("ae18aa0b6e113d6c490ad1db5e8df9bdb57758382", ["a", "b"]),
        ("89ee2e353c5a3f3bd400c79db1c307a5b3506198", ["", "a", "b", "c", "x", "y"]),
    ],
)
def test_a_bump_with_a_newer_yarn(pinned: str, projects: list[str]) -> None:
    assert moved("yarn-4-yarn.lock", pinned, "other") == projects


@pytest.mark.parametrize(
    ("pinned", "projects"),
    [
        ("ae74fb96c20a0277a1d615f1e4d73c8414f5a98db8b", ["x"]),
        ("028ff3aadf0609c1fd278d8ea3089299412a7a8b9bd", ["x", "y"]),
        ("b6a85871a79d2e3b22d2d1b94ac2824226a63c6b741c", ["x", "y"]),
        ("8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b0", ["", "a", "b", "c", "x", "y"]),
        ('requires-python = ">=3.11"', ["", "a", "b", "c", "x", "y"]),
    ],
)
def test_a_bump_with_uv(pinned: str, projects: list[str]) -> None:
    assert (
        moved("uv-uv.lock", pinned, "other" if "=" not in pinned else 'requires-python = ">=3"')
        == projects
    )


@pytest.mark.parametrize("file", YARN)
def test_an_override_counts_under_its_name(file: str) -> None:
    content = (
        text(file)
        .replace("is-number@^3.0.0", "is-number@^9")
        .replace("is-number@npm:^3.0.0", "is-number@npm:9")
    )
    bumped = re.sub(r'(version:? "?)3\.0\.0', r"\g<1>3.0.9", content)
    assert bumped != content
    b = ["packages/b"]
    assert read(file, bumped).part(b) != read(file, content).part(b)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bun.lock", "{}"),
        ("bun.lockb", ""),
        ("package-lock.json", "{"),
        ("package-lock.json", "[]"),
        ("package-lock.json", '{"lockfileVersion": 1, "dependencies": {}}'),
        ("pnpm-lock.yaml", "a: ["),
        ("pnpm-lock.yaml", "[1]"),
        ("pnpm-lock.yaml", "importers: {.: {dependencies: {x: {version: 1.0.0}}}}"),
        ("yarn.lock", "what is this\n"),
        ("yarn.lock", "x:\n  y\n\n__metadata:\n  version: 8\n"),
        ("uv.lock", "a = "),
        ("uv.lock", "version = 1"),
    ],
)
def test_what_is_not_understood(name: str, content: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_lock(name, content, lambda _: {}, [""])


@given(st.sampled_from([*NPM, *YARN, "uv-uv.lock"]), st.data())
def test_no_damage_is_a_fault_of_ours(file: str, data: st.DataObject) -> None:
    content = text(file)
    start = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 40))
    damaged = (
        content[:start] + data.draw(st.text('"\n:@ {x', max_size=3)) + content[start + length :]
    )
    try:
        lock = read(file, damaged)
    except ValueError:
        return
    assert lock.part(["packages/a"]) == read(file, damaged).part(["packages/a"])


def lock_of(leads: dict[str, list[str]], says: dict[str, str]) -> Lock:
    lock = Lock("1")
    lock.says, lock.leads, lock.starts = says, leads, {"p": ["a"]}
    return lock


KEYS = st.sampled_from("abcdef")


@given(st.dictionaries(KEYS, st.lists(KEYS, max_size=3)), KEYS)
def test_a_part_moves_with_what_it_reaches(leads: dict[str, list[str]], bumped: str) -> None:
    found, ahead = {"a"}, ["a"]
    while ahead:
        fresh = set(leads.get(ahead.pop(), ())) - found
        found |= fresh
        ahead += fresh
    before = lock_of(leads, {}).part(["p"])
    assert (lock_of(leads, {bumped: "new"}).part(["p"]) != before) == (bumped in found)


@given(st.dictionaries(KEYS, st.lists(KEYS, max_size=3)), st.randoms())
def test_a_part_knows_no_order(leads: dict[str, list[str]], chance: random.Random) -> None:
    mixed = list(leads.items())
    chance.shuffle(mixed)
    other = {key: chance.sample(keys, len(keys)) for key, keys in mixed}
    assert lock_of(other, {}).part(["p"]) == lock_of(leads, {}).part(["p"])
