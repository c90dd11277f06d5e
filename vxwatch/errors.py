"""What vx tells a user when something is wrong.

An error holds data; `output.diagnostics` makes the text. Every slug has an entry in
`docs/errors.md`. Nothing here prints, exits or looks at the system.
"""

from typing import NamedTuple


class UserError(Exception):
    """An expected failure that the user can mend: what happened, and what to do next.

    `slug` names the entry in `docs/errors.md`; `exit_code` is the code vx ends with.
    """

    def __init__(self, slug: str, message: str, hint: str = "", exit_code: int = 2) -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class GitError(UserError):
    """Git cannot say what it tracks or ignores; it may do so later."""


class Problem(NamedTuple):
    """One fault in one config file.

    `file` is workspace-relative; `line` is 1-based, 0 where TOML gives none; `field` is the
    dotted path inside the file ("" for the file itself).
    """

    file: str
    line: int
    field: str
    message: str
    hint: str = ""


class ConfigError(UserError):
    """All faults of all config files that were read, in one go.

    `files`, workspace-relative, are those that may have to be mended, as far as that is known.
    """

    def __init__(self, problems: tuple[Problem, ...], files: tuple[str, ...] = ()) -> None:
        super().__init__("config", f"{len(problems)} config problem(s)")
        self.problems = problems
        self.files = files
