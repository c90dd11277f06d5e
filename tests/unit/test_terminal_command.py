"""A single program takes the place of its shell; anything else is left to the shell."""

import pytest

from vxwatch.session.shell import in_place_of_the_shell


@pytest.mark.parametrize(
    "command",
    [
        "python3",
        "  vim 'a b'\n",
        "./bin/repl --x=1",
        "~/bin/a",
        "psql -h localhost > log",
        'node "$F"',
    ],
)
def test_a_single_program(command: str) -> None:
    assert in_place_of_the_shell(command) == f"exec {command.strip()}"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "a; b",
            "a && b",
            "a | b",
            "a &",
            "a\nb",
            "(a)",
            "{ a; }",
            "a $(b)",
            "a `b`",
            "! a",
            "# a",
        ),
        *(
            "A=1 python3",
            "cd x",
            "exec python3",
            "if a",
            ". ./x",
            "read x",
            "while a",
            "",
            "$EDITOR",
        ),
        *('"$EDITOR" x', "'a b' c", "[ a ]", "f() a"),
    ],
)
def test_what_may_be_more(command: str) -> None:
    assert in_place_of_the_shell(command) == command
