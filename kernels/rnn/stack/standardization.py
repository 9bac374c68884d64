"""Standardization of rows, as by scikit-learn's StandardScaler.

    y = (x - mean) / std

Computed in float64: a large mean, as of coordinates or times, would cost float32 its digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.weights import require_real
from lodcli.kernels.rnn.stack.run import arithmetic_dtype
from lodcli.kernels.rnn.stack.state_dict import beside_rnns
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.summaries import Summarized

# Roles in a model, the beginnings of names in its state dict, as of a torch module with buffers
# `mean` and `std`: of rows, and of the targets that the model predicts.
ROWS, TARGETS = "standardize", "targets"
MEAN, STD = f"{ROWS}.mean", f"{ROWS}.std"
# Rows computed at a time, because float64 takes twice the memory of float32.
_ROWS = 1 << 14


@construction_explained
@dataclass(frozen=True, eq=False)
class Standardization(Summarized):
    """Mean and standard deviation of each value of a row.

    Attributes:
        mean: (D,), subtracted from the row.
        std: (D,), above 0, the divisor of the difference.

    Raises:
        ShapeMismatchError, InvalidDataError: an array has another shape, or a value is not finite.

    >>> found = Standardization.of(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> found.applied(np.array([[5.0, 8.0]])).tolist()
    [[3.0, 1.0]]
    """

    mean: Array
    std: Array

    def __post_init__(self) -> None:
        for name, array in (("mean", self.mean), ("std", self.std)):
            if array.ndim != 1 or array.shape != self.mean.shape:
                raise ShapeMismatchError(
                    f"{name}: expected shape (D,), as of the mean, found {array.shape}"
                )
            if not is_float(array.dtype) or not np.isfinite(array).all():
                found = array.dtype if not is_float(array.dtype) else "inf or nan"
                raise InvalidDataError(
                    f"{name}: expected finite floating-point values, found {found}"
                )
        if not (self.std > 0).all():
            raise InvalidDataError("std: expected values above 0")

    def arrays(self, role: str) -> dict[str, Array]:
        """Return both arrays by their names in a state dict; shared, not copied.

        Args:
            role: the prefix of the names: "standardize" for the rows of a model, or "targets".
        """
        return {f"{role}.mean": self.mean, f"{role}.std": self.std}

    @classmethod
    @types_explained
    def of(cls, data: Array) -> Standardization:
        """Return the mean and the standard deviation of rows; that of equal values is 1.

        The divisor of the variance is N.

        Args:
            data: (N, ..) real numbers, N at least 1; rows of any shape are flattened to (D,).

        Raises:
            InvalidDataError: there are no rows, or values are complex or not finite.
        """
        rows = _flat(data)
        if not len(rows):
            raise InvalidDataError("data: expected at least one row, found none")
        with np.errstate(all="ignore"):  # checked by the constructor
            mean = sum(part.sum(0) for part in _parts(rows)) / len(rows)
            spread = rows.max(0).astype(np.float64) - rows.min(0).astype(np.float64)
            # A power of two, so that nothing is rounded. The square of 1e-200 would be 0.
            unit = np.ldexp(1.0, np.frexp(spread)[1] - 1)
            squares = sum(np.square((part - mean) / unit).sum(0) for part in _parts(rows))
            std = np.sqrt(squares / len(rows)) * unit
        # Not std == 0: the mean of equal values is rounded.
        std[spread == 0] = 1
        return cls(mean, std)

    @types_explained
    def applied(self, data: Array, dtype: DTypeLike | None = None) -> Array:
        """Return standardized rows (N, D), C-contiguous.

        Args:
            data: (N, ..) real numbers; rows of D values in any shape.
            dtype: of the result; None: float64 for float64, otherwise float32.

        Raises:
            ShapeMismatchError, InvalidDataError: rows have another width, or are complex.
        """
        rows = _flat(data)
        if rows.shape[1] != len(self.mean):
            raise ShapeMismatchError(
                f"data: expected rows of {len(self.mean)} values, as the mean has, found "
                f"{rows.shape[1]}"
            )
        dtype = arithmetic_dtype(data.dtype) if dtype is None else dtype
        found = np.empty_like(rows, dtype=dtype, order="C")
        with np.errstate(over="ignore"):  # rows of float64 may be infinite in float32
            for number, part in enumerate(_parts(rows)):
                start = number * _ROWS
                part -= self.mean
                part /= self.std
                found[start : start + len(part)] = part
        return found

    def original(self, data: Array) -> Array:
        """Return rows (N, D) before they were standardized, in float64."""
        return data.astype(np.float64) * self.std + self.mean


def standardization_in(entries: Mapping[str, Array], role: str = ROWS) -> Standardization | None:
    """Return a standardization in a state dict, beside its RNNs; None if it has none.

    Args:
        entries: the state dict.
        role: in the model: ROWS or TARGETS.

    Raises:
        ShapeMismatchError, InvalidDataError: one of its two arrays is missing, or does not fit.
    """
    names = [beside_rnns(entries, name) or name for name in (f"{role}.mean", f"{role}.std")]
    missing = [name for name in names if name not in entries]
    if len(missing) == 1:
        raise InvalidDataError(f"state dict: {missing[0]} is missing")
    if missing:
        return None
    mean, std = (np.asarray(entries[name]) for name in names)
    try:
        return Standardization(mean, std)
    except (ShapeMismatchError, InvalidDataError) as error:
        raise type(error)(f"{role}.{error}") from None


def _flat(data: Array) -> Array:
    require_real("data", data)
    return data.reshape(len(data), prod(data.shape[1:]))


def _parts(rows: Array) -> Iterator[Array]:
    """Yield copies of parts of the rows in float64."""
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS].astype(np.float64)
