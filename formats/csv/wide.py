"""csv in wide form: rows of H numbers as H columns, `--wide`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Item, Schema, TensorSpec
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.text.numerals import rounding
from lodcli.formats.values.casting import Cast
from lodcli.formats.values.without_nulls import WithoutNulls, refusing_nulls
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor

_NUMBERED = re.compile(r"(.+)_([0-9]{1,9})", re.DOTALL)


def columns(schema: Schema) -> Schema:
    """Return the tensors with each column of rows (H,) as a separate one: NAME_0, NAME_1, .."""
    return tuple(one for spec in schema for one in _columns(spec))


def _columns(spec: TensorSpec) -> Iterable[TensorSpec]:
    if len(spec.row_shape) != 1:
        return (spec,)
    (width,) = spec.row_shape
    return (replace(spec, name=f"{spec.name}_{n}", row_shape=()) for n in range(width))


def in_columns(schema: Schema, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches with the tensors of `columns(schema)`."""
    wide = {spec.name for spec in schema if len(spec.row_shape) == 1}
    for batch in batches:
        found: dict[str, Item] = {}
        for name, item in batch.items():
            if name in wide and isinstance(item, LoDTensor):
                for n, column in enumerate(item.data.T):
                    found[f"{name}_{n}"] = LoDTensor(column, item.lod)
            else:
                found[name] = item
        yield found


class WideSource(Wrapped):
    """The columns of numbers as one tensor of rows (H,): NAME if they are NAME_0, NAME_1, ..

    Args:
        inner: the open file.
        rounded: whether whole numbers beside fractions may be rounded.
        nulls: the value of --nulls. A row of several values cannot be null in part.
    """

    def __init__(self, inner: Source, *, rounded: bool, nulls: str | None) -> None:
        numbers = [spec for spec in inner.schema if not spec.marks]
        if not numbers:
            raise InvalidDataError(
                f"line 1: expected columns of numbers for {option('wide', True)}, found only text"
            )
        self._names = [spec.name for spec in numbers]
        self._name = _common(self._names, {spec.name for spec in inner.schema if spec.marks})
        dtype = np.result_type(*(spec.dtype for spec in numbers))
        dtypes = dict.fromkeys(self._names, dtype)
        cast = Cast(inner, dtypes, rounded=rounded, flag=rounding(dtype))
        filled = nulls not in (None, "keep")
        super().__init__(WithoutNulls(cast, str(nulls), records=True) if filled else cast)
        others = (spec for spec in self._inner.schema if spec.marks)
        shape = (len(numbers),)
        wide = replace(numbers[0], name=self._name, dtype=dtype, row_shape=shape, nullable=False)
        self.schema = (wide, *others)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        batches, what = self._inner.batches(limit_bytes), f"a row of {option('wide', True)}"
        for batch in refusing_nulls(batches, what, among=self._names):
            found = {name: item for name, item in batch.items() if name not in self._names}
            parts = [item for name in self._names if isinstance(item := batch[name], LoDTensor)]
            rows = np.stack([part.data for part in parts], axis=1)
            yield {self._name: LoDTensor(rows, parts[0].lod), **found}


def _common(names: list[str], others: set[str]) -> str:
    found = [_NUMBERED.fullmatch(name) for name in names]
    prefixes = {one[1] if one and int(one[2]) == n else None for n, one in enumerate(found)}
    name = prefixes.pop() if len(prefixes) == 1 else None
    name = name or DEFAULT_NAME
    while name in others:
        name += "_"
    return name
