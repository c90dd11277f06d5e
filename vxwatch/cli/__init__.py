"""The vx command: wires, decides nothing."""

import os
import sys


def main() -> None:
    """Entry point of the `vx` script. `vx --version` is answered before click loads."""
    _open_standard_streams()
    if sys.argv[1:] == ["--version"]:
        from vxwatch import __version__

        sys.stdout.write(f"vx {__version__}\n")
        return
    try:
        from vxwatch.cli.app import start

        code = start()
    except KeyboardInterrupt:  # while modules load
        code = 130
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put the null device where vx was started without a stream (`>&-`).

    Whatever vx opens first would get the number otherwise, and vx's output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
