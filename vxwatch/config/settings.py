"""The settings of the workspace, from what `vx.workspace.toml` says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vxwatch.config.faults import Faults
from vxwatch.config.schema import WORKSPACE


@dataclass(frozen=True, slots=True)
class Settings:
    """What `vx.workspace.toml` says; None for what it leaves out."""

    members: tuple[str, ...] | None = None
    concurrency: int | str | None = None
    timeout: float | None = None
    affected_base: str | None = None
    cache_dir: str | None = None
    cache_retention: Mapping[str, Any] | None = None


def read_settings(raw: Any, faults: Faults) -> Settings:
    """The settings of the workspace; the default ones if anything is wrong."""
    fields = WORKSPACE.check(raw, (), faults)
    return Settings() if faults.found else Settings(**fields)
