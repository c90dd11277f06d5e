"""Who may use the reload channel, and which requests are for a page. Pure.

A page of another origin can make a browser of this machine send requests here, also by a name
of its own that it lets resolve to 127.0.0.1. It can choose neither the Origin nor the Host of
them, so those two decide.
"""

import re
from collections.abc import Iterable, Mapping

_LOCAL = re.compile(
    r"(?:localhost|(?:[a-z0-9-]+\.)+localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?",
    re.IGNORECASE,
)
_OWN_SITE = frozenset({"same-origin", "none"})
_PAGES = frozenset({"document", "iframe", "frame"})

Fields = Mapping[str, str]
"""Header fields by their lower-case name."""


def fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The header fields as text; the values of a repeated one are joined by commas."""
    found: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def is_local(host: str) -> bool:
    """Whether a Host names this machine in a way that no name server has a say in."""
    return _LOCAL.fullmatch(host) is not None


def may_use(given: Fields) -> bool:
    """Whether a request with these fields comes from a page of this very origin, or from no page."""
    host, origin = given.get("host", ""), given.get("origin")
    if not is_local(host) or given.get("sec-fetch-site", "none") not in _OWN_SITE:
        return False
    return origin is None or origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def asks_for_page(method: bytes, given: Fields) -> bool:
    """Whether a browser will show the answer as a page, not a script of a page read it.

    Whoever does not say what it is for gets what a browser's address bar gets.
    """
    if method not in (b"GET", b"POST") or "range" in given or not is_local(given.get("host", "")):
        return False
    if purpose := given.get("sec-fetch-dest"):
        return purpose in _PAGES
    accept = given.get("accept", "*/*")
    if "x-requested-with" in given or "upgrade" in given:
        return False
    return "text/html" in accept or (method == b"GET" and "*/*" in accept)
