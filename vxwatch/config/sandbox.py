"""What the `sandbox` table of a task may say, and how that becomes the model.

One list of fields for the checker, the JSON Schema and the hints, as in `schema`. Whether a path
exists, and where it leads, is asked when the task starts. Never reads a file.
"""

import re
from collections.abc import Mapping
from typing import Any

from vxwatch import model
from vxwatch.config.faults import At, Faults, shown
from vxwatch.config.kinds import Boolean, Port, Schema, Text
from vxwatch.config.tables import ListOf, Table

Fields = Mapping[str, Any]
"""A checked table: the known fields that it has, as the model holds them."""

_HOST = r"^(\*\.(?=[^.]+\.[^.]))?[^\s*/@?#]+$"
_PARTS = frozenset({"allow", "deny", "ignore"})
_OF_GIT = r"(^|/)\.git(/|$)"


def make_sandbox(fields: Fields) -> model.Sandbox:
    """The sandbox of a task from its checked table."""
    named = {name: value for name, value in fields.items() if name not in _PARTS}
    for part in _PARTS - {"allow"}:
        named |= {f"{part}_{name}": value for name, value in fields.get(part, {}).items()}
    return model.Sandbox(**fields.get("allow", {}), **named)


def check_sandbox(task: Fields, at: At, faults: Faults) -> None:
    """Fields of one task's sandbox, which is at `at`, that need or exclude one another."""
    allow = task.get("sandbox", {}).get("allow", {})
    _check_ports(allow, (*at, "allow"), faults, persistent="persistent" in task)
    if allow.get("git_config") and not any(
        re.search(_OF_GIT, path) for path in allow.get("write", ())
    ):
        message = "a write grant must name .git, of which this opens the config"
        faults.add((*at, "allow", "git_config"), message, 'add ".git/" to allow.write')


def _check_ports(allow: Fields, at: At, faults: Faults, *, persistent: bool) -> None:
    own = {port.inside for port in allow.get("local_binding", ())}
    if own and not persistent:
        message = "only the ports of a persistent task appear on the host"
        faults.add((*at, "local_binding"), message, "inside its sandbox a task may use any port")
    for i, port in enumerate(allow.get("host_ports", ())):
        if port in own:
            message = f"port {port} is the task's own in local_binding, it cannot be the host's too"
            faults.add((*at, "host_ports", i), message)


def _path_fault(path: str) -> str | None:
    if path.startswith("!"):
        return "a grant takes nothing back; deny does"
    if path.startswith("~") and path[1:2] not in {"", "/"}:
        return "only your own home has a short name: ~/"
    return None


def _socket_fault(path: str) -> str | None:
    return _path_fault(path) or ("a socket has a name, not a pattern" if "*" in path else None)


class _Bridges:
    """A list of ports to bridge; the result are `model.Port` values."""

    __slots__ = ()

    _pair = Table(
        {
            "port": (Port(), "the port inside the sandbox"),
            "host": (Port(), "the port on the host's loopback"),
        },
        rules={"required": ["port", "host"]},
    )

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The pairs, no port of either side twice."""
        if not isinstance(value, list):
            faults.expected(at, "a list of ports", value)
            return ()
        before = len(faults.found)
        ports = [self._port(one, (*at, i), faults) for i, one in enumerate(value)]
        if len(faults.found) == before:
            for i, port in enumerate(ports):
                if port.inside in [other.inside for other in ports[:i]]:
                    faults.add((*at, i), f"port {port.inside} is listed twice")
                elif port.host in [other.host for other in ports[:i]]:
                    faults.add((*at, i), f"port {port.host} of the host is listed twice")
        return tuple(ports)

    def schema(self) -> Schema:
        """An array of numbers and pairs."""
        item = {"anyOf": [Port().schema(), self._pair.schema()]}
        return {"type": "array", "items": item, "uniqueItems": True}

    def _port(self, value: Any, at: At, faults: Faults) -> model.Port:
        if not isinstance(value, dict):
            number = Port().check(value, at, faults)
            return model.Port(number, number)
        fields = self._pair.check(value, at, faults)
        for name in ("port", "host"):
            if name not in value:
                faults.add((*at, name), "is missing", "write { port = 5173, host = 8080 }")
        return model.Port(fields.get("port", 0), fields.get("host", 0))


class _Sockets:
    """`true`, or a list of paths. Result: the paths; none of them for `true`."""

    __slots__ = ()

    _paths = ListOf(
        Text("the path of a socket", _socket_fault, {"pattern": r"^(?!~[^/])[^!*][^*]*$"})
    )

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The paths."""
        if value is True:
            return ()
        if not isinstance(value, list):
            faults.expected(at, "true or a list of paths", value, _in_a_list(value))
            return ()
        return self._paths.check(value, at, faults)

    def schema(self) -> Schema:
        """`true` or an array."""
        return {"anyOf": [{"const": True}, self._paths.schema()]}


