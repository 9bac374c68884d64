"""Writing the tensors of a file with other dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

from lodcli.formats.core.errors import naming_file, naming_os
from lodcli.formats.core.options import read_options
from lodcli.formats.core.schema import Batch, Item, Schema, TensorSpec, find
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.places import branch_of, named_branch
from lodcli.kernels.tensor.casting import cast
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def write_cast(source: Reference, dtypes: Sequence[str], target: Target, *, rounded: bool) -> None:
    """Write a file with other dtypes, batch by batch.

    Args:
        source: the file.
        dtypes: a dtype for all tensors, and `TENSOR=DTYPE`.
        target: where to.
        rounded: see `cast`.
    """
    with opened(source) as file:
        for spec in file.schema:
            if spec.array:
                raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        made = _dtypes(file.schema, dtypes)
        schema = tuple(replace(spec, dtype=made[spec.name]) for spec in file.schema)
        caster = _Caster(file.schema, made, rounded)
        with naming_os(source.label), naming_file(source.label):
            names = [spec.name for spec in file.schema]
            batches = ({n: b[n] for n in names if n in b} for b in file.source.batches_of(names))
            target.write(schema, caster.of(batch for batch in batches if batch), file.read_share)


def _dtypes(schema: Schema, texts: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """Return the dtype of each tensor."""
    found = {spec.name: spec.dtype for spec in schema}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, mark, dtype_name = text.rpartition("=")
        dtype = read_options(None, {"dtype": dtype_name}).dtype
        assert dtype is not None
        if mark:
            found[find(schema, name).name] = dtype
        else:
            found = dict.fromkeys(found, dtype)
    if sum("=" not in text for text in texts) > 1:
        raise click.UsageError("several dtypes for all tensors; write TENSOR=DTYPE")
    return found


class _Caster:
    """Batches with other dtypes."""

    def __init__(self, schema: Schema, dtypes: dict[str, np.dtype[Any]], rounded: bool) -> None:
        self._specs = {spec.name: spec for spec in schema}
        self._dtypes = dtypes
        self._rounded = rounded
        self._before = dict.fromkeys(self._specs, 0)

    def of(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches with other dtypes."""
        for batch in batches:
            made: dict[str, Item] = {}
            for name, item in batch.items():
                assert isinstance(item, LoDTensor)
                values, fits = cast(item.data, self._dtypes[name], rounded=self._rounded)
                if not fits.all():
                    self._refuse(self._specs[name], item, int(np.argmin(fits)))
                self._before[name] += len(item)
                made[name] = LoDTensor(values, item.lod)
            yield made

    def _refuse(self, spec: TensorSpec, tensor: LoDTensor, place: int) -> None:
        """Raise an error about the value at a flat place of a batch."""
        row, *column = (int(axis) for axis in np.unravel_index(place, tensor.data.shape))
        first, *rest = branch_of(tensor.lod, tensor.lod.n_levels, row)
        where = named_branch(spec.level_names, (first + self._before[spec.name], *rest), column)
        dtype, value = self._dtypes[spec.name], tensor.data[(row, *column)]
        alone = cast(np.array([value]), dtype, rounded=True)[1][0]
        what = "is not exact in" if alone else "does not fit"
        hint = "; --unsafe rounds it" if alone else ""
        raise InvalidDataError(f"{spec.name}: {where}: {value} {what} {dtype.name}{hint}")
