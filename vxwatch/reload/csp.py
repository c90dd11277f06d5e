"""Whether a page's Content-Security-Policy lets the reload script work. Pure.

Nothing here weakens a policy: where one forbids the script, the page goes without.
"""

import re
from collections.abc import Iterator

_NONCE = re.compile(r"'nonce-([A-Za-z0-9+/_-]+={0,2})'", re.IGNORECASE)
_HOST = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>\[[^\]]+\]|[^:/]+)(?::(?P<port>\d+|\*))?/?")
_Directives = dict[str, list[str]]


def nonce(policy: str) -> str:
    """The first nonce for scripts in the field's value, "" if there is none."""
    for directives in _policies(policy):
        for source in _sources(directives, "script-src-elem", "script-src") or ():
            if found := _NONCE.fullmatch(source):
                return found[1]
    return ""


def forbids(policy: str, authority: str, nonce_used: str) -> str:
    """The directive that keeps a script of the page's own origin from loading or from calling home.

    "" if none does. `authority` is the page's host and port.
    """
    for directives in _policies(policy):
        sandbox = directives.get("sandbox")
        if sandbox is not None and not {"allow-scripts", "allow-same-origin"} <= set(sandbox):
            return "sandbox"
        scripts = _sources(directives, "script-src-elem", "script-src")
        if scripts is not None and not _allow_script(scripts, authority, nonce_used):
            return " ".join(("script-src", *scripts))
        targets = _sources(directives, "connect-src")
        if targets is not None and not _match(targets, authority):
            return " ".join(("connect-src", *targets))
    return ""


def _policies(value: str) -> Iterator[_Directives]:
    for policy in value.split(","):
        directives: _Directives = {}
        for directive in policy.split(";"):
            name, *sources = directive.split() or [""]
            directives.setdefault(name.lower(), sources)
        yield directives


def _sources(directives: _Directives, *names: str) -> list[str] | None:
    return next((directives[name] for name in (*names, "default-src") if name in directives), None)


def _allow_script(sources: list[str], authority: str, nonce_used: str) -> bool:
    if nonce_used and any(
        found[1] == nonce_used for source in sources if (found := _NONCE.fullmatch(source))
    ):
        return True
    return "'strict-dynamic'" not in sources and _match(sources, authority)


def _match(sources: list[str], authority: str) -> bool:
    return any(_is_ours(source.lower(), authority.lower()) for source in sources)


def _is_ours(source: str, authority: str) -> bool:
    if source in ("'self'", "*", "http:"):
        return True
    found, page = _HOST.fullmatch(source), _HOST.fullmatch(authority)
    if found is None or page is None or found["host"] != page["host"]:
        return False
    return found["port"] == "*" or (found["port"] or "80") == (page["port"] or "80")
