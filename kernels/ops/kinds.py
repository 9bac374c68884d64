"""Kinds of op parameters, derived from their annotations: their form on the command line."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.argument_types import SEQUENCES, resolved
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray

# The form of an argument on the command line. Arguments of the kinds in FILES are files.
Kind = Literal[
    "tensor", "tensors", "index", "steps", "array", "level", "dtype", "choice",
    "bool", "int", "float", "value", "str", "ints", "floats", "values", "nested",
    "unknown",
]  # fmt: skip
FILES = ("tensor", "tensors", "index", "steps", "array")
_SIMPLE: dict[Any, Kind] = {
    LoDTensor: "tensor", LoD: "index", TensorArray: "steps",
    bool: "bool", int: "int", float: "float", str: "str",
}  # fmt: skip
_MANY: dict[Any, Kind] = {LoDTensor: "tensors", int: "ints", float: "floats"}


def kind_of(hint: Any) -> Kind:
    """Return the kind of a parameter with this annotation; "unknown" if it cannot be an option."""
    hint = resolved(hint)
    if get_origin(hint) is Literal:
        return "choice"
    parts = _members(hint) - {NoneType}
    if parts == _members(npt.DTypeLike) - {NoneType}:
        return "dtype"
    if parts == _members(npt.ArrayLike) or get_origin(hint) is np.ndarray:
        return "array"
    if get_origin(hint) in SEQUENCES:
        return _kind_of_many(get_args(hint)[0])
    if parts == {int, str}:
        return "level"
    if parts == {int, float}:
        return "float"
    if parts == {float, str}:
        return "value"
    if len(parts) == 1:
        (only,) = parts
        return _SIMPLE.get(only) or (kind_of(only) if only is not hint else "unknown")
    return "unknown"


def _kind_of_many(each: Any) -> Kind:
    if get_origin(each) in SEQUENCES and get_args(each)[0] is int:
        return "nested"
    if _members(each) == {int, str}:
        return "values"
    return _MANY.get(each, "unknown")


def _members(hint: Any) -> set[Any]:
    """Return the types of a union, with nested unions flattened; of another type, itself."""
    hint = resolved(hint)
    if get_origin(hint) not in (Union, UnionType):
        return {hint}
    return set[Any]().union(*map(_members, get_args(hint)))
