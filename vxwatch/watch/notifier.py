"""What the watcher asks of the system's notification service, whichever it is.

A notifier knows directories and raw events; which directories are wanted, and what follows
from an event, is the watcher's business. All calls are made on the event loop; none blocks
longer than the system needs to set a watch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

AT_WILL = 0
"""The code with which a directory is refused that shall be polled by choice."""


@dataclass(slots=True)
class Raw:
    """Events since the last look, by absolute path.

    `paths` says of each whether the entry itself may be another one now (made, removed,
    renamed) or only changed; into those of `written` something was written, or they came, as far as
    that can be told from a change of the date; those of `shifted` are directories that were moved
    here, of whose files nothing is told. `lost` says that events are missing. `refused` holds
    directories that were accepted and can be watched no longer, with the reason.
    """

    paths: dict[str, bool] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    shifted: set[str] = field(default_factory=set)
    lost: bool = False
    refused: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, structural: bool, *, written: bool = True) -> None:
        """Note an event."""
        self.paths[path] = structural or self.paths.get(path, False)
        if written:
            self.written.add(path)


class Notifier(Protocol):
    """Watches single directories, never what is below them."""

    lag: float
    """Seconds by which an event may come late, on a loaded machine too."""
    settles: float
    """Seconds of quiet that passed before an event is told."""
    bulky: bool
    """Whether many small calls of `add` are dear, so that a tree is better listed first."""

    def add(self, directories: Iterable[str]) -> dict[str, int]:
        """Watch these from now on; gives those that were refused, with the `errno`.

        Whatever happens in an accepted directory after the return is told. One that is
        watched already is looked up again, in case its name leads to another one now.
        """

    def drop(self, directories: Iterable[str]) -> None:
        """Watch these no longer; events on the way may still be told."""

    async def ready(self) -> bool:
        """Wait for proof that events arrive; False if it did not come."""

    def take(self) -> Raw:
        """What happened since the last call."""

    async def aclose(self) -> None:
        """End; no thread and no descriptor is left. Idempotent."""


OpenNotifier = Callable[[Callable[[], None], str], Notifier]
"""Makes a notifier from the function to call, on the event loop, when `take` has something
to give, and a directory of ours in which it may make events. Raises OSError."""
