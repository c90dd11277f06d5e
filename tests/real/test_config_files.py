"""The files that belong to the configuration are what the checker's tables say."""

import os
from pathlib import Path

import pytest

import vxwatch.config
from vxwatch.config.json_schema import FILES, write_schemas
from vxwatch.config.schema import TASK, WORKSPACE

PAGE = Path(__file__).parents[2] / "docs/configuration.md"


@pytest.mark.parametrize("name", FILES)
def test_the_shipped_schema_is_current(name: str, tmp_path: Path) -> None:
    write_schemas(str(tmp_path))
    shipped = Path(vxwatch.config.__path__[0]) / name
    current = (tmp_path / name).read_text(encoding="utf-8")
    assert shipped.read_text(encoding="utf-8") == current, (
        "run python -m vxwatch.config.json_schema"
    )
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


def test_the_documentation_names_every_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fields = [*TASK.paths(), *WORKSPACE.paths()]
    assert [field for field in fields if f"`{field}`" not in page] == []
