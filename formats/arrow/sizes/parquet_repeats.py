"""Columns whose values repeat, for which Parquet gets dictionaries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.sizes.buffers import is_text, offsets_of, valid_items, values_of
from lodcli.kernels.index.checks import Array, Offsets

# Values drawn to estimate how many different ones there are.
_SAMPLE = 1 << 14
# Of as many values, those of one stretch side by side, of which runs are counted.
_STRETCH = _SAMPLE // 16
# pyarrow gives up dictionaries of more than 1 MiB, and then stores the values as they are. One that
# is given up late still makes a file 2 to 20 % smaller, and the estimate is some percent wrong.
_MOST_BYTES = (1 << 20) * 17 // 16
# Of the values: if more differ, a dictionary saves little, and compressed values are smaller.
_MOST_DISTINCT = 0.5
# Of values side by side: if fewer differ, as of sorted values that are each there 8 times, even a
# dictionary that is given up makes a file smaller than compression without it, but for zstd.
_MOST_DISTINCT_NEAR = 0.15
# Compression makes runs of 2 to 6 equal values smaller than a dictionary does, as of sorted values,
# and in a third of the time: a dictionary must save as much among the first values of such runs.


def repeating_leaves(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Return the paths of the columns in a Parquet file for which a dictionary is worth trying.

    To try it takes several times as long as to write the values: each is looked up, and those in
    pages before the dictionary is full are stored twice.

    Args:
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
    elif len(array) and (types.is_large_list(kind) or types.is_list(kind)):
        # Not `flatten`, which imports pyarrow.compute.
        offsets = offsets_of(array)
        start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        yield from leaves(array.values.slice(start, count), f"{path}.list.element")
    elif types.is_nested(kind):  # lists: writers make no maps
        yield from leaves(array.flatten(), f"{path}.list.element")
    else:
        yield path, array


def _repeat(arrays: Sequence[Any]) -> bool:
    """Return whether a dictionary of the values is worth trying, from a sample."""
    kind = arrays[0].type
    # Nulls are not stored, so they are no values that repeat.
    valid = sum(len(array) - array.null_count for array in arrays)
    if types.is_dictionary(kind) or types.is_boolean(kind) or types.is_null(kind) or not valid:
        return True
    near = _taken(arrays, _side_by_side(valid))
    if _distinct(near) <= _MOST_DISTINCT_NEAR * len(near):
        return True
    sample = _taken(arrays, _drawn(valid))
    drawn, found = len(sample), _distinct(sample)
    distinct = found if drawn == valid else _all_distinct(found, drawn, valid)
    width = _size(sample) / drawn
    stretches = [near[start : start + _STRETCH] for start in range(0, len(near), _STRETCH)]
    firsts = valid * sum(map(_firsts, stretches)) / len(near)
    return bool(distinct * width <= _MOST_BYTES and distinct <= _MOST_DISTINCT * firsts)


def _side_by_side(count: int) -> Offsets:
    """Return the places of stretches that are spread over all of `count` values."""
    size = min(count, _STRETCH)
    stretches = max(1, min(_SAMPLE, count) // _STRETCH)
    starts = np.arange(stretches) * (count - size) // max(1, stretches - 1)
    return (starts[:, None] + np.arange(size)).ravel()


def _drawn(count: int) -> Offsets:
    """Return the places of all of `count` values if they are few, else random ones."""
    if count <= _SAMPLE:
        return np.arange(count)
    places = np.sort(np.random.default_rng(0).integers(0, count, _SAMPLE))
    # Each place once: a value drawn twice is no value that repeats.
    once: Offsets = places[np.append(True, places[1:] != places[:-1])]
    return once


def _taken(arrays: Sequence[Any], places: Offsets) -> Array | list[bytes]:
    """Return values that are not null, by their ascending places among all of these."""
    bounds = np.cumsum([0, *(len(array) - array.null_count for array in arrays)])
    cuts = pairwise(np.searchsorted(places, bounds).tolist())
    parts: list[Any] = [
        _values(array, places[start:stop] - begin)
        for array, begin, (start, stop) in zip(arrays, bounds, cuts, strict=False)
    ]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else list(chain(*parts))


def _values(array: Any, places: Offsets) -> Array | list[bytes]:
    """Return values that are not null, by their places among these, as integers or bytes.

    Not `take` and others of Arrow, which import pyarrow.compute, and that is slow.
    """
    if array.null_count:
        places = np.flatnonzero(valid_items(array))[places]
    if not is_text(array.type):
        width = array.type.bit_width // 8
        if width in (1, 2, 4, 8):
            return values_of(array, np.dtype(f"u{width}"))[places]
        begins = (array.offset + places) * width
        ends, letters = begins + width, array.buffers()[1]
    else:
        offsets = offsets_of(array)
        begins, ends, letters = offsets[places], offsets[places + 1], array.buffers()[2]
    data = memoryview(letters or b"")
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    return [data[begin:end].tobytes() for begin, end in pairs]


def _distinct(values: Array | list[bytes]) -> int:
    # Not `unique`, which takes several times as long for numbers of which most differ.
    return _runs(np.sort(values)) if isinstance(values, np.ndarray) else len(set(values))


def _firsts(stretch: Array | list[bytes]) -> int:
    """Return the number of first values of short runs, and of all values of long ones."""
    runs = _runs(stretch)
    return len(stretch) if runs <= _MOST_DISTINCT_NEAR * len(stretch) else runs


def _runs(values: Array | list[bytes]) -> int:
    """Return the number of runs of equal values, of which there are some."""
    if isinstance(values, np.ndarray):
        return int(np.count_nonzero(values[1:] != values[:-1])) + 1
    return sum(one != other for one, other in pairwise(values)) + 1


def _size(values: Array | list[bytes]) -> int:
    """Return the bytes of values; of each text also those of its length."""
    if isinstance(values, np.ndarray):
        return values.nbytes
    return sum(map(len, values)) + 8 * len(values)


def _all_distinct(found: int, drawn: int, count: int) -> float:
    """Return about how many of `count` values differ, of which `drawn` were drawn, each once.

    Values drawn from D, each as likely as the others, have D(1 - exp(-drawn / D)) different ones.
    """
    low, high = float(found), 64.0 * drawn
    while high - low > 0.01 * low:
        middle = (low + high) / 2
        if middle * -math.expm1(-drawn / middle) < found:
            low = middle
        else:
            high = middle
    return high * -math.expm1(-count / high)
