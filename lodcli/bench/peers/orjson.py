"""orjson, line by line, and NumPy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import orjson


def version() -> str:
    """Return the measured version."""
    return str(orjson.__version__)


def threads(count: int) -> None:
    """Do nothing: orjson uses one thread."""


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of a script for JSON lines, with orjson."""
    return _script().line_by_line(op, inputs, orjson.loads, orjson.dumps)  # type: ignore[no-any-return]


def _script() -> Any:
    """Return the module stdlib_json.py beside this file; works in an interpreter without lod."""
    path = Path(__file__).with_name("stdlib_json.py")
    spec = importlib.util.spec_from_file_location("lod_bench_stdlib_json", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
