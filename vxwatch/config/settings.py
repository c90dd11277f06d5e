"""The settings of the workspace, from what `vx.workspace.toml` says. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from vxwatch.config.faults import Faults
from vxwatch.config.presets import Presets
from vxwatch.config.schema import WORKSPACE


class Settings(NamedTuple):
    """What `vx.workspace.toml` says; None for what it leaves out."""

    presets: Presets
    members: tuple[str, ...] | None = None
    concurrency: int | str | None = None
    timeout: float | None = None
    affected_base: str | None = None
    cache_dir: str | None = None
    cache_retention: Mapping[str, Any] | None = None
    rules: Mapping[str, bool] | None = None


def read_settings(raw: Any, faults: Faults) -> Settings:
    """The settings of the workspace; if anything is wrong, the default ones with the presets."""
    fields = WORKSPACE.check(raw, (), faults)
    tables = raw.get("presets", {}) if isinstance(raw, dict) else None
    presets = Presets(tables if isinstance(tables, dict) else None, faults)
    return Settings(presets) if faults.found else Settings(**{**fields, "presets": presets})
