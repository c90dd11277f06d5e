"""The configs of all projects, each checked with the presets of the workspace.

Promises that a fault is told where the faulty value stands: in the project's config, or in the
preset that a task of it extends.
"""

from collections.abc import Mapping
from functools import partial

from vxwatch.config.faults import At, Faults
from vxwatch.config.load import Document, Reader
from vxwatch.config.presets import Presets
from vxwatch.config.tasks import Fields, check_tasks


class Configs:
    """`reader` collects the problems; `shared` is the document that the presets stand in."""

    def __init__(self, reader: Reader, shared: Document | None, presets: Presets) -> None:
        self.reader = reader
        self._shared = shared
        self._presets = presets
        # One value for all: the reader knows a check that it made by it.
        self._check = partial(check_tasks, presets=presets)

    def tasks(self, document: Document) -> Mapping[str, Fields]:
        """The tasks of a config, checked, as `make_tasks` takes them."""
        fields = self.reader.checked(document, self._check)
        self._note_misfits(document)
        return fields

    def note(self, document: Document, task: str, rest: At, message: str, hint: str) -> None:
        """Note what is wrong with a task that is sound by itself, at `rest` in it."""
        faults = Faults()
        own = document.value(("tasks", task))
        self._presets.tell(own, task, rest, faults, message, hint)
        self.reader.note(document, faults)
        self._note_misfits(document)

    def _note_misfits(self, document: Document) -> None:
        misfits, self._presets.misfits = self._presets.misfits, []
        for at, task, message, hint in misfits:
            faults = Faults()
            faults.add(at, f"{message}, for {task} in {document.file}", hint)
            assert self._shared is not None, "presets stand in a document"
            self.reader.note(self._shared, faults)
