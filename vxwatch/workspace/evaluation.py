"""The programs among the configs of a workspace, as documents.

Where there is none, nothing that evaluates one is loaded.
"""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vxwatch.config.load import Document, Reader
from vxwatch.workspace.manifests import LOCK

if TYPE_CHECKING:
    from vxwatch.workspace.lock import Locked
    from vxwatch.workspace.programs import Programs


class Evaluation:
    """What takes the values of programs in one loading of a workspace. Must be closed.

    From its `end` on, what they looked at and what is wrong with them is noted by `reader`;
    `directories` are those whose names they looked at, `names` the variables that they asked for.
    `frozen`: see `lock`.
    """

    def __init__(self, reader: Reader, *, frozen: bool = False) -> None:
        self.reader = reader
        self.directories: set[str] = set()
        self.names: set[str] = set()
        self._frozen = frozen
        self._programs: Programs | Locked | None = None

    def prepare(self, files: Iterable[str]) -> None:
        """Evaluate these programs, which are there, all at once."""
        there = [*files]
        if there:
            self._programs = self._programs or self._open()
            self._programs.prepare(there)

    def document(self, file: str) -> Document | None:
        """What a program evaluates to; None where there is none, or none that has a value."""
        if not self._lies(file):
            return None
        self._programs = self._programs or self._open()
        return self._programs.document(file)

    def end(self) -> None:
        """All programs that there are were asked for."""
        if self._programs is None and self._frozen and self._lies(LOCK):
            self._programs = self._open()
        if self._programs is not None:
            self._programs.end()
            self._take(self._programs)

    @property
    def programs(self) -> "Programs | None":
        """Those that were evaluated, if there are any."""
        from vxwatch.workspace.programs import Programs  # noqa: PLC0415 - only programs need it

        return self._programs if isinstance(self._programs, Programs) else None

    def close(self) -> None:
        """Remember the values for later."""
        if self._programs is not None:
            self._programs.close()

    def _lies(self, file: str) -> bool:
        return os.path.lexists(f"{self.reader.root}/{file}")

    def _open(self) -> "Programs | Locked":
        from vxwatch.workspace.programs import Programs  # noqa: PLC0415 - only programs need it

        programs = Programs(self.reader.root, os.environ)
        if not self._frozen:
            return programs
        from vxwatch.workspace.lock import Locked  # noqa: PLC0415 - only locked programs need it

        return Locked(self.reader.root, programs)

    def _take(self, programs: "Programs | Locked") -> None:
        root = self.reader.root
        found = {p for p in programs.looked if os.path.isdir(os.path.join(root, p))}
        self.directories |= found
        self.reader.looked_at(sorted(programs.looked - found))
        self.names |= programs.names
        self.reader.problems += programs.problems
