"""Reference results of the sequence ops, in plain loops over rows. Shares no code with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def pieces_of(rows: list[Any], lengths: list[int]) -> list[list[Any]]:
    """Return the rows of each sequence of these lengths."""
    left = iter(rows)
    pieces = [[next(left) for _ in range(length)] for length in lengths]
    assert not list(left), "the lengths do not use up the rows"
    return pieces


def row_lengths(lengths: list[list[int]], level: int) -> list[int]:
    """Return the lengths of the sequences of a level, counted in rows."""
    items: list[Any] = list(range(sum(lengths[-1])))
    for counts in reversed(lengths[level:]):
        items = pieces_of(items, counts)

    def rows_under(item: Any) -> int:
        return 1 if isinstance(item, int) else sum(rows_under(part) for part in item)

    return [rows_under(item) for item in items]


def by_column(data: Array, lengths: list[int], function: Any, pad_value: Any) -> Array:
    """Return function(list of a column's values) per sequence and column; else `pad_value`."""
    flat = data.reshape(data.shape[0], math.prod(data.shape[1:]))
    result = []
    for rows in pieces_of(list(range(len(flat))), lengths):
        for column in range(flat.shape[1]):
            values = [flat[row, column] for row in rows]
            result.append(function(values) if values else pad_value)
    with np.errstate(invalid="ignore"):  # a signalling NaN is converted with a warning
        return np.array(result).reshape(len(lengths), *data.shape[1:])


def extreme(values: list[Any], sign: int) -> int:
    """Return the index of the greatest (sign 1) or least (-1) value, as in golden/README."""
    best = 0
    for place, value in enumerate(values):
        if (value > values[best]) if sign > 0 else (value < values[best]):
            best = place
    return best


def softmax(values: list[float]) -> list[float]:
    """Return e^v over the sum of all e^v."""
    powers = [math.exp(value - max(values)) for value in values]
    return [power / math.fsum(powers) for power in powers]
