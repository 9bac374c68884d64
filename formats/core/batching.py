"""Where to cut tensors into batches of whole outermost items."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.kernels.index.checks import Offsets


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
    parts = list(zip(item_offsets, row_bytes, strict=True))
    count = item_offsets[0].size - 1

    def end(item: int) -> int:
        # Items without bytes cost their index: many empty ones must be cut as well.
        return sum(int(offsets[item]) * size for offsets, size in parts) + 8 * item

    # Looked up and not computed of all items: an index may be as large as there is memory.
    places = range(count + 1)
    start = 0
    while True:
        stop = bisect_right(places, end(start) + limit_bytes, start, key=end) - 1
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop
        if start >= count:
            return
