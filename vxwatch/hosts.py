"""Host patterns of `allow.network` and `deny.network`: what they may say and what they match.

A pattern is a name, `*.` and a name (everything below it, not the name itself), or an address,
each with a port or without: then it means every port. Names and addresses have one canonical
text, so that the spelling never decides. An address through which a task would reach this machine
or the networks around it counts as granted only where it is listed itself. Resolves nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

EVERY_HOST = "*"
"""The pattern that `network = true` stands for; nobody can write it as one of a list."""
NO_HOST = "nothing.invalid"
"""A pattern that grants nothing, for a box that has a proxy all the same: the name never exists."""

Address = IPv4Address | IPv6Address

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253
_LAST_PORT = 65535
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")
"""Letters that the two generations of international names read differently."""
_REGISTRIES = frozenset(
    "ac asn co com edu firm gen go gob gouv gov gv id ind info ltd me mil ne net nhs nom or org plc sch web".split()  # noqa: SIM905 - a word list
)
"""Second labels under which a country's registry sells names, as in `co.uk`."""

_LOCAL = tuple(
    (ip_network(network), what)
    for what, networks in (
        ("a loopback address", "127.0.0.0/8 ::1/128"),
        ("an address of this machine", "0.0.0.0/8 ::/128"),
        ("a private address", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15 192.0.0.0/24"),
        ("a private address", "100.64.0.0/10 fc00::/7 fec0::/10"),
        ("a link-local address", "169.254.0.0/16 fe80::/10"),
        ("an address of the cloud's own services", "168.63.129.16/32"),
        ("a multicast address", "224.0.0.0/4 ff00::/8"),
        ("a reserved address", "240.0.0.0/4"),
    )
    for network in networks.split()
)
_CARRIERS = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("::/96"))
"""IPv6 networks whose last 32 bits are an IPv4 address that a gateway may go on to."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern. `host` is canonical; for a wildcard it is what must follow the dot."""

    host: str
    port: int | None = None
    wildcard: bool = False

    def __str__(self) -> str:
        host = f"*.{self.host}" if self.wildcard else self.host
        if self.port is None:
            return host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def matches(self, host: str, port: int) -> bool:
        """Whether it names this canonical host at this port."""
        if self.port not in {None, port}:
            return False
        if self.host == EVERY_HOST:
            return True
        return host.endswith(f".{self.host}") if self.wildcard else host == self.host


@dataclass(frozen=True, slots=True)
class Refusal:
    """A connection that was not made, and why: "HOST:PORT, `why`" is a sentence.

    `grants` are the patterns that would allow it; none where one of `deny.network` forbids it.
    """

    host: str
    port: int
    why: str
    grants: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """Host and port as one text."""
        return str(Pattern(self.host, self.port))


@dataclass(frozen=True, slots=True)
class Rules:
    """What one task may connect to."""

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    def refuse(self, host: str, port: int) -> Refusal | None:
        """Why nobody may connect to this canonical host; to be asked before it is looked up."""
        if denied := _first(self.deny, host, port):
            return Refusal(host, port, f"which deny.network forbids ({denied})")
        if not _first(self.allow, host, port):
            return Refusal(host, port, "which nothing grants", (host,))
        return None

    def refuse_address(
        self, host: str, port: int, address: Address, *, own: bool = False
    ) -> Refusal | None:
        """Why nobody may connect to this address, to which the host, which is allowed, led.

        `own`: this machine has the address, though it is a public one.
        """
        text = canonical(str(address))
        if denied := _first(self.deny, text, port):
            return Refusal(host, port, f"which deny.network forbids ({denied}, to which it leads)")
        what = local(address) or ("an address of this machine" if own else None)
        named = (one for one in self.allow if one.host != EVERY_HOST)
        if what is None or _first(named, text, port):
            return None
        if host == text:
            return Refusal(host, port, f"{what}, which nothing grants", (text,))
        why = f"which leads to {text}, {what} that nothing grants"
        return Refusal(host, port, why, (host, text))


def parse(text: str) -> Pattern:
    """The pattern that this text is. Raises ValueError, which says what cannot stand there."""
    if fault := _foreign(text):
        raise ValueError(fault)
    host, port = _split(text)
    wildcard = host.startswith("*.")
    name = canonical(host[2:] if wildcard else host)
    if wildcard and (_address(name) or _is_registry(name)):
        raise ValueError("too wide: name at least a domain that somebody owns, as *.example.com")
    return Pattern(name, port, wildcard)


def patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Patterns from texts that were checked; `EVERY_HOST` among them."""
    return tuple(Pattern(EVERY_HOST) if one == EVERY_HOST else parse(one) for one in texts)


def canonical(host: str) -> str:
    """The one text of this name or address: lower case, ASCII, without a dot at its end.

    An IPv4 address in IPv6 clothes is that IPv4 address. Raises ValueError.
    """
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise ValueError("only an IPv6 address stands in brackets")
    if address := _address(host):
        return str(address)
    name = _ascii(host.removesuffix("."))
    labels = name.split(".")
    if not all(map(_LABEL.fullmatch, labels)) or len(name) > _LONGEST_NAME:
        raise ValueError("neither the name of a host nor an address")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError("no IPv4 address: write four numbers from 0 to 255")
    return name


def local(address: Address) -> str | None:
    """What makes this an address of this machine or of a network around it; None if nothing."""
    for network, what in _LOCAL:
        if address.version == network.version and address in network:
            return what
    inner = _inner(address)
    return local(inner) if inner else None


def _first(candidates: Iterable[Pattern], host: str, port: int) -> Pattern | None:
    return next((one for one in candidates if one.matches(host, port)), None)


def _foreign(text: str) -> str | None:
    """What in this text is no part of a pattern."""
    faults = (
        (not text.isprintable() or any(map(str.isspace, text)), "no space can stand in it"),
        ("://" in text, "only a host, without a scheme"),
        (bool(set("/?#") & set(text)), "only a host, without a path"),
        ("@" in text, "only a host, without a user"),
        (text == EVERY_HOST, "write network = true for every host"),
        (EVERY_HOST in text.removeprefix("*."), "a * stands only at the beginning: *.example.com"),
    )
    return next((fault for found, fault in faults if found), None)


def _split(text: str) -> tuple[str, int | None]:
    if text.count(":") > 1 and not text.startswith("["):
        return text, None  # an IPv6 address without a port
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _LAST_PORT):
        raise ValueError(f"a port is a number from 1 to {_LAST_PORT}")
    return host, int(port)


def _address(host: str) -> Address | None:
    if "%" in host:
        return None  # a zone is a matter of this machine
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _ascii(name: str) -> str:
    if name.isascii():
        return name.lower()
    if _AMBIGUOUS & set(name):
        raise ValueError("write this name as xn--..., it can be read in two ways")
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError("neither the name of a host nor an address") from None


def _is_registry(name: str) -> bool:
    *others, second, last = ("", *name.split("."))
    return not others or (len(others) == 1 and len(last) == 2 and second in _REGISTRIES)  # noqa: PLR2004 - the length of a country's code


def _inner(address: Address) -> IPv4Address | None:
    """The IPv4 address that packets to this one may be carried on to."""
    if isinstance(address, IPv4Address):
        return None
    if any(address in network for network in _CARRIERS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
