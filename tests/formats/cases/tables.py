"""Tables as pyarrow writes and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content

SUFFIXES = pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".parquet"])
NESTED = [[[1, 2], []], [], [[3]], [[4, 5, 6], [7]]]


def written_by_pyarrow(path: Path, table: Any, records: int = 2, **options: Any) -> Path:
    """Write a table in the format of the extension, in batches; `options` for IpcWriteOptions."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=records)
        return path
    making = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with making(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=records)
    return path


def read_by_pyarrow(path: Path) -> Any:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as file:
        reading = pa.ipc.open_stream if path.suffix == ".arrows" else pa.ipc.open_file
        return reading(file).read_all()


def column(path: Path, name: str = "x", **options: Any) -> LoDTensor:
    return content(path, **options)[name]
