"""Timing and comparing epochs of loaders, independent of their order.

Imports only NumPy: peers of `lod bench load` run this file by its path, in other interpreters too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np


def way(epoch: Callable[[], Iterable[tuple[Any, int]]]) -> tuple[Any, Any]:
    """Return the function to time, and the values to compare: counts, and an order-independent sum.

    Args:
        epoch: returns batches: their rows, float32, and their number of sequences.
    """

    def run() -> list[Any]:
        return [np.array([[len(rows), count] for rows, count in epoch()]).sum(0)]

    def compared(counts: list[Any]) -> list[Any]:
        sums = (rows.view(np.uint32).sum(dtype=np.uint64) for rows, _ in epoch())
        return [*counts, np.array([sum(map(int, sums)) % 2**63])]

    return run, compared


def batched_way(items: Callable[[], Iterable[Any]], tokens: int) -> tuple[Any, Any]:
    """Return `way` of batches of the rows of sequences; `items` returns those of an epoch."""
    return way(lambda: _batched(items(), tokens))


def _batched(items: Iterable[Any], tokens: int) -> Iterator[tuple[Any, int]]:
    """Yield batches of the rows of sequences; `tokens` is the maximum number of rows."""
    held: list[Any] = []
    rows = 0
    for item in items:
        if held and rows + len(item) > tokens:
            yield np.concatenate(held), len(held)
            held, rows = [], 0
        held.append(item)
        rows += len(item)
    if held:
        yield np.concatenate(held), len(held)
