"""Statistics of an index: sequence lengths, and the cost of padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.reports.inspection import Bucket, LevelStatistics, Padding

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.:-=+*#"
BUCKETS = 16
# Up to here counting every length is cheaper than sorting.
_COUNTED = 1 << 20


@dataclass(frozen=True)
class Statistics:
    """All levels of a tensor.

    Attributes:
        levels: outermost first.
        padding: if every level were padded to its longest sequence, one rectangle.
    """

    levels: tuple[LevelStatistics, ...]
    padding: Padding


class Lengths:
    """Counts of the lengths of all sequences of a tensor, collected part by part.

    Memory holds the distinct lengths, not those of all sequences.

    Args:
        names: of the levels, or None.

    >>> lengths = Lengths((None, None))
    >>> lengths.add(LoD.from_lengths([[3, 1], [3, 2, 4, 1]]))
    >>> lengths.add(LoD.from_lengths([[2], [2, 3]]))
    >>> found = lengths.statistics(15, 4)
    >>> found.levels[0].median, found.levels[1].p90, found.levels[0].padding.padded_rows
    (2.0, 4, 27)
    >>> found.padding  # 3 articles of 3 sentences of 4 words
    Padding(rows=15, padded_rows=36, fraction=0.5833333333333334, saved_bytes=84)
    """

    def __init__(self, names: Sequence[str | None]) -> None:
        self._levels = [_Level(number, name) for number, name in enumerate(names)]

    def add(self, lod: LoD) -> None:
        """Count the next outermost items."""
        for level in self._levels:
            finest = level is self._levels[-1]
            lengths = lod.lengths(level.number)
            in_rows = lengths if finest else np.diff(lod.absolute(level.number))
            level.add(lengths, _greatest(in_rows))

    @property
    def items(self) -> list[int]:
        """The number of sequences of each level."""
        return [level.items for level in self._levels]

    def statistics(self, rows: int, row_bytes: int) -> Statistics:
        """Return the figures of all levels."""
        levels = tuple(level.statistics(rows, row_bytes) for level in self._levels)
        padded = rows
        if levels:
            padded = math.prod([levels[0].items, *(level.max or 0 for level in levels)])
        return Statistics(levels, _padding(rows, padded, row_bytes))


def bars(histogram: Sequence[Bucket], *, unicode: bool = True) -> str:
    """Return a histogram as one character per bucket; a blank is an empty bucket.

    >>> bars([Bucket(1, 1, 8), Bucket(2, 2, 0), Bucket(3, 3, 1)])
    '█ ▁'
    """
    marks = BARS if unicode else ASCII_BARS
    most = max((bucket.count for bucket in histogram), default=0)
    return "".join(
        marks[-(-bucket.count * len(marks) // most) - 1] if bucket.count else " "
        for bucket in histogram
    )


class _Level:
    """The distinct lengths of one level, ascending, and how often each occurs."""

    def __init__(self, number: int, name: str | None) -> None:
        self.number = number
        self._name = name
        self._values = self._counts = np.zeros(0, np.int64)
        self._longest_rows = 0

    def add(self, lengths: Offsets, longest_rows: int) -> None:
        """Count lengths; `longest_rows`: most rows of one of these sequences."""
        values, counts = _tally(lengths)
        if self._values.size:
            both = np.concatenate([self._values, values])
            each = np.concatenate([self._counts, counts])
            values, places = np.unique(both, return_inverse=True)
            counts = np.zeros(values.size, np.int64)
            np.add.at(counts, places, each)
        self._values, self._counts = values, counts
        self._longest_rows = max(self._longest_rows, longest_rows)

    @property
    def items(self) -> int:
        """The number of sequences."""
        return int(self._counts.sum())

    def statistics(self, rows: int, row_bytes: int) -> LevelStatistics:
        """Return the figures of the level."""
        values, counts = self._values, self._counts
        items, total = self.items, int((values * counts).sum())
        running = np.cumsum(counts)

        def nth(position: int) -> int:
            """Return the length at this position of the sorted lengths."""
            return int(values[np.searchsorted(running, position, side="right")])

        return LevelStatistics(
            level=self.number,
            name=self._name,
            items=items,
            total=total,
            empty=int(counts[0]) if items and values[0] == 0 else 0,
            min=int(values[0]) if items else None,
            median=(nth((items - 1) // 2) + nth(items // 2)) / 2 if items else None,
            mean=total / items if items else None,
            p90=nth(-(-items * 90 // 100) - 1) if items else None,
            p95=nth(-(-items * 95 // 100) - 1) if items else None,
            p99=nth(-(-items * 99 // 100) - 1) if items else None,
            max=int(values[-1]) if items else None,
            histogram=_histogram(values, counts, nth((items - 1) // 2)) if items else (),
            padding=_padding(rows, items * self._longest_rows, row_bytes),
        )


def _greatest(lengths: Offsets) -> int:
    return int(lengths.max(initial=0))


def _tally(lengths: Offsets) -> tuple[Offsets, Offsets]:
    """Return the distinct lengths, ascending, and how often each occurs."""
    if _greatest(lengths) > _COUNTED:
        values, counts = np.unique(lengths, return_counts=True)
        return values, counts
    counts = np.bincount(lengths)
    values = np.flatnonzero(counts)
    return values, counts[values]


def _histogram(values: Offsets, counts: Offsets, median: int) -> tuple[Bucket, ...]:
    """Return buckets of equal width; of doubling width for lengths far beyond the median."""
    low, high = int(values[0]), int(values[-1])
    if high - low >= BUCKETS and high > 8 * max(median, 1):
        edges = [0, *(2**power for power in range(high.bit_length() + 1))]
        first = max(place for place, edge in enumerate(edges) if edge <= low)
        edges = edges[first:]
    else:
        width = -(-(high - low + 1) // BUCKETS)
        edges = list(range(low, high + width + 1, width))
    # Not np.histogram, which takes five times as long for the few lengths of most tensors.
    places = np.searchsorted(edges[:-1], values, side="right") - 1
    bins = np.zeros(len(edges) - 1, np.int64)
    np.add.at(bins, places, counts)
    return tuple(
        Bucket(start, stop - 1, count)
        for start, stop, count in zip(edges[:-1], edges[1:], bins.tolist(), strict=True)
        if start <= high
    )


def _padding(rows: int, padded_rows: int, row_bytes: int) -> Padding:
    missing = padded_rows - rows
    fraction = missing / padded_rows if padded_rows else 0.0
    return Padding(rows, padded_rows, fraction, missing * row_bytes)
