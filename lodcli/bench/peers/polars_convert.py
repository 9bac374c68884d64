"""Polars reading and writing JSON lines and Parquet."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import polars as pl

from lodcli.bench.peers.polars import version
from lodcli.bench.peers.stdlib_json import save, saved

__all__ = ["convert", "version"]


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of a conversion with Polars."""
    return _OPS[op](inputs) if op in _OPS else {}


def _save(frame: Any, target: str, dtype: Any) -> None:
    lists = frame["data"]
    offsets = np.concatenate([[0], np.cumsum(lists.list.len().to_numpy())]).astype(np.int64)
    values = lists.explode(empty_as_null=False).to_numpy()
    save(target, values.astype(dtype, copy=False), offsets)


def _reading(read: Any) -> Any:
    def ways(inputs: dict[str, Any]) -> dict[str, Any]:
        target, dtype = inputs["target"], inputs["data"].dtype

        def call() -> None:
            _save(read(inputs["source"]), target, dtype)

        return {read.__name__: (call, lambda _: saved(target))}

    return ways


def _write_jsonl(inputs: dict[str, Any]) -> dict[str, Any]:
    bounds = inputs["offsets"].tolist()
    rows = [inputs["data"][start:stop] for start, stop in itertools.pairwise(bounds)]
    frame, target = pl.DataFrame({"data": rows}), inputs["target"]

    def arrays(_: Any) -> list[Any]:
        with open(target, "rb") as lines:
            rows = [json.loads(line)["data"] for line in lines]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        values = np.array([value for row in rows for value in row], inputs["data"].dtype)
        return [values, offsets]

    return {"write_ndjson": (lambda: frame.write_ndjson(target), arrays)}


_OPS = {
    "jsonl_to_lod": _reading(pl.read_ndjson),
    "parquet_to_lod": _reading(pl.read_parquet),
    "lod_to_jsonl": _write_jsonl,
}
