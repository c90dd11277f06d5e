"""Loads asyncio without what it has for others: ssl, and `inspect`, which it asks when it debugs.

They take longer to load than the rest of it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _WhenUsed(ModuleType):
    """Stands for a module for who imported it first, and is it once they use it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def load() -> None:
    """Import asyncio. Whoever imports later what was left out has it as it is."""
    if "asyncio" in sys.modules:
        return
    # It can do without ssl.
    left_out = {"ssl": None, "inspect": _WhenUsed("inspect")}
    placed = {name: module for name, module in left_out.items() if name not in sys.modules}
    sys.modules.update(placed)  # type: ignore[arg-type]
    import asyncio  # noqa: F401

    for name, module in placed.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
