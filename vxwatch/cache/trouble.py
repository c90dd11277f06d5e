"""Trouble with the cache ends a use of it, never a run."""

from collections.abc import Callable
from types import TracebackType

from vxwatch.cache.database import CacheError


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
