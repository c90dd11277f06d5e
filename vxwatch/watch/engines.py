"""Chooses how changes are heard of."""

import sys
from collections.abc import Callable
from typing import Literal

from vxwatch.watch.inotify import Inotify
from vxwatch.watch.scope import Scope
from vxwatch.watch.watcher import TreeWatcher

Engine = Literal["inotify", "watchfiles", "poll"]


def open_watcher(
    scope: Scope, scratch: str, notice: Callable[[str], None], engine: Engine | None = None
) -> TreeWatcher:
    """A watcher of the scope, to be entered; without `engine`, the best that is there.

    inotify hears at once and costs nothing while it waits, but only Linux has it; watchfiles
    wakes up to look a hundred times a second. `scratch` is a directory of ours for test
    files, `notice` takes lines for the user.
    """
    if engine is None:
        engine = "inotify" if sys.platform == "linux" else "watchfiles"
    if engine == "poll":
        return TreeWatcher(scope, None, scratch, notice)
    if engine == "inotify":
        return TreeWatcher(scope, Inotify, scratch, notice)
    from vxwatch.watch.rustnotify import RustNotifier  # noqa: PLC0415 - loads 90 modules

    return TreeWatcher(scope, RustNotifier, scratch, notice)
