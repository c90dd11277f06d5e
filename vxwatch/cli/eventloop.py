"""Loads asyncio without what it asks in errors and when it debugs, and without what vx never asks of it.

That takes half as long again as the rest of it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_WHEN_USED = ("inspect", "textwrap", "tokenize", "asyncio.sslproto", "asyncio.staggered")


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
    left_out: dict[str, ModuleType | None] = {name: _WhenUsed(name) for name in _WHEN_USED}
    left_out["ssl"] = None  # it can do without
    placed = {name: module for name, module in left_out.items() if name not in sys.modules}
    sys.modules.update(placed)  # type: ignore[arg-type]
    import asyncio  # noqa: F401

    for name, module in placed.items():
        if sys.modules.get(name, sys) is module:
            del sys.modules[name]
