"""`vx.lock`: the values of all config programs, for runs that shall use exactly these.

A locked value counts as long as the files are there that it was made of, whatever the variables,
the clock or the Python that runs vx are. Where one of them moved, the program is evaluated, and a
value that differs is refused. The file is made for people to read and to keep in git.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any

from vxwatch.config.faults import At, shown
from vxwatch.config.lines import dotted
from vxwatch.config.load import Document, Reader, content_of
from vxwatch.errors import Problem
from vxwatch.workspace.evaluation import Evaluation
from vxwatch.workspace.home import replace
from vxwatch.workspace.loading import assemble
from vxwatch.workspace.manifests import LOCK
from vxwatch.workspace.programs import Evaluated, Programs

_FORMAT = 1
_MOST_DIFFERENCES = 5
_HINT = "run vx lock, look at what it changed, and commit it"
_TRIES = 50


def lock(root: str) -> tuple[int, bool]:
    """Write the values of the programs below a root: how many there are, and if that was new.

    Without a program there is no `vx.lock`. Raises `ConfigError`, and OSError.
    """
    programs = _evaluate(root)
    tries = _TRIES
    # A file was saved just now, and stamps cannot tell what was read of it.
    while programs is not None and not programs.settled and tries:
        programs = _evaluate(root)
        tries -= 1
    return _write(root, programs.evaluated if programs else {})


def _evaluate(root: str) -> Programs | None:
    with closing(Evaluation(Reader(root))) as evaluation:
        assemble(evaluation)
        return evaluation.programs


class Locked:
    """Programs with the values that `vx.lock` has. Must be closed.

    `looked`, `names` and `problems` are as those of `Programs`.
    """

    def __init__(self, root: str, programs: Programs) -> None:
        self.looked: set[str] = {LOCK}
        self.names: set[str] = set()
        self.problems: list[Problem] = []
        self._root = root
        self._programs = programs
        self._entries = self._read()
        self._asked: set[str] = set()

    def prepare(self, files: Iterable[str]) -> None:
        """Evaluate those of the programs, relative to the root, whose locked value may not count."""
        entries = self._entries or {}
        moved = (f for f in files if f in entries and not entries[f].is_of(self._programs.files))
        self._programs.prepare(moved)

    def document(self, file: str) -> Document | None:
        """The value of a program, relative to the root; None where that is a problem."""
        self._asked.add(file)
        if self._entries is None:
            return None
        locked = self._entries.get(file)
        if locked is None:
            self._problem(f"has no value of {file}")
            return None
        if locked.is_of(self._programs.files):
            self.looked.update(locked.looked)
            return locked.document(file)
        document = self._programs.document(file)
        if document is not None:
            self._compare(file, locked.value, document.raw)
        return document

    def end(self) -> None:
        """All programs that there are were asked for; what else is locked is gone."""
        for file in sorted((self._entries or {}).keys() - self._asked):
            self._problem(f"has a value of {file}, which is not there")
        self.looked |= self._programs.looked
        self.names |= self._programs.names
        self.problems += self._programs.problems

    def close(self) -> None:
        """Remember what had to be evaluated."""
        self._programs.close()

    def _compare(self, file: str, locked: Any, now: Any) -> None:
        for at, before, after in islice(_differences(locked, now, ()), _MOST_DIFFERENCES):
            what = dotted(at) or "the value"
            self._problem(f"{what} of {file} is {before} there, and {after} now")

    def _problem(self, message: str) -> None:
        self.problems.append(Problem(LOCK, 0, "", message, _HINT))

    def _read(self) -> Mapping[str, Evaluated] | None:
        try:
            content = json.loads(content_of(f"{self._root}/{LOCK}"))
            assert content["format"] == _FORMAT
            return {
                file: Evaluated(one["config"], {}, one["files"], {})
                for file, one in content["programs"].items()
            }
        except FileNotFoundError:
            self._problem("is not there, and a frozen run takes its values from it")
        except OSError as error:
            self._problem(f"cannot be read: {error.strerror}")
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
            self._problem("is not what this vx writes")
        return None


def _differences(before: Any, after: Any, at: At) -> Iterator[tuple[At, str, str]]:
    if type(before) is type(after) and isinstance(before, dict):
        for name in dict.fromkeys((*before, *after)):
            if name not in before:
                yield (*at, name), "missing", shown(after[name])
            elif name not in after:
                yield (*at, name), shown(before[name]), "missing"
            else:
                yield from _differences(before[name], after[name], (*at, name))
    elif type(before) is type(after) and isinstance(before, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, (*at, i))
    elif type(before) is not type(after) or before != after:
        yield at, _shown(before), _shown(after)


def _shown(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else shown(value)


def _write(root: str, evaluated: Mapping[str, Evaluated]) -> tuple[int, bool]:
    path = f"{root}/{LOCK}"
    if not evaluated:
        there = os.path.lexists(path)
        if there:
            os.unlink(path)
        return 0, there
    programs = {
        file: {"files": one.looked, "config": one.value} for file, one in sorted(evaluated.items())
    }
    text = json.dumps({"format": _FORMAT, "programs": programs}, indent=2) + "\n"
    try:
        if content_of(path) == text.encode():
            return len(programs), False
    except OSError:
        pass
    replace(path, text.encode())
    return len(programs), True
