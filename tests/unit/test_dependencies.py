"""Which projects of the workspace manifests depend on."""

import pytest

from vxwatch.workspace.dependencies import joined, npm_needs, python_needs, resolve

NAMES = {"ui": "ui", "@acme/core": "@acme/core", "my-lib": "My_Lib", "app": "app"}
PLACES = {
    "packages/ui": "ui",
    "packages/core": "@acme/core",
    "libs/my": "My_Lib",
    "apps/app": "app",
}


def npm(spec: object, name: str = "ui", field: str = "dependencies") -> tuple[str, ...]:
    needs = npm_needs({field: {name: spec}}, NAMES)
    return resolve(needs, "apps/app", NAMES, PLACES)


@pytest.mark.parametrize(
    "field", ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"]
)
def test_every_kind_of_npm_dependency_counts(field: str) -> None:
    assert npm("*", field=field) == ("ui",)


@pytest.mark.parametrize(
    ("spec", "name", "found"),
    [
        ("^1.0.0", "ui", ("ui",)),
        ("workspace:*", "ui", ("ui",)),
        ("workspace:^1.2", "@acme/core", ("@acme/core",)),
        ("workspace:@acme/core@*", "kernel", ("@acme/core",)),
        ("workspace:../../packages/ui", "x", ("ui",)),
        ("catalog:", "ui", ("ui",)),
        ("file:../../packages/ui", "x", ("ui",)),
        ("link:../../packages/ui/", "x", ("ui",)),
        ("portal:../../packages/core", "x", ("@acme/core",)),
        ("file:../../vendor/ui", "ui", ()),
        ("file:/elsewhere/ui", "ui", ()),
        ("file:../../../ui", "ui", ()),
        ("npm:other@1", "ui", ()),
        ("github:someone/ui", "ui", ()),
        ("someone/ui", "ui", ()),
        ("git+ssh://git@host/ui.git", "ui", ()),
        ("https://host/ui.tgz", "ui", ()),
        ("^1.0.0", "react", ()),
        ("*", "app", ()),  # itself
        (1, "ui", ()),
    ],
)
def test_npm(spec: object, name: str, found: tuple[str, ...]) -> None:
    assert npm(spec, name) == found


def test_broken_manifests_need_nothing() -> None:
    assert npm_needs({"dependencies": ["ui"]}, NAMES) == ()
    assert python_needs({"project": [], "dependency-groups": 1, "tool": {"uv": []}}) == ()


def test_each_project_stands_once() -> None:
    package = {"dependencies": {"ui": "*"}, "peerDependencies": {"ui": "^1", "@acme/core": "*"}}
    needs = npm_needs(package, NAMES)
    assert resolve(needs, "apps/app", NAMES, PLACES) == ("ui", "@acme/core")


def python(pyproject: dict[str, object]) -> tuple[str, ...]:
    return resolve(python_needs(pyproject), "apps/app", NAMES, PLACES)


@pytest.mark.parametrize(
    "pyproject",
    [
        {"project": {"dependencies": ["my_lib>=1 ; python_version > '3'"]}},
        {"project": {"dependencies": ["My.Lib[extra]"]}},
        {"project": {"optional-dependencies": {"all": ["my-lib"]}}},
        {"dependency-groups": {"dev": [{"include-group": "x"}, "my-lib"]}},
        {"tool": {"uv": {"dev-dependencies": ["my-lib"]}}},
    ],
    ids=str,
)
def test_every_kind_of_python_dependency_counts(pyproject: dict[str, object]) -> None:
    assert python(pyproject) == ("My_Lib",)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"workspace": True}, ("My_Lib",)),
        ({"path": "../../libs/my", "editable": True}, ("My_Lib",)),
        ({"path": "../../vendor/my"}, ()),
        ({"git": "https://host/my"}, ()),
        ([{"git": "https://host/my", "marker": "x"}, {"workspace": True}], ("My_Lib",)),
    ],
    ids=str,
)
def test_uv_sources(source: object, found: tuple[str, ...]) -> None:
    pyproject = {
        "project": {"dependencies": ["my-lib"]},
        "tool": {"uv": {"sources": {"My_Lib": source}}},
    }
    assert python(pyproject) == found


@pytest.mark.parametrize(
    ("directory", "path", "found"),
    [
        ("a/b", "../c", "a/c"),
        ("a", "./b//c/", "a/b/c"),
        ("a", "..", ""),
        ("", "..", None),
        ("a", "/b", None),
    ],
)
def test_joined(directory: str, path: str, found: str | None) -> None:
    assert joined(directory, path) == found
