"""Arrow IPC files, mapped into memory, and Parquet: one list of fixed-size lists a sequence."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from lodcli.bench.peers.pyarrow import threads, version

__all__ = ["io", "threads", "version"]


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op on files with Arrow."""
    if op in ("write_synced", "verify"):
        return {}
    data, width = inputs["data"], inputs["data"].shape[1]
    rows = pa.FixedSizeListArray.from_arrays(data.reshape(-1), width)
    table = pa.table({"data": pa.LargeListArray.from_arrays(inputs["offsets"], rows)})
    path = os.path.join(inputs["folder"], "arrow.ipc")
    parquet = os.path.join(inputs["folder"], "arrow.parquet")

    def write() -> None:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def lists_of(found: Any) -> Any:
        lists = found["data"].combine_chunks()
        return lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists

    def arrays(found: Any) -> list[Any]:
        lists = lists_of(found)
        values = lists.values.flatten().to_numpy().reshape(-1, width)
        return [values, lists.offsets.to_numpy().astype(np.int64)]

    def read(_: Any = None) -> Any:
        with pa.OSFile(path) as file:
            return pa.ipc.open_file(file).read_all()

    def picked(lists: Any, n: int) -> Any:
        start, stop = lists.offsets[n].as_py(), lists.offsets[n + 1].as_py()
        flat = lists.values.values[start * width : stop * width]
        return flat.to_numpy().reshape(-1, width)

    def mapped() -> Any:
        return lists_of(pa.ipc.open_file(pa.memory_map(path)).read_all())

    write()
    if op == "write":
        return {
            "ipc": (write, lambda _: arrays(read())),
            "parquet": (
                lambda: pa.parquet.write_table(table, parquet),
                lambda _: arrays(pa.parquet.read_table(parquet)),
            ),
        }
    if op == "read":
        pa.parquet.write_table(table, parquet)
        return {"ipc": (read, arrays), "parquet": (lambda: pa.parquet.read_table(parquet), arrays)}
    if op == "sequence":
        lists = mapped()
        return {"ipc mmap": (lambda: [picked(lists, n) for n in inputs["wanted"].tolist()], list)}
    return {"ipc mmap": (lambda: [picked(mapped(), n) for n in inputs["wanted"].tolist()], list)}
