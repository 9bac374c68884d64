"""Python's json, line by line, and NumPy, as most scripts use them."""

from __future__ import annotations

import itertools
import json
import platform
from typing import Any

import numpy as np


def version() -> str:
    """Return the measured version."""
    return f"Python {platform.python_version()}"


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of a script that reads or writes JSON lines."""
    return line_by_line(op, inputs, json.loads, lambda row: json.dumps(row).encode())


def line_by_line(op: str, inputs: dict[str, Any], loads: Any, dumps: Any) -> dict[str, Any]:
    """Return the implementation with functions of the given module."""
    target, dtype = inputs["target"], inputs["data"].dtype

    def read() -> None:
        with open(inputs["source"], "rb") as lines:
            rows = [loads(line)["data"] for line in lines]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = np.fromiter(itertools.chain.from_iterable(rows), dtype, int(offsets[-1]))
        save(target, values, offsets)

    def write() -> None:
        bounds = inputs["offsets"].tolist()
        values = inputs["data"].tolist()
        with open(target, "wb") as lines:
            for start, stop in itertools.pairwise(bounds):
                lines.write(dumps({"data": values[start:stop]}) + b"\n")

    if op == "jsonl_to_lod":
        return {"loads": (read, lambda _: saved(target))}
    if op == "lod_to_jsonl":
        return {"dumps": (write, lambda _: parsed(target, dtype))}
    return {}


def save(target: str, values: Any, offsets: Any) -> None:
    """Save values and offsets as two npy files."""
    np.save(target + ".values.npy", values)
    np.save(target + ".offsets.npy", offsets)


def saved(target: str) -> list[Any]:
    """Return the arrays of `save`."""
    return [np.load(target + ".values.npy"), np.load(target + ".offsets.npy")]


def parsed(path: str, dtype: Any) -> list[Any]:
    """Return the values and offsets of JSON lines."""
    with open(path, "rb") as lines:
        rows = [json.loads(line)["data"] for line in lines]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return [np.array(list(itertools.chain.from_iterable(rows)), dtype), offsets]
