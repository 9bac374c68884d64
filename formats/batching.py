"""Where to cut tensors into batches of whole outermost items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lodcli.formats.schema import Schema, TensorSpec
from lodcli.kernels.checks import Offsets


def groups(schema: Schema) -> list[list[TensorSpec]]:
    """Return the tensors that share their outermost level together, the others alone."""
    found: dict[str, list[TensorSpec]] = {}
    for spec in schema:
        alone = spec.array or not spec.levels
        key = f"={spec.name}" if alone else spec.levels[0].key
        found.setdefault(key, []).append(spec)
    return list(found.values())


def cuts(
    item_offsets: Sequence[Offsets], row_bytes: Sequence[int], limit_bytes: int
) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the outermost items of each batch; at least one batch.

    Args:
        item_offsets: for each tensor, in rows, where its outermost items begin and end.
        row_bytes: for each tensor, bytes of a row.
        limit_bytes: of all tensors together; a single item may exceed it.
    """
    ends = np.zeros(item_offsets[0].size, np.int64)
    for offsets, size in zip(item_offsets, row_bytes, strict=True):
        ends += offsets * size
    count = ends.size - 1
    # Items without bytes cost their index: many empty ones must be cut as well.
    ends += np.arange(count + 1) * 8
    start = 0
    while True:
        stop = int(np.searchsorted(ends, ends[start] + limit_bytes, side="right")) - 1
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop
        if start >= count:
            return
