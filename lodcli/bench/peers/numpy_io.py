"""NumPy's npy files: written, read, and mapped into memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def version() -> str:
    """Return the measured version."""
    return np.__version__


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op on files with NumPy."""
    if op in ("write_synced", "verify"):
        return {}
    data, offsets = inputs["data"], inputs["offsets"]
    rows_file = os.path.join(inputs["folder"], "rows.npy")
    offsets_file = os.path.join(inputs["folder"], "offsets.npy")

    def write() -> None:
        np.save(rows_file, data)
        np.save(offsets_file, offsets)

    def read() -> list[Any]:
        return [np.load(rows_file), np.load(offsets_file)]

    def each() -> list[Any]:
        found = []
        for n in inputs["wanted"].tolist():
            bounds, rows = np.load(offsets_file, mmap_mode="r"), np.load(rows_file, mmap_mode="r")
            found.append(np.array(rows[bounds[n] : bounds[n + 1]]))
        return found

    write()
    if op == "write":
        return {"save": (write, lambda _: read())}
    if op == "read":
        return {"load": (read, list)}
    if op == "open_and_sequence":
        return {"load mmap": (each, list)}
    mapped = np.load(rows_file, mmap_mode="r")

    def picked() -> list[Any]:
        return [np.array(mapped[offsets[n] : offsets[n + 1]]) for n in inputs["wanted"].tolist()]

    return {"mmap": (picked, list)}
