"""vx_engine.py ENGINE WORDS...  is vx, but hears of changes by this engine."""

import sys
from typing import Any, cast

from vxwatch.cli import main
from vxwatch.session import watching
from vxwatch.watch.engines import Engine, open_watcher

ENGINE = cast("Engine", sys.argv.pop(1))


def by_engine(*given: Any, **more: Any) -> Any:
    """Opens the watcher that was asked for, but with the engine of the command line."""
    scope, scratch, notice = given[:3]
    return open_watcher(scope, scratch, notice, ENGINE)


if __name__ == "__main__":
    watching.open_watcher = by_engine  # type: ignore[attr-defined]
    main()
