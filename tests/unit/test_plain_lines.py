"""What is begun without the parser of options is what the parser would begin."""

from typing import Any

import pytest

from vxwatch.cli import app, plain, sessions


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What sessions are begun with; none is."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def begin(verb: str, **given: Any) -> int:
        calls.append((verb, given))
        return 3

    monkeypatch.setattr(sessions, "begin", begin)
    return calls


@pytest.mark.parametrize(
    "words",
    [
        ["run", "build"],
        ["run", "build", "app#test", "./lib#lint", ""],
        ["run", "--all", "build"],
        ["run", "build", "--all"],
        ["run"],
        ["watch", "dev"],
        ["watch", "dev", "--all", "test"],
        ["watch"],
    ],
    ids=" ".join,
)
def test_it_is_begun_alike(words: list[str], begun: list[Any]) -> None:
    meant = plain.read(words)
    assert meant is not None
    assert plain.begin(*meant) == 3
    assert app.vx.main(words, standalone_mode=False) == 3
    assert begun[0] == begun[1]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run", "build", "--force"],
        ["run", "-F", "web", "build"],
        ["run", "build", "--", "--all"],
        ["run", "--allow", "build"],
        ["run", "-"],
        ["--all", "run", "build"],
        ["show", "build"],
        ["watch", "dev", "--help"],
    ],
    ids=" ".join,
)
def test_the_rest_is_left_to_the_parser(words: list[str]) -> None:
    assert plain.read(words) is None
