"""safetensors: the rows and the offsets as two tensors of one file."""

from __future__ import annotations

import os
from importlib.metadata import version as installed
from typing import Any

from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def version() -> str:
    """Return the measured version."""
    return installed("safetensors")


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op on files with safetensors."""
    path = os.path.join(inputs["folder"], "rows.safetensors")
    content = {"data": inputs["data"], "offsets": inputs["offsets"]}

    def write() -> None:
        save_file(content, path)

    def write_synced() -> None:
        write()
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def read(_: Any = None) -> list[Any]:
        found = load_file(path)
        return [found["data"], found["offsets"]]

    def each() -> list[Any]:
        found = []
        for n in inputs["wanted"].tolist():
            with safe_open(path, framework="numpy") as file:
                start, stop = file.get_slice("offsets")[n : n + 2]
                found.append(file.get_slice("data")[int(start) : int(stop)])
        return found

    write()
    if op == "write":
        return {"save_file": (write, read)}
    if op == "write_synced":
        return {"save_file": (write_synced, read)}
    if op == "read":
        return {"load_file": (read, list)}
    if op == "open_and_sequence":
        return {"get_slice": (each, list)}
    return {}
