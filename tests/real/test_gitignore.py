"""Ignore rules without git say what git says, held against the real one."""

import itertools
import os
import random
import subprocess

import pytest

from vxwatch.workspace.git import Ignores
from vxwatch.workspace.gitignore import Rules

NAMES = ["a", "b", "ab", ".c", "x.log"]
LINES = [
    *("a", "/a", "a/", "/a/", "a/b", "a/**", "/a/*", "**/a", "a/**/b", "/**/b", "**", "*"),
    *("!a", "!a/", "!/a/b", "!b/a", "!*/", "!**/", "!*/a/", "!x.log", "!*.log", "!.c/"),
    *("*.log", ".*", "*.", "b/", "b/*", "*/a", "ab*", "?b", "?", "a?*", "x.*", "a**b", ".c"),
    *("[ab]", "[a-c]", "[!a]b", "[]a]", "[[:alpha:]]", "[ab", "b]", "{a,b}"),
    *("# x", r"\#a", r"\!a", r"\a", "a\\", "a ", r"a\ ", "  ", "\ta", "a\r", "\ufeffa"),
    *("", "/", "!", "./a", "a//b", "//a", "a//", "/./a", "a/.", "../a"),
]


def paths() -> list[str]:
    """Files up to three deep; what ends in .log is never a directory."""
    ways = (names for depth in (1, 2, 3) for names in itertools.product(NAMES, repeat=depth))
    return ["/".join(names) for names in ways if "x.log" not in names[:-1]]


@pytest.fixture
def repository(tmp_path: os.PathLike[str]) -> str:
    root = os.path.realpath(tmp_path)
    subprocess.run(["git", "init", "-q", "--template="], cwd=root, check=True)
    for path in reversed(paths()):
        full = f"{root}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if not os.path.isdir(full):
            with open(full, "w"):
                pass
    return root


def write_rules(root: str, chance: random.Random) -> dict[str, list[str]]:
    """Random rules in some directories, none in the others."""
    written = {}
    for directory in ("", "a", "a/b", "b"):
        file = f"{root}/{directory}/.gitignore"
        if directory and chance.random() < 0.6:
            if os.path.exists(file):
                os.unlink(file)
            continue
        written[directory] = chance.sample(LINES, chance.randint(1, 4))
        with open(file, "w", newline="") as stream:
            stream.write("\n".join(written[directory]) + "\n")
    return written


def test_a_directory_that_is_not_there_has_no_files(tmp_path: os.PathLike[str]) -> None:
    assert list(Rules(f"{tmp_path}/gone").files("")) == []


@pytest.mark.parametrize("seed", range(4))
def test_rules_say_what_git_says(seed: int, repository: str) -> None:
    chance = random.Random(seed)
    git = Ignores(repository)
    rules = Rules(repository)
    try:
        for _ in range(25):
            written = write_rules(repository, chance)
            git.reset()
            rules.reset()
            ours = {path for path in paths() if rules.ignored(path)}
            assert ours == git.ignored(paths()), written
            listed = {path for path in rules.files("") if not path.endswith(".gitignore")}
            leaves = {path for path in paths() if os.path.isfile(f"{repository}/{path}")}
            assert listed == leaves - ours, written
    finally:
        git.close()
