"""orjson, line by line, and NumPy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import orjson


def version() -> str:
    """Return the version measured."""
    return str(orjson.__version__)


def threads(count: int) -> None:
    """One thread is all it uses."""


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the way a script reads or writes JSON lines with orjson."""
    return _script().line_by_line(op, inputs, orjson.loads, orjson.dumps)  # type: ignore[no-any-return]


def _script() -> Any:
    """Return the file beside this one, in an interpreter that has nothing of ours too."""
    path = Path(__file__).with_name("stdlib_json.py")
    spec = importlib.util.spec_from_file_location("lod_bench_stdlib_json", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
