"""Columns whose values repeat, for which Parquet gets dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lodcli.formats.arrow.sizes.buffers import array_of

# Values that are compared, side by side and far apart. If nearly all of so many differ, there are
# more than the dictionary of a row group holds.
_SAMPLE, _MOST_DISTINCT = 1 << 14, 0.95


def repeating_leaves(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Return the paths of the columns in a Parquet file for which a dictionary is worth trying.

    To try it takes several times as long as to write the values: each is looked up, and those in
    pages before the dictionary is full are stored twice.

    Args:
        schema: of the records.
        batches: the first ones; from all of them together values are taken.
    """
    found = []
    for number, field in enumerate(schema):
        parts = [leaves(batch.column(number), field.name) for batch in batches]
        if not parts:
            found += [path for path, _ in leaves(pa.nulls(0, field.type), field.name)]
        for same in zip(*parts, strict=True):
            if _repeat([array for _, array in same]):
                found.append(same[0][0])
    return found


def leaves(array: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each column of values of an array, with its path in a Parquet file."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from leaves(array.storage, path)
    elif types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from leaves(array.field(number), f"{path}.{kind.field(number).name}")
    elif types.is_nested(kind):  # lists: writers make no maps
        yield from leaves(array.flatten(), f"{path}.list.element")
    else:
        yield path, array


def _repeat(arrays: Sequence[Any]) -> bool:
    """Return whether values repeat, from a sample."""
    kind = arrays[0].type
    if types.is_dictionary(kind) or types.is_boolean(kind) or types.is_null(kind):
        return True
    # Of parts of each array: joined, they would be copied.
    size = max(1, _SAMPLE // (2 * len(arrays)))
    near = [array.slice(0, size) for array in arrays]
    far = [array.take(array_of(_places(len(array), size))) for array in arrays]
    return any(_few_differ(pa.chunked_array(part)) for part in (near, far))


def _places(count: int, size: int) -> Any:
    return np.arange(0, count, max(1, count // size))


def _few_differ(values: Any) -> bool:
    return bool(pc.count_distinct(values, mode="all").as_py() <= _MOST_DISTINCT * len(values))
