"""The JSON Schemas that editors use for config files, made from the checker's own tables.

They ship as files beside this module: `vx.schema.json` and `vx.workspace.schema.json`. They
accept everything the checker accepts; what needs more than one file, or more than JSON Schema
can say, only the checker refuses. Draft 7, the newest that TOML editors agree on.
"""

import json
from collections.abc import Mapping

from vxwatch.config.schema import PROJECT, WORKSPACE
from vxwatch.config.tables import Table

FILES: Mapping[str, tuple[str, Table]] = {
    "vx.schema.json": ("vx.toml", PROJECT),
    "vx.workspace.schema.json": ("vx.workspace.toml", WORKSPACE),
}


def schema_text(name: str) -> str:
    """What the schema file of this name holds."""
    title, table = FILES[name]
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    return json.dumps({**head, **table.schema()}, indent=2) + "\n"


def write_schemas(directory: str) -> None:
    """Write all schema files into a directory."""
    for name in FILES:
        with open(f"{directory}/{name}", "w", encoding="utf-8") as stream:
            stream.write(schema_text(name))


if __name__ == "__main__":
    write_schemas(__file__.rpartition("/")[0])
