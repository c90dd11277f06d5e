"""Trouble with the cache ends a use of it, never a run."""

import threading
from collections.abc import Callable
from types import TracebackType

from vxwatch.cache.database import CacheError

Notice = Callable[[str, str], None]
"""Tells the user a line, and what to do."""


class Teller:
    """Tells each thing once; from any thread."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, text: str, hint: str = "", about: str = "") -> None:
        """Tell it, unless that or anything else `about` the same was told."""
        with self._lock:
            if (about or text) in self._told:
                return
            self._told.add(about or text)
        self._notice(text, hint)


class Trouble:
    """A block that ends at a `CacheError`, of which `give_up` is told."""

    def __init__(self, give_up: Callable[[CacheError], None]) -> None:
        self._give_up = give_up

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(fault, CacheError):
            return False
        self._give_up(fault)
        return True
