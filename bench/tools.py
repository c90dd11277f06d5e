"""Installs the peers that come from npm into bench/.peers, pinned; does nothing when they are there.

    python bench/tools.py

The other peers are system packages (entr, inotify-tools) or stand in the virtual environment
(watchfiles). A benchmark leaves out what it does not find.
"""

import glob
import os
import shutil
import subprocess
import sys

import measure

PINNED = {
    "moon": "2.5.5",
    "nodemon": "3.1.14",
    "nx": "24.0.6",
    "srt": "0.0.83",
    "turbo": "2.11.11",
    "wireit": "0.14.13",
}
PACKAGES = {"moon": "@moonrepo/cli", "srt": "@anthropic-ai/sandbox-runtime"}
"""What npm calls a peer whose command has another name."""

NATIVE = {"moon": "@moonrepo/core-*/moon", "turbo": "@turbo/*/bin/turbo"}
"""Where the native program is of those whose script in .bin starts Node first."""

HOME = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".peers")


def find(name: str) -> str | None:
    """The program of this peer, or None if it is not installed."""
    if name in NATIVE:
        return next(iter(glob.glob(f"{HOME}/node_modules/{NATIVE[name]}")), None)
    for place in (f"{HOME}/node_modules/.bin", os.path.dirname(sys.executable)):
        if os.access(os.path.join(place, name), os.X_OK):
            return os.path.join(place, name)
    return shutil.which(name)


def version(name: str) -> str:
    """What a peer says its version is."""
    words = {"entr": "-v", "inotifywait": "--help"}.get(name, "--version")
    program = find(name)
    assert program is not None
    ran = subprocess.run([program, words], capture_output=True, text=True, check=False)
    text = (ran.stdout + ran.stderr).strip()
    return next(
        (word for line in text.splitlines() for word in line.split() if word[:1].isdigit()), text
    )


def main() -> None:
    measure.arguments(__doc__).parse_args()
    if find("npm") is None:
        print("no npm here: the peers that come from it will be left out")
        return
    missing = [
        f"{PACKAGES.get(name, name)}@{pin}" for name, pin in PINNED.items() if find(name) is None
    ]
    if missing:
        os.makedirs(HOME, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(["npm", "install", "--prefix", HOME, *options, *missing], check=True)


if __name__ == "__main__":
    main()
