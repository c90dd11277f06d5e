"""The JSON Schemas that vx ships for what it prints."""

import json
import os
from typing import Any

import fastjsonschema

import vxwatch

PLACE = os.path.join(os.path.dirname(vxwatch.__file__), "config")


def checked(text: str, name: str) -> Any:
    """The value of a JSON text that the schema `vx.NAME.schema.json` accepts."""
    with open(os.path.join(PLACE, f"vx.{name}.schema.json")) as file:
        validate = fastjsonschema.compile(json.load(file))
    return validate(json.loads(text))
