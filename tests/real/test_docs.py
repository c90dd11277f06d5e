"""The documentation fits the program: links, the names of errors, and the configs it shows."""

import ast
import glob
import json
import os
import re
import tomllib
from collections.abc import Iterator

import fastjsonschema
import pytest

from vxwatch.cli.app import vx

ROOT = os.path.realpath(os.path.join(__file__, "../../.."))
PAGES = sorted(["README.md", "CHANGELOG.md", *glob.glob("docs/*.md", root_dir=ROOT)])
SCHEMA = os.path.join(ROOT, "vxwatch/config/vx.schema.json")


def read(path: str) -> str:
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


_ERRORS = ("UserError", "GitError")  # those that are told their slug where they are made


def slugs() -> Iterator[str]:
    """The first argument of every UserError that the package makes, subclasses included."""
    for path in glob.glob("vxwatch/**/*.py", root_dir=ROOT, recursive=True):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ERRORS:
                if getattr(node.args[0], "attr", "") == "slug":
                    continue  # a copy of one that was made elsewhere
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}: a literal"
                yield str(node.args[0].value)
            elif isinstance(node, ast.ClassDef) and any(
                getattr(base, "id", "") in _ERRORS and node.name not in _ERRORS
                for base in node.bases
            ):
                yield _slug_of(node)


def _slug_of(error: ast.ClassDef) -> str:
    """What a subclass of UserError gives its base first."""
    for node in ast.walk(error):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "__init__":
            assert isinstance(node.args[0], ast.Constant)
            return str(node.args[0].value)
    raise AssertionError(error.name)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", read(page)):
        path = os.path.join(ROOT, os.path.dirname(page), target)
        assert os.path.exists(path), f"{page} links to {target}"


def test_every_error_has_an_entry_and_every_entry_an_error() -> None:
    documented = re.findall(r"^## (\S+)$", read("docs/errors.md"), re.MULTILINE)
    assert documented == sorted(set(slugs()))


@pytest.mark.parametrize("page", PAGES)
def test_the_configs_it_shows_are_valid(page: str) -> None:
    with open(SCHEMA) as file:
        validate = fastjsonschema.compile(json.load(file))
    for block in re.findall(r"^```toml\n(.*?)^```", read(page), re.MULTILINE | re.DOTALL):
        if "[tasks." in block:
            validate(tomllib.loads(block))


def test_the_readme_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 300


def test_the_readme_names_the_options_that_there_are() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+).*?` \| ([a-z, ]+) \|", read("README.md"), re.MULTILINE)
    named = {(verb, option) for option, verbs in rows for verb in verbs.split(", ")}
    there_are = {
        (verb, option)
        for verb, command in vx.commands.items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert named == there_are
