"""Reads a TensorArray of a container without holding its rows in memory."""

from __future__ import annotations

from collections.abc import Iterator

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.container import header
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core.errors import naming, naming_file
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import StreamedArray, TensorSpec, find
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.time_steps import IndexMap


def stored_index_map(source: ContainerSource, spec: TensorSpec) -> IndexMap:
    """Return the map that packs a TensorArray.

    Raises:
        LodError: the order does not name each sequence once, or there are more or fewer steps.
    """
    path = header.part_path(spec.name, "order")
    rows = source.rows_at(path)
    order = rows.read(0, rows.entry.shape[0])
    with naming(source._label, path):
        index_map = IndexMap(order, source._index(spec.outer))
        held, expected = spec.levels[0].items, int(index_map.outer.lengths(-1).max(initial=0))
        if held != expected:  # before allocating memory for this number
            raise ShapeMismatchError(f"expected {expected} steps, found {held}")
    return index_map


def streamed(source: ContainerSource, name: str, label: str) -> StreamedArray:
    """Return a TensorArray whose rows are read on demand."""
    spec = find(source.schema, name)
    count = spec.rows or 0
    step = max(1, batch_bytes(BATCH_BYTES) // max(1, spec.row_bytes))

    def blocks() -> Iterator[Array]:
        with naming_file(label):
            for start in range(0, count, step):
                yield source.read_rows(name, start, min(start + step, count))

    index_map = stored_index_map(source, spec)
    return StreamedArray(spec.dtype, spec.row_shape, source.lods[name], index_map, blocks)
