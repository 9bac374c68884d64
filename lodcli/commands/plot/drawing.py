"""The input of `lod plot`."""

from __future__ import annotations

import numpy as np

from lodcli.formats.items.indexed_copy import indexed
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.shell.opened import Opened


def lengths_of(file: Opened, level: int | str | None) -> tuple[LoD, int | None]:
    """Return the index of the tensor, and the number of a level; None for all."""
    name = file.tensor().name
    lod = file.source.read_index(name)
    if not lod.n_levels:
        raise InvalidDataError(f"{name} has no levels, so there are no lengths to draw")
    return lod, None if level is None else lod.level(level)


def rows_of(file: Opened, level: int | str | None, item: int) -> tuple[Array, str]:
    """Return the rows of a sequence as (T, D) float64, and the title of their picture."""
    name = file.tensor().name
    with indexed(file.source, [name]) as source:
        lod, (spec,) = source.lods[name], [one for one in source.schema if one.name == name]
        if spec.dtype.kind == "c":
            raise UnsupportedError(f"{name} holds complex numbers, which cannot be drawn")
        if not lod.n_levels:
            raise InvalidDataError(f"{name} has no levels, so there is no sequence to draw")
        number = lod.level(0 if level is None else level)
        called = lod.names[number] or f"level {number}"
        if item >= lod.count(number):
            raise SelectionError(f"no {called} {item}, there are {lod.count(number):,}")
        bounds = lod.absolute(number)
        start, stop = int(bounds[item]), int(bounds[item + 1])
        if start == stop:
            raise InvalidDataError(f"{called} {item} is empty, so there is nothing to draw")
        rows = source.read_rows(name, start, stop).astype(np.float64)
        mask = source.read_mask(name, lod.n_levels, start, stop)
        if mask is not None:
            rows[~mask] = np.nan  # a gap
        return rows.reshape(stop - start, -1), f"{name}: {called} {item}, {stop - start:,} rows"
