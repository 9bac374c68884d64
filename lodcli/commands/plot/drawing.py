"""The input of `lod plot`."""

from __future__ import annotations

import numpy as np

from lodcli.formats.items.indexed_copy import indexed
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.marks import Decimals
from lodcli.shell.opened import Opened
from lodcli.shell.output import plural

# Differences of greater values overflow in matplotlib.
MOST = 1e307
_ANOTHER = "choose another tensor with FILE::NAME"


def lengths_of(file: Opened, level: int | str | None) -> tuple[LoD, int | None]:
    """Return the index of the tensor, and the number of a level; None for all."""
    name = file.tensor().name
    lod = file.source.read_index(name)
    if not lod.n_levels:
        raise InvalidDataError(f"{name} has no levels, so there are no lengths to draw; {_ANOTHER}")
    return lod, None if level is None else lod.level(level)


def rows_of(file: Opened, level: int | str | None, item: int) -> tuple[Array, str]:
    """Return the rows of a sequence as (T, D) float64, and the title of their picture."""
    name = file.tensor().name
    with indexed(file.source, [name]) as source:
        lod, (spec,) = source.lods[name], [one for one in source.schema if one.name == name]
        if spec.dtype.kind == "c":
            raise UnsupportedError(f"{name} holds complex numbers, which cannot be drawn")
        if not lod.n_levels:
            raise InvalidDataError(
                f"{name} has no levels, so there is no sequence to draw; {_ANOTHER}"
            )
        number = lod.level(0 if level is None else level)
        level_name = lod.names[number]
        called = f"{level_name} {item}" if level_name else f"item {item} of level {number}"
        if item >= lod.count(number):
            raise SelectionError(f"no {called}, there are {lod.count(number):,}")
        bounds = lod.absolute(number)
        start, stop = int(bounds[item]), int(bounds[item + 1])
        if start == stop:
            raise InvalidDataError(f"{called} is empty; choose another one with --item")
        rows = source.read_rows(name, start, stop).astype(np.float64)
        if isinstance(spec.marks.unit, Decimals):
            rows = scaled(rows, spec.marks.unit)
        if not rows.size:
            raise InvalidDataError(f"rows of {name} have no values; {_ANOTHER}")
        mask = source.read_mask(name, lod.n_levels, start, stop)
        if mask is not None:
            rows[~mask] = np.nan  # a gap
        if (np.abs(rows[np.isfinite(rows)]) > MOST).any():
            raise UnsupportedError(
                f"{called} has values beyond {MOST:.0e}, which matplotlib cannot draw; "
                "divide them with lod apply"
            )
        return rows.reshape(stop - start, -1), f"{name}: {called}, {plural(stop - start, 'row')}"
