"""Reference results of scans, sorting and norms, in plain loops. Shares no code with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def running(values: list[Any], product: bool, exclusive: bool, reverse: bool) -> list[Any]:
    """Return the running sum or product of the values of one column."""
    result = []
    for t in range(len(values)):
        taken = values[t + exclusive :] if reverse else values[: t + 1 - exclusive]
        total: Any = 1 if product else 0
        for value in reversed(taken) if reverse else taken:
            total = total * value if product else total + value
        result.append(total)
    return result


def linear_recurrence(
    a: Any, b: Any, initial: Any, upstream: Any, lengths: list[int], reverse: bool
) -> tuple[Any, Any, Any, Any]:
    """Return the states of rows (N, D), and the gradients for a, b and initial, row by row."""
    wide = np.result_type(a.dtype, np.float64)
    states, of_a, of_b = (np.zeros(a.shape, wide) for _ in range(3))
    of_initial = None if initial is None else np.zeros(initial.shape, wide)
    at = 0
    for s, n in enumerate(lengths):
        rows = list(range(at, at + n))[:: -1 if reverse else 1]
        before = np.zeros(a.shape[1]) if initial is None else initial[s].astype(wide)
        start = before
        for row in rows:
            before = states[row] = a[row].astype(wide) * before + b[row]
        flow = np.zeros(a.shape[1])
        for place in range(n - 1, -1, -1):
            row = rows[place]
            flow = flow + upstream[row]
            of_b[row] = flow
            of_a[row] = flow * np.conj(states[rows[place - 1]] if place else start)
            flow = flow * np.conj(a[row])
        if of_initial is not None:
            of_initial[s] = flow if n else 0
        at += n
    return states, of_a, of_b, of_initial


def greater(a: Any, b: Any) -> bool:
    """Return whether a > b, NaN being the greatest."""
    if a != a:
        return bool(b == b)
    return bool(a > b)


def sorted_places(values: list[Any], descending: bool) -> list[int]:
    """Return the indices that sort the values, by insertion sort; stable."""
    places: list[int] = []
    for place, value in enumerate(values):
        at = len(places)
        while at and (
            greater(value, values[places[at - 1]])
            if descending
            else greater(values[places[at - 1]], value)
        ):
            at -= 1
        places.insert(at, place)
    return places


def alike(a: Any, b: Any) -> bool:
    """Return whether two rows (lists of numbers) are equal; a NaN equals a NaN."""
    return all(x == y or (x != x and y != y) for x, y in zip(a, b, strict=True))


def kept(rows: list[list[Any]], adjacent: bool) -> list[int]:
    """Return the indices of rows that differ from all earlier ones (`adjacent`: from the last)."""
    result: list[int] = []
    for place, row in enumerate(rows):
        earlier = rows[max(0, place - 1) : place] if adjacent else rows[:place]
        if not any(alike(row, other) for other in earlier):
            result.append(place)
    return result


def place_of(value: Any, ordered: list[Any], right: bool) -> int:
    """Return the insertion position of a value among ordered ones: before or after equal ones."""
    if right:
        return sum(not greater(other, value) for other in ordered)
    return sum(greater(value, other) for other in ordered)


def bins(values: list[Any], edges: list[float]) -> list[int]:
    """Return the number of values in each bin; the last one includes its upper edge."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        for b in range(len(counts)):
            top = b == len(counts) - 1 and value == edges[-1]
            if edges[b] <= value < edges[b + 1] or top:
                counts[b] += 1
    return counts


def normed(row: list[float], centred: bool, epsilon: float) -> list[float]:
    """Return a row minus its mean (if `centred`), divided by its root mean square."""
    if not row:
        return []
    mean = math.fsum(row) / len(row) if centred else 0.0
    square = math.fsum((x - mean) ** 2 for x in row) / len(row)
    return [(x - mean) / math.sqrt(square + epsilon) for x in row]
