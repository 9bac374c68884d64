"""Statistics of the values of a tensor, in one pass over its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from lodcli.commands.inspect.sequences import plain
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.marks import Decimals, Times
from lodcli.shell.output import figure

# Sums of squares of smaller values do not overflow in float64.
_SQUARED = 1e140
# Values of a piece; as float64 they take half a megabyte.
_PIECE = 1 << 16


@dataclass(frozen=True)
class ValueStatistics:
    """Statistics of all values of a tensor, except those of null rows.

    Attributes:
        count: number of values, nan included.
        nan, infinite, zeros: how many are nan, infinite, or 0.
        min, max: the least and greatest except nan; None if there are none, or they are complex.
        mean, std: mean and standard deviation (of the population) of the finite values; None if
            there are none, or they are complex.
        times: their unit, if they are times.
    """

    count: int
    nan: int
    infinite: int
    zeros: int
    min: int | float | None
    mean: float | None
    max: int | float | None
    std: float | None
    times: Times | None = None

    def of_decimals(self, decimals: Decimals) -> ValueStatistics:
        """Return the statistics of the decimals of which these are the digits."""

        def value(digits: float | None) -> float | None:
            return None if digits is None else float(Decimal(digits).scaleb(-decimals.scale))

        least, mean, most, deviation = map(value, (self.min, self.mean, self.max, self.std))
        return replace(self, min=least, mean=mean, max=most, std=deviation)

    def to_json(self) -> dict[str, Any]:
        """Return the figures by name; infinities, which JSON lacks, become the text inf or -inf."""
        found = asdict(self)
        del found["times"]
        return {name: plain(value) for name, value in found.items()}

    def figures(self, form: str) -> list[str]:
        """Return min, mean, max and std as text: times, and a duration, or numbers in a format."""
        found = [self.min, self.mean, self.max, self.std]
        shown = [figure(value, form) for value in found]
        if self.times is None:
            return shown
        span = Times("duration", self.times.unit)
        if span.unit == "D":  # which is no unit of durations
            span, found[3] = Times("duration", "s"), None if self.std is None else self.std * 86_400
        for place, (value, unit) in enumerate(zip(found, [*[self.times] * 3, span], strict=True)):
            if value is not None and abs(value) < 2**63:
                shown[place] = texts(np.array([round(value)]), unit)[0]
        return shown


def value_statistics(source: IndexedSource, spec: TensorSpec) -> ValueStatistics:
    """Return the statistics of a tensor, read in blocks.

    Mean and deviation are merged from those of the blocks, in float64 or, for large values, long
    doubles.

    References:
        Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample
        variances, 1979.
    """
    count = nan = infinite = zeros = finite = 0
    least: int | float | None = None
    greatest: int | float | None = None
    mean = squares = np.longdouble(0)
    for values in _pieces(ahead(_blocks(source, spec), (spec.rows or 0) * spec.row_bytes)):
        count += values.size
        zeros += int(np.count_nonzero(values == 0))
        if values.dtype.kind == "c":
            nan += int(np.isnan(values).sum())
            infinite += int(np.isinf(values).sum())
            continue
        if values.dtype.kind not in "biu" and values.dtype.itemsize == 2:
            values = values.astype(np.float32)
        low = values.min().item()
        if low != low:  # nan
            missing = np.isnan(values)
            nan += int(missing.sum())
            values = values[~missing]
            if not values.size:
                continue
            low = values.min().item()
        high = values.max().item()
        least = low if least is None else min(least, low)
        greatest = high if greatest is None else max(greatest, high)
        if not (math.isfinite(low) and math.isfinite(high)):
            bounded = np.isfinite(values)
            infinite += int(values.size - bounded.sum())
            values = values[bounded]
            if not values.size:
                continue
            low, high = values.min().item(), values.max().item()
        wide = values.astype(np.longdouble if max(-low, high) > _SQUARED else np.float64)
        here = wide.mean()
        off = here - mean
        total = finite + wide.size
        np.subtract(wide, here, out=wide)
        squares += np.square(wide, out=wide).sum() + off * off * finite * wide.size / total
        mean += off * wide.size / total
        finite = total
    known = finite > 0
    found = ValueStatistics(
        *(count, nan, infinite, zeros, _plain(least)),
        mean=float(mean) if known else None,
        max=_plain(greatest),
        std=float(np.sqrt(squares / finite)) if known else None,
    )
    unit = spec.marks.unit
    if isinstance(unit, Times):
        return replace(found, times=unit)
    return found.of_decimals(unit) if isinstance(unit, Decimals) and unit.scale else found


def _pieces(blocks: Iterable[Array]) -> Iterator[Array]:
    """Yield values in pieces that stay in a cache while several functions pass over them."""
    for block in blocks:
        for start in range(0, block.size, _PIECE):
            yield block[start : start + _PIECE]


def _blocks(source: IndexedSource, spec: TensorSpec) -> Iterator[Array]:
    rows = source.lods[spec.name].rows if spec.rows is None else spec.rows
    if not spec.row_bytes:
        return  # no values: there may be too many rows to loop over
    step = max(1, BATCH_BYTES // max(1, spec.row_bytes))
    for start in range(0, rows or 0, step):
        stop = min(start + step, rows or 0)
        block = source.read_rows(spec.name, start, stop)
        mask = source.read_mask(spec.name, len(spec.levels), start, stop)
        yield (block if mask is None else block[mask]).reshape(-1)


def _plain(value: int | float | None) -> int | float | None:
    return int(value) if isinstance(value, bool) else value
