"""The vx command: wires, decides nothing."""

import sys


def main() -> None:
    """Entry point of the `vx` script. `vx --version` is answered before click loads."""
    if sys.argv[1:] == ["--version"]:
        from vxwatch import __version__

        sys.stdout.write(f"vx {__version__}\n")
        return
    from vxwatch.cli.app import start

    sys.exit(start())
