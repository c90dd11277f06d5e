"""What pages are told, as vx sends it to the program before the bridge: one packet of bounded size."""

import json
from collections.abc import Mapping, Sequence

LARGEST = 100_000
"""Bytes of a packet. A larger one may be refused by the system."""


def encode(version: str, *, servers: bool, failed: Sequence[Mapping[str, str]]) -> bytes:
    """The packet; outputs are cut at their beginning until it is small enough.

    `version` names the last good state. `servers`: others came up for it. `failed`: of each task
    that failed its `task`, `how` it ended, and its `output`.
    """
    room = LARGEST
    while True:
        share = room // (len(failed) or 1)
        told = [one | {"output": _end_of(one["output"], share)} for one in map(dict, failed)]
        value = {"version": version, "servers": servers, "failed": told}
        packet = json.dumps(value).encode()
        if len(packet) <= LARGEST:
            return packet
        room //= 2


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else "...\n" + text[len(text) - most :]
