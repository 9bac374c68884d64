"""orjson, line by line, and NumPy."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import orjson

# By its path, which also works in an interpreter without lod.
_SCRIPT = runpy.run_path(str(Path(__file__).with_name("stdlib_json.py")))


def version() -> str:
    """Return the measured version."""
    return str(orjson.__version__)


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of a script for JSON lines, with orjson."""
    ways: dict[str, Any] = _SCRIPT["line_by_line"](op, inputs, orjson.loads, orjson.dumps)
    return ways
