"""How a command is put to the shell of a task that has the terminal."""

import re

_SIMPLE = re.compile(r"[A-Za-z0-9_./~-][^;&|()`\n]*")
_NOT_PROGRAMS = frozenset(
    [
        "alias",
        "bg",
        "break",
        "case",
        "cd",
        "command",
        "continue",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "eval",
        "exec",
        "exit",
        "export",
        "fc",
        "fg",
        "fi",
        "for",
        "getopts",
        "hash",
        "if",
        "in",
        "jobs",
        "local",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "source",
        "then",
        "times",
        "trap",
        "type",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "until",
        "wait",
        "while",
        ".",
    ]
)


def in_place_of_the_shell(command: str) -> str:
    """The command so that a single program takes the place of its shell.

    Ctrl-C is meant for the program. A shell that waits for it is signalled too, and many (dash)
    end for that when the program has long gone on and ended well. What may be more than one
    program is left as it is.
    """
    stripped = command.strip()
    word = stripped.partition(" ")[0]
    if _SIMPLE.fullmatch(stripped) and "=" not in word and word not in _NOT_PROGRAMS:
        return f"exec {stripped}"
    return command
