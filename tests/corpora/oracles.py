"""Read a file with other libraries, as Python values, and compare the result with `lod`."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.formats.core.names import name_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Maximum of a tensor; further values are only counted.
MOST_ITEMS = 1000

Columns = dict[str, list[Any]]


def _arrow(path: Path) -> Columns:
    import pyarrow as pa

    return _columns(pa.ipc.open_file(path.read_bytes()).read_all())


def _arrow_stream(path: Path) -> Columns:
    import pyarrow as pa

    return _columns(pa.ipc.open_stream(path.read_bytes()).read_all())


def _parquet(path: Path) -> Columns:
    import pyarrow.parquet as pq

    return _columns(pq.ParquetFile(path).read())


def _columns(table: Any) -> Columns:
    found: Columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        # Dates and other types that no tensor holds are left out.
        try:
            values = column.slice(0, MOST_ITEMS).to_pylist()
        except (ValueError, OverflowError, NotImplementedError, KeyError):
            continue
        found[name] = Counted(values, len(column))
    return found


class Counted(list[Any]):
    """The first values of a column, and how many there are."""

    def __init__(self, values: list[Any], total: int) -> None:
        super().__init__(values)
        self.total = total


def _jsonl(path: Path) -> Columns:
    values = [json.loads(line) for line in _text(path).split("\n") if line]
    if values and isinstance(values[0], dict):
        return {name: [value.get(name) for value in values] for name in values[0]}
    return {"data": values}


def _csv(separator: str) -> Callable[[Path], Columns]:
    def read(path: Path) -> Columns:
        rows = list(csv.reader(_text(path).splitlines(), delimiter=separator, strict=True))
        return {name: [row[n] for row in rows[1:]] for n, name in enumerate(rows[0])}

    return read


def _text(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        import gzip

        data = gzip.decompress(data)
    return data.decode("utf-8-sig")


def _npz(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as archive:
        return {name: list(archive[name]) for name in archive.files if archive[name].ndim}


def _npy(path: Path) -> Columns:
    array = np.load(path, allow_pickle=False)
    return {"data": list(array)} if array.ndim else {}


def _safetensors(path: Path) -> Columns:
    from safetensors.numpy import load_file

    return {name: list(array) for name, array in load_file(path).items() if array.ndim}


def hdf5_datasets(path: Path) -> dict[str, Any]:
    """Return the datasets of numbers with a row axis, by path; few and small ones."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if len(found) < 8 and isinstance(item, h5py.Dataset) and item.shape:
            try:
                if item.dtype.kind in "biufc" and item.size <= 200_000:
                    found[f"/{name}"] = item[()]
            except (OSError, TypeError, ValueError, RuntimeError):
                pass  # a missing filter, or damage

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return found


ORACLES: dict[str, Callable[[Path], Columns]] = {
    "arrow": _arrow,
    "arrow-stream": _arrow_stream,
    "parquet": _parquet,
    "jsonl": _jsonl,
    "csv": _csv(","),
    "tsv": _csv("\t"),
    "npz": _npz,
    "npy": _npy,
    "safetensors": _safetensors,
}


def difference(columns: Columns, name: str, tensor: LoDTensor) -> str | None:
    """Return how a tensor differs from the columns, None if it does not."""
    called = {name_of(column): values for column, values in columns.items()}
    owner = next((one for one in called if name == one or name.startswith(f"{one}.")), None)
    if owner is None:
        return f"{name}: no such column"
    values, path = called[owner], name[len(owner) + 1 :]
    if tensor.marks.tells_records:
        path = path.rpartition(".")[0]
    count = values.total if isinstance(values, Counted) else len(values)
    if len(tensor) != count:
        return f"{name}: {len(tensor)} items, expected {count}"
    for number, item in enumerate(nested(tensor[: min(count, MOST_ITEMS)])):
        expected = _part(values[number], path) if path else values[number]
        if tensor.marks.tells_records:
            expected = _present(expected, tensor.lod.n_levels)
        if not _same(expected, item):
            return f"{name}, item {number}: {str(item)[:80]}, expected {str(expected)[:80]}"
    return None


def nested(tensor: LoDTensor) -> Any:
    """Return a tensor as nested lists, made by plain loops if it holds no nulls and no units."""
    if tensor.nulls or tensor.marks.unit:
        return tensor.to_list()
    items = tensor.data.tolist()
    for lengths in reversed(tensor.recursive_sequence_lengths()):
        left = iter(items)
        items = [[next(left) for _ in range(length)] for length in lengths]
    return items


def _part(value: Any, path: str) -> Any:
    """Return the values below the fields of a path, in all lists."""
    if not path or value is None:
        return value
    if isinstance(value, tuple):  # of a map
        value = {"key": value[0], "value": value[1]}
    if isinstance(value, dict):
        for field, inner in value.items():
            called = name_of(field)
            if path == called or path.startswith(f"{called}."):
                return _part(inner, path[len(called) + 1 :])
        raise KeyError(path)
    return [_part(one, path) for one in value]


def _present(value: Any, levels: int) -> Any:
    """Return the validity of each record below this many lists."""
    if not levels:
        return value is not None
    return None if value is None else [_present(one, levels - 1) for one in value]


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, np.ndarray | np.generic):
        expected = expected.tolist()
    if isinstance(found, str | bytes):
        found = list(found.encode() if isinstance(found, str) else found)
    if expected is None:
        return found is None or bool(found == [])
    if isinstance(expected, str) and not isinstance(found, list):
        expected = float(expected) if isinstance(found, float) else int(expected)
    if isinstance(expected, str):
        expected = expected.encode()
    if isinstance(expected, bytes):
        expected = list(expected)
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(_same, expected, found))
        )
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return bool(expected == found)
