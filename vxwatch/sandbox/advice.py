"""What is said of findings, and the lines for the config that would allow what they are about."""

import json
from collections.abc import Iterable

from vxwatch.model import Sandbox
from vxwatch.sandbox.findings import Access, Finding, below_one, parent_of

MOST_NAMED = 10
"""Findings that are told one by one."""

_NAMESERVER = ":53"
_PROXY = "tell the program of the proxy that HTTP_PROXY names, if it does not look there by itself"


def sentences(found: Iterable[Finding]) -> tuple[str, ...]:
    """What a task did that was denied, in words: each follows the task's name."""
    every = tuple(found)
    said = [sentence(finding) for finding in every[:MOST_NAMED]]
    if len(every) > MOST_NAMED:
        said.append(f"was denied {len(every) - MOST_NAMED} more")
    return tuple(said)


def sentence(finding: Finding) -> str:
    """The words for one finding, from the verb on."""
    name = finding.name + (f" ({finding.files} files)" if finding.files > 1 else "")
    if finding.access == "network":
        return _connected(name, finding)
    verb = "read" if finding.access == "read" else "wrote"
    if finding.denied:
        listed, entry = finding.denied
        return f"{verb} {name}, which {listed} forbids ({entry})"
    if finding.unfolded:
        return f"{verb} {name} of the package {finding.package}, whose changes do not run it again"
    if finding.package:
        return f"{verb} {name} of the package {finding.package}, on which it does not depend"
    return f"{verb} {name}, which nothing grants"


def _connected(name: str, finding: Finding) -> str:
    if finding.past_proxy:
        return f"connected to {name}, past the proxy that its network is behind"
    if name.endswith(_NAMESERVER):
        return f"looked up a host (at {name}), and nothing grants it the network"
    return f"connected to {name}, which nothing grants"


def _edge(package: str, *, unfolded: bool) -> str:
    name = json.dumps(package)
    if not unfolded:
        return f"add it: {name} to the dependencies of the project"
    return f'run it after a task of {name}: depends_on = ["^build"], say; or grant and declare its files'


def remedies(found: Iterable[Finding], task: str, sandbox: Sandbox) -> tuple[str, ...]:
    """Lines for the config, each complete: what is granted today and what was missing."""
    every = tuple(found)
    packages = {f.package: f.unfolded for f in every if f.package and not f.denied}
    said = [_edge(name, unfolded=unfolded) for name, unfolded in packages.items()]
    lists: tuple[tuple[Access, tuple[str, ...]], ...] = (
        ("read", sandbox.read),
        ("write", sandbox.write),
        ("network", sandbox.network),
    )
    for access, granted in lists:
        new = [_grant(f) for f in every if f.access == access and _grantable(f)]
        new = [name for name in new if not below_one(name, {*new} - {name})]
        if new:
            complete = dict.fromkeys((*granted, *new))
            said.append(f"allow it: tasks.{key(task)}.sandbox.allow.{access} = {toml(complete)}")
    for listed, entry in dict.fromkeys(finding.denied for finding in every if finding.denied):
        where = f"tasks.{key(task)}.sandbox.{listed}"
        said.append(f"take {json.dumps(entry, ensure_ascii=False)} out of {where} to allow it")
    if any(finding.past_proxy for finding in every):
        said.append(_PROXY)
    return tuple(said)


def _grantable(finding: Finding) -> bool:
    """Whether a grant would help."""
    return not (finding.package or finding.past_proxy or finding.denied)


def _grant(finding: Finding) -> str:
    if finding.access != "network":
        return _writable(finding.name)
    return "HOST" if finding.name.endswith(_NAMESERVER) else finding.name


def _writable(name: str) -> str:
    """A name that a TOML file can hold: the nearest directory where bytes are no text."""
    while name and not name.isprintable() and not _encodes(name):
        name = parent_of(name) + "/"
    return name


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def key(name: str) -> str:
    """A name as TOML writes a key."""
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else json.dumps(name)


def toml(names: Iterable[str]) -> str:
    """A list of texts as TOML writes it."""
    texts = (json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f") for name in names)
    return f"[{', '.join(texts)}]"