class _Hosts:
    """A list of host patterns, or `true` where that means something. Result: canonical texts."""

    __slots__ = ("_every",)

    _texts = ListOf(Text("a host", extra={"pattern": _HOST}))

    def __init__(self, *, every: bool) -> None:
        self._every = every

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The patterns, each once."""
        from vxwatch import hosts  # noqa: PLC0415 - only who grants network pays for it

        if self._every and value is True:
            return (hosts.EVERY_HOST,)
        if not isinstance(value, list):
            what = "true or a list of hosts" if self._every else "a list of hosts"
            faults.expected(at, what, value, _in_a_list(value))
            return ()
        before = len(faults.found)
        found: list[str] = []
        for i, text in enumerate(self._texts.check(value, at, faults)):
            if len(faults.found) == before:
                try:
                    found.append(str(hosts.parse(text)))
                except ValueError as error:
                    faults.add((*at, i), f"{shown(text)}: {error}")
        return tuple(dict.fromkeys(found))

    def schema(self) -> Schema:
        """An array; or `true`."""
        texts = self._texts.schema()
        return {"anyOf": [{"const": True}, texts]} if self._every else texts


def _in_a_list(value: object) -> str:
    return f"write [{shown(value)}]" if isinstance(value, str) else ""


_PATH = Text("a path or a glob", _path_fault, {"pattern": r"^(?!~[^/])[^!]"})
_ALLOW = Table(
    {
        "read": (ListOf(_PATH), "paths or globs the task may read"),
        "write": (ListOf(_PATH), "paths or globs the task may write and read; dir/ is created"),
        "local_binding": (_Bridges(), "ports of the task that appear on the host's loopback"),
        "host_ports": (
            ListOf(Port(), unique=True),
            "ports of the host's loopback that the task may reach",
        ),
        "network": (
            _Hosts(every=True),
            "hosts the task may connect to: example.com, *.example.com, host:443; or true for all",
        ),
        "unix_sockets": (
            _Sockets(),
            "unix sockets: true for the task's own, or paths of host sockets it may use, too",
        ),
        "pty": (Boolean(), "pseudo-terminals of the task's own"),
        "git_config": (Boolean(), "config and hooks of a .git that a write grant names"),
    }
)
_DENY = Table(
    {
        "read": (ListOf(_PATH), "paths or globs taken back from all grants"),
        "write": (ListOf(_PATH), "paths or globs that stay as they are, in write grants as well"),
        "network": (_Hosts(every=False), "hosts taken back from all that network grants"),
    }
)
_IGNORE = Table(
    {
        "read": (ListOf(_PATH), "paths or globs whose refused reads do not fail the task"),
        "write": (ListOf(_PATH), "paths or globs whose refused writes do not fail the task"),
        "network": (_Hosts(every=False), "hosts to which refused connections do not fail the task"),
    }
)
SANDBOX = Table(
    {
        "allow": (_ALLOW, "what the task may touch"),
        "deny": (_DENY, "what is taken back, applied last"),
        "ignore": (_IGNORE, "what is refused without failing the task"),
        "weaker_when_nested": (
            Boolean(),
            "run in a container that allows no /proc of the sandbox's own, with that of the container",
        ),
    }
)
"""The fields of `sandbox`."""


def _allowing(granted: Schema) -> Schema:
    """A task whose `sandbox.allow` is so."""
    allow = {"required": ["allow"], "properties": {"allow": granted}}
    return {"required": ["sandbox"], "properties": {"sandbox": allow}}


BINDING = _allowing(
    {"required": ["local_binding"], "properties": {"local_binding": {"minItems": 1}}}
)
"""What JSON Schema finds in a task whose ports appear on the host."""

GIT_CONFIG: Schema = {
    "if": _allowing({"required": ["git_config"], "properties": {"git_config": {"const": True}}}),
    "then": _allowing(
        {"required": ["write"], "properties": {"write": {"contains": {"pattern": _OF_GIT}}}}
    ),
}
"""What a task that opens git's config must have, too."""
