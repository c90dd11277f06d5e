"""A real Chromium for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = "/usr/bin/chromium"
LOADED = 20_000
"""Milliseconds that a page may take on a loaded machine."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(home: str) -> Iterator[Browser]:
    """A Chromium with an empty profile and a home directory of its own."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=_FLAGS, env={"HOME": home, "PATH": "/usr/bin:/bin"}
        )
        yield running
        running.close()
