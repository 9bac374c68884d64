"""Values of decimals as float64, for commands that compute."""

from __future__ import annotations

import dataclasses

import numpy as np

from lodcli.expressions.functions import EXACT_DIGITS
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Decimals


def exact_floats(digits: Array, decimals: Decimals) -> Array:
    """Return the digits of decimals as float64. Raises InvalidDataError if it rounds some."""
    found: Array = digits.astype(np.float64)
    if decimals.precision > EXACT_DIGITS and digits.size and abs(found).max() > 2.0**53:
        raise InvalidDataError(
            f"{decimals} with a number of more than {EXACT_DIGITS} digits, which float64 rounds; "
            "lod convert --text-levels numbers makes whole numbers of the digits"
        )
    return found


def without_decimals(tensor: LoDTensor, *, exact: bool = True) -> LoDTensor:
    """Return a tensor of decimals as float64; another as it is.

    Raises:
        InvalidDataError: `exact`, and float64 rounds one of them.
    """
    unit = tensor.marks.unit
    if not isinstance(unit, Decimals) or not unit.scale:
        return tensor
    digits = exact_floats(tensor.values, unit) if exact else tensor.values.astype(np.float64)
    rows = scaled(digits, unit)
    return LoDTensor(rows, tensor.lod, nulls=tensor.nulls)


def spec_without_decimals(spec: TensorSpec) -> TensorSpec:
    """Return what `without_decimals` makes of a tensor with this description."""
    unit = spec.marks.unit
    if not isinstance(unit, Decimals) or not unit.scale:
        return spec
    return dataclasses.replace(spec, dtype=np.dtype(np.float64), marks=NO_MARKS)
