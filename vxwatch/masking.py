"""Takes secret values out of bytes, however the bytes are cut. Pure; memory is bounded by the longest.

Every byte that belongs to an occurrence of a value is replaced, also where occurrences overlap;
overlapping ones become one mask. A stream holds back only what may be the start of a value. What
a value was turned into is found where the turning is common and keeps it whole: its lines, and
JSON, percent and base64 encoding. A value that was split, reversed or encrypted is not found.
"""

import json
from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import Any

MASK = b"***"

SHORTEST = 4
"""Bytes of the shortest value that is masked: a shorter one stands in every other word."""

SHORTEST_PART = 8
"""Bytes of the shortest line or encoded core that is masked by itself."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Masker:
    """The values known so far; once known, a value stays masked."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        self._forms: list[bytes] = []
        self.learn(values)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def learn(self, values: Iterable[bytes]) -> None:
        """Mask these too, but for those that are not `maskable`."""
        found = set(self._forms).union(*map(_forms, values))
        self._forms = sorted(found)

    def mask(self, data: bytes) -> bytes:
        """The data, which is all there is, without any value."""
        parts, at = [], 0
        for start, end in self.covered(data):
            parts += [data[at:start], MASK]
            at = end
        return b"".join((*parts, data[at:])) if at else data

    def text(self, text: str) -> str:
        """The text without any value."""
        if not self._forms:
            return text
        # As the values are encoded; what could not be decoded survives.
        return self.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def within(self, value: Any) -> Any:
        """The same value with `text` applied to each text in its lists and tables, names excepted."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {name: self.within(one) for name, one in value.items()}
            case list() | tuple():
                return [self.within(one) for one in value]
            case _:
                return value

    def covered(self, data: bytes) -> list[tuple[int, int]]:
        """Where values stand, in order; those that overlap as one."""
        found = sorted(place for form in self._forms for place in _places(form, data))
        merged: list[tuple[int, int]] = []
        for start, end in found:
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def unfinished(self, data: bytes) -> int:
        """Where the earliest value begins that may go on after the end of the data; else its end."""
        return min((_unfinished(form, data) for form in self._forms), default=len(data))


class MaskedStream:
    """One stream, in pieces. What it gives does not depend on where the pieces were cut.

    `held` says that bytes were taken which may be the start of a value. Whoever feeds it calls
    `pause` when nothing came for a while: fewer than `SHORTEST` bytes are then shown, more are
    masked as if the value were whole.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._rest = b""  # the start of a value, perhaps
        self._shown = 0  # bytes of it that were given already
        self._masked = False  # as a mask

    @property
    def held(self) -> bool:
        """Whether something was not given yet."""
        return len(self._rest) > self._shown

    def feed(self, data: bytes) -> bytes:
        """What can be shown, now that these bytes came."""
        if not self._masker:
            return data
        data = self._rest + data
        hold = self._masker.unfinished(data)
        parts, at = [], self._shown
        for start, end in self._masker.covered(data):
            if start >= hold:
                break
            if start >= at:
                parts += [data[at:start], MASK]
            elif end > at and not self._masked:
                parts.append(MASK)
            at, self._masked = max(at, end), True
        if hold > at:
            parts.append(data[at:hold])
            at, self._masked = hold, False
        self._rest, self._shown = data[hold:], at - hold
        return b"".join(parts)

    def pause(self) -> bytes:
        """What can be shown, now that nothing more may come for long."""
        if not self.held:
            return b""
        known, self._shown = self._shown, len(self._rest)
        if len(self._rest) < SHORTEST:
            return self._rest[known:]
        masked, self._masked = known and self._masked, True
        return b"" if masked else MASK

    def end(self) -> bytes:
        """What is left, now that nothing more comes."""
        left = self.pause()
        self._rest, self._shown, self._masked = b"", 0, False
        return left


def maskable(value: bytes) -> bool:
    """Whether the value is long enough to be told from other text."""
    return len(value.strip()) >= SHORTEST


def _forms(value: bytes) -> set[bytes]:
    """The value and what it is commonly turned into."""
    if not maskable(value):
        return set()
    parts = {line.strip() for line in value.splitlines()} | set(_base64_cores(value))
    long = {part for part in parts if len(part) >= SHORTEST_PART}
    return {value, value.strip(), _as_json(value), _percent_encoded(value)} | long


def _as_json(value: bytes) -> bytes:
    text = value.decode("utf-8", "surrogateescape")
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")


def _percent_encoded(value: bytes) -> bytes:
    return b"".join(b"%c" % byte if byte in _PLAIN else b"%%%02X" % byte for byte in value)


def _base64_cores(value: bytes) -> Iterator[bytes]:
    """What base64 makes of the value alone wherever it stands in what is encoded."""
    for before in range(3):
        code = b2a_base64(bytes(before) + value, newline=False)
        core = code[(8 * before + 5) // 6 : 8 * (before + len(value)) // 6]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _places(form: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = data.find(form, at + 1)


def _unfinished(form: bytes, data: bytes) -> int:
    first, size = form[:1], len(data)
    at = data.find(first, max(0, size - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(first, at + 1)
    return size if at < 0 else at
