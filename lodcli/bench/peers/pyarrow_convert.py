"""Arrow reading JSON lines, IPC files and Parquet into memory, and writing the latter two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from lodcli.bench.peers.pyarrow import threads, version
from lodcli.bench.peers.stdlib_json import save, saved

__all__ = ["convert", "threads", "version"]


def convert(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of a conversion with Arrow."""
    return _OPS[op](inputs) if op in _OPS else {}


def _arrays(table: Any, dtype: Any) -> list[Any]:
    lists = table["data"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values.to_numpy(zero_copy_only=False)
    return [values[offsets[0] : offsets[-1]].astype(dtype, copy=False), offsets - offsets[0]]


def _jsonl(inputs: dict[str, Any]) -> dict[str, Any]:
    target, dtype = inputs["target"], inputs["data"].dtype

    def call() -> None:
        save(target, *_arrays(pyarrow.json.read_json(inputs["source"]), dtype))

    return {"json.read_json": (call, lambda _: saved(target))}


def _read_ipc(inputs: dict[str, Any]) -> dict[str, Any]:
    dtype = inputs["data"].dtype

    def call() -> Any:
        # Not a memory map, which would not read the data.
        with pa.OSFile(inputs["source"]) as file:
            return pa.ipc.open_file(file).read_all()

    return {"ipc into memory": (call, lambda table: _arrays(table, dtype))}


def _read_parquet(inputs: dict[str, Any]) -> dict[str, Any]:
    dtype = inputs["data"].dtype
    return {
        "parquet into memory": (
            lambda: pyarrow.parquet.read_table(inputs["source"]),
            lambda table: _arrays(table, dtype),
        )
    }


def _table(inputs: dict[str, Any]) -> Any:
    return pa.table({"data": pa.LargeListArray.from_arrays(inputs["offsets"], inputs["data"])})


def _write_ipc(inputs: dict[str, Any]) -> dict[str, Any]:
    table, target, dtype = _table(inputs), inputs["target"], inputs["data"].dtype

    def call() -> None:
        with pa.OSFile(target, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def arrays(_: Any) -> list[Any]:
        with pa.OSFile(target) as file:
            return _arrays(pa.ipc.open_file(file).read_all(), dtype)

    return {"ipc from memory": (call, arrays)}


def _write_parquet(inputs: dict[str, Any]) -> dict[str, Any]:
    table, target, dtype = _table(inputs), inputs["target"], inputs["data"].dtype
    return {
        "parquet from memory": (
            lambda: pyarrow.parquet.write_table(table, target),
            lambda _: _arrays(pyarrow.parquet.read_table(target), dtype),
        )
    }


_OPS = {
    "jsonl_to_lod": _jsonl,
    "arrow_to_lod": _read_ipc,
    "parquet_to_lod": _read_parquet,
    "lod_to_arrow": _write_ipc,
    "lod_to_parquet": _write_parquet,
}
