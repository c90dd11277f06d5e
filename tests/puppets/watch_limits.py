"""Runs in a user namespace of its own: lowers a limit of inotify, then watches and edits.

Arguments: the engine, the limit's name, its value, and an empty directory. Prints what the
watcher said to the user; exits 0 once every edit was told.
"""

import asyncio
import os
import sys
from typing import cast

from tests.harness.watching import watching, write
from vxwatch.watch.engines import Engine
from vxwatch.watch.scope import Scope


async def main(engine: Engine, root: str) -> None:
    for number in range(40):
        write(f"{root}/src/d{number}/f")
    async with watching(Scope(root, trees=frozenset({"src"})), engine) as heard:
        for turn in range(2):
            for path in ("src/d0/f", "src/d37/f", f"src/new{turn}/deep/f"):
                heard.forget()
                write(f"{root}/{path}", str(turn))
                await heard.until(path)
                heard.forget()
                os.unlink(f"{root}/{path}")
                await heard.until(path)
        print("\n".join(heard.notices))


if __name__ == "__main__":
    with open(f"/proc/sys/user/{sys.argv[2]}", "w") as limit:
        limit.write(sys.argv[3])
    asyncio.run(main(cast("Engine", sys.argv[1]), os.path.realpath(sys.argv[4])))
