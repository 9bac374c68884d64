"""Tensors of a file in other dtypes, each value checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, TensorSpec, find
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.values.changed import place
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.casting import cast, exact_decimals, scaled
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import DECIMAL_DIGITS, Decimals, Marks
from lodcli.kernels.tensor.nulls import Mask

Dtypes = Mapping[str, np.dtype[Any]]


def numbers_as(schema: Schema, dtype: np.dtype[Any]) -> dict[str, np.dtype[Any]]:
    """Return this dtype for each tensor of numbers, which excludes text, times and categories.

    Raises:
        UnsupportedError: there is no such tensor.
    """
    found = {
        spec.name: dtype
        for spec in schema
        if not spec.array and spec.marks.kind is None and not spec.marks.tells_records
    }
    if not found:
        names = listing(spec.name for spec in schema)
        raise UnsupportedError(f"cannot cast numbers to {dtype.name}; there are: {names}")
    return found


class Cast(Wrapped):
    """A source with other dtypes for some tensors.

    Args:
        dtypes: by tensor. Of marked tensors, codes of categories may have other integers, and
            decimals become floating or whole numbers.
        rounded: see `lodcli.kernels.tensor.casting.cast`.
        flag: the option that rounds, for messages.

    Raises:
        UnsupportedError: a tensor that cannot have the dtype; names it.
    """

    option = "dtype"

    def __init__(self, inner: Source, dtypes: Dtypes, *, rounded: bool, flag: str) -> None:
        super().__init__(inner)
        self._dtypes = dtypes
        self._rounded = rounded
        self._flag = flag
        self.schema = tuple(map(self._spec, inner.schema))

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.name not in self._dtypes:
            return spec
        dtype, decimals = self._dtypes[spec.name], _decimals(spec.marks)
        whole = (
            decimals is not None
            and dtype.kind in "iu"
            and 0 <= decimals.scale <= DECIMAL_DIGITS[64]
        )
        if decimals and (is_float(dtype) or whole):
            return replace(spec, dtype=dtype, marks=replace(spec.marks, unit=None))
        codes = spec.marks.categories is not None and dtype.kind in "iu"
        if not codes and spec.marks.kind is not None:
            numbers = "whole numbers of its digits" if decimals else "it numbers"
            raise UnsupportedError(
                f"{spec.name}: is marked {spec.marks.kind}, and cannot be {dtype.name}; "
                f"lod convert --text-levels numbers makes {numbers}"
            )
        return replace(spec, dtype=dtype)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return self._cast(self._inner.batches_of(list(names), limit_bytes))

    def read_index(self, name: str) -> LoD:
        return self._inner.read_index(name)

    def index_parts(self, name: str) -> Iterator[LoD]:
        return self._inner.index_parts(name)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        return self._made(spec, self._inner.slice(name, branch, level), None)

    def _cast(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        specs = {spec.name: spec for spec in self.schema}
        before = dict.fromkeys(specs, 0)
        for batch in batches:
            made: dict[str, Item] = {}
            for name, item in batch.items():
                if isinstance(item, StoredArray):
                    made[name] = item
                    continue
                made[name] = self._made(specs[name], item, before[name])
                before[name] += len(item)
            yield made

    def _made(self, spec: TensorSpec, item: LoDTensor, before: int | None) -> LoDTensor:
        """Return a tensor cast to the dtype of `spec`.

        Args:
            item: a part of the tensor.
            before: number of outermost items in earlier batches; None for a slice.
        """
        decimals = _decimals(item.marks)
        if spec.name not in self._dtypes or (item.dtype == spec.dtype and decimals is None):
            return item
        # Null rows are zeros.
        values, fits = _converted(item.values, decimals, spec.dtype, rounded=self._rounded)
        if not fits.all():
            with naming(spec.name):
                raise self._misfit(spec, item, int(np.argmin(fits)), before)
        marks = replace(item.marks, unit=None) if decimals else item.marks
        return LoDTensor(values, item.lod, marks, item.nulls)

    def _misfit(
        self, spec: TensorSpec, item: LoDTensor, flat: int, before: int | None
    ) -> InvalidDataError:
        """Return the error for the value at a flat index."""
        row, *column = (int(axis) for axis in np.unravel_index(flat, item.values.shape))
        value: Any = item.values[(row, *column)]
        decimals = _decimals(item.marks)
        alone = _converted(np.array([value]), decimals, spec.dtype, rounded=True)[1][0]
        if decimals:
            value = texts(np.array([value]), decimals)[0]
        where = "" if before is None else f"{place(item.lod, row, before, column)}: "
        what = "is not exact in" if alone else "does not fit"
        hint = f"; {self._flag} rounds it" if alone else ""
        return InvalidDataError(f"{where}{value} {what} {spec.dtype.name}{hint}")


def _decimals(marks: Marks) -> Decimals | None:
    return marks.unit if isinstance(marks.unit, Decimals) else None


def nearest_quotient(values: Array, divisor: int) -> tuple[Array, Mask]:
    """Return whole numbers divided by another, halves to even, and a mask of exact results.

    Args:
        values: any shape, integers.
        divisor: at most 10 ** 18.

    Returns:
        64-bit integers, and a mask of the same shape.

    >>> nearest_quotient(np.array([-28, 50, 100], np.int8), 100)
    (array([0, 0, 1]), array([False, False,  True]))
    """
    # Narrow integers hold neither the divisor nor twice the rest.
    wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    numbers, rest = np.divmod(wide, divisor)
    half = 2 * rest == divisor
    nearest: Array = numbers + ((2 * rest > divisor) | (half & (numbers % 2 == 1)))
    return nearest, np.asarray(rest == 0)


def _converted(
    values: Array, decimals: Decimals | None, dtype: np.dtype[Any], *, rounded: bool
) -> tuple[Array, Mask]:
    """Return values, which may be digits of decimals, in another dtype. See `cast`."""
    if decimals is None:
        return cast(values, dtype, rounded=rounded)
    if dtype.kind in "iu":
        nearest, exact = nearest_quotient(values, 10**decimals.scale)
        made, fits = cast(nearest, dtype, rounded=rounded)
        return made, fits if rounded else fits & exact
    floats = scaled(values.astype(np.longdouble), decimals).astype(np.float64)
    made, fits = cast(floats, dtype, rounded=rounded)
    return made, fits if rounded else fits & exact_decimals(values, decimals)
