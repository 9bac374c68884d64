"""Columns of foreign HDF5: the dtype in memory of a dataset, or of one field of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from h5py import h5d, h5t

from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.options import option

# Complex is a class since HDF5 2.0.
NUMBERS = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, getattr(h5t, "COMPLEX", h5t.FLOAT))
# By size in bytes. HDF5 converts bit fields only to these types, and not to integers.
_BITS = {1: h5t.NATIVE_B8, 2: h5t.NATIVE_B16, 4: h5t.NATIVE_B32, 8: h5t.NATIVE_B64}
# Limits on names in a message.
MOST_FIELDS, MOST_NAME_CHARS = 10, 60
# Names of the fields of complex numbers: of h5py; Octave, MATLAB; R; others. In lower case.
_PARTS = {("r", "i"), ("real", "imag"), ("real", "imaginary"), ("re", "im")}
# Octave's scalar type of a range.
_RANGE = ["base", "limit", "increment"]
# Maximum depth of nested types.
MOST_DEPTH = 32


@dataclass(frozen=True)
class _Kind:
    """HDF5's type of an item in memory, and the dtype and shape of its values in a tensor."""

    memory: h5t.TypeID
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    text: bool = False


@dataclass(frozen=True)
class Column:
    """One dataset, or a field of its compounds.

    Attributes:
        path: for messages.
        dataset: the dataset.
        memory: HDF5's type of an item in memory.
        dtype: of the values, in native byte order; uint8 for text.
        item_shape: of an item that is an array; for text, the last axis is its bytes.
        text: whether the items are texts of fixed length, padded with zeros.
    """

    path: str
    dataset: h5d.DatasetID
    memory: h5t.TypeID
    dtype: np.dtype[Any]
    item_shape: tuple[int, ...]
    text: bool

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of all values; () for a single one."""
        stored: tuple[int, ...] = self.dataset.shape
        return (*stored, *self.item_shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all values in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def column_of(dataset: h5d.DatasetID, members: Sequence[str], path: str) -> Column:
    """Return a dataset, or the field of its compounds that `members` lead to.

    Raises:
        SelectionError: there is no such field.
        UnsupportedError: tensors cannot hold its values; of compounds it names the fields.
    """
    kind = dataset.get_type()
    if not members and isinstance(kind, h5t.TypeCompoundID) and _names(kind) == _RANGE:
        raise UnsupportedError(
            f"{path}: is a range of Octave, stored without its values; save it as a matrix, [RANGE]"
        )
    found = _kind(kind, tuple(members), path, 0)
    return Column(path, dataset, found.memory, found.dtype, found.shape, found.text)


def _kind(kind: h5t.TypeID, members: tuple[str, ...], path: str, depth: int) -> _Kind:
    if depth > MOST_DEPTH:
        raise UnsupportedError(f"{path}: its type is nested more than {MOST_DEPTH} times")
    if isinstance(kind, h5t.TypeArrayID):
        inner = _kind(kind.get_super(), members, path, depth + 1)
        shape: tuple[int, ...] = kind.get_array_dims()
        memory = h5t.array_create(inner.memory, shape)
        return _Kind(memory, inner.dtype, (*shape, *inner.shape), inner.text)
    if isinstance(kind, h5t.TypeCompoundID) and members:
        return _field(kind, members, path, depth)
    if members:
        raise SelectionError(f"{path}: there is no such dataset, and no field {members[0]!r}")
    if isinstance(kind, h5t.TypeStringID):
        return _text(kind, path)
    if kind.get_class() == h5t.VLEN:
        raise _variable(path)
    if kind.get_class() == h5t.BITFIELD and kind.get_size() in _BITS:
        return _Kind(_BITS[kind.get_size()], np.dtype(f"u{kind.get_size()}"))
    if kind.get_class() == h5t.REFERENCE:
        raise UnsupportedError(
            f"{path}: holds references to other datasets, as cell arrays c of MATLAB do; store "
            "the vectors one after another, [c{:}], and their lengths, cellfun(@numel, c)"
        )
    if (found := _complex(kind)) is not None:
        return found
    if kind.get_class() == h5t.COMPOUND:
        raise UnsupportedError(
            f"{path}: is a compound; choose one of its fields: {_choices(kind, path)}"
        )
    dtype = _dtype(kind, path)
    if kind.get_class() not in NUMBERS:
        raise UnsupportedError(
            f"{path}: holds no numbers and no text ({dtype}); store bytes as uint8, and times as "
            "int64, as with array.view"
        )
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.name == "float128":
        raise UnsupportedError(
            f"{path}: holds {dtype}, which tensors cannot hold; store it as float64 or complex128"
        )
    # Of an enumeration without its names, by which HDF5 would convert it: other numbers become -1.
    native = np.dtype(dtype.str).newbyteorder("=")
    return _Kind(h5t.py_create(native, logical=True), native)


def _field(kind: Any, members: tuple[str, ...], path: str, depth: int) -> _Kind:
    """Return a field; tries the longest name first, since a name may contain "/"."""
    names = _names(kind)
    for length in range(len(members), 0, -1):
        name = "/".join(members[:length])
        if name not in names:
            continue
        member = kind.get_member_type(names.index(name))
        inner = _kind(member, members[length:], path, depth + 1)
        memory = h5t.create(h5t.COMPOUND, inner.memory.get_size())
        memory.insert(kind.get_member_name(names.index(name)), 0, inner.memory)
        return _Kind(memory, inner.dtype, inner.shape, inner.text)
    above = path.removesuffix("/".join(members)).rstrip("/")
    raise SelectionError(f"{path}: there is no such field; there are: {_choices(kind, above)}")


def _text(kind: Any, path: str) -> _Kind:
    if kind.is_variable_str():
        raise _variable(path)
    memory = h5t.C_S1.copy()
    memory.set_size(kind.get_size())
    memory.set_cset(kind.get_cset())
    # HDF5 converts text padded with blanks or ended by a zero to padding with zeros.
    memory.set_strpad(h5t.STR_NULLPAD)
    return _Kind(memory, np.dtype(np.uint8), (kind.get_size(),), text=True)


def _variable(path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path}: holds data of variable length, not numbers; read it with "
        f"{option('from', 'hdf5-vlen')}"
    )


def _dtype(kind: h5t.TypeID, path: str) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(kind.dtype)
        return dtype
    except (TypeError, ValueError, KeyError):  # KeyError: a byte order that h5py does not know
        raise UnsupportedError(
            f"{path}: holds numbers that NumPy does not support, such as VAX floats and "
            "H5T_TIME; convert them with h5repack or the program that wrote them"
        ) from None


def _complex(kind: Any) -> _Kind | None:
    """Return the type of complex numbers of two floats of 4 or 8 bytes; None for other types."""
    size = kind.get_size()
    if isinstance(kind, getattr(h5t, "TypeComplexID", ())):  # since HDF5 2.0
        native = {8: h5t.NATIVE_FLOAT_COMPLEX, 16: h5t.NATIVE_DOUBLE_COMPLEX}.get(size)
        return None if native is None else _Kind(native, np.dtype(f"c{size}"))
    if kind.get_class() != h5t.COMPOUND or kind.get_nmembers() != 2:
        return None
    if tuple(name.lower() for name in _names(kind)) not in _PARTS:
        return None
    parts = [kind.get_member_type(number) for number in range(2)]
    size = parts[0].get_size()
    if parts[0] != parts[1] or parts[0].get_class() != h5t.FLOAT or size not in (4, 8):
        return None
    memory = h5t.create(h5t.COMPOUND, 2 * size)
    for number in range(2):
        native = h5t.NATIVE_FLOAT if size == 4 else h5t.NATIVE_DOUBLE
        memory.insert(kind.get_member_name(number), number * size, native)
    return _Kind(memory, np.dtype(f"c{2 * size}"))


def _names(kind: Any) -> list[str]:
    return [
        kind.get_member_name(number).decode("utf-8", "surrogateescape")
        for number in range(kind.get_nmembers())
    ]


def _choices(kind: Any, path: str) -> str:
    names = [name[:MOST_NAME_CHARS] for name in _names(kind)]
    more = [f"and {len(names) - MOST_FIELDS} more"] if len(names) > MOST_FIELDS else []
    return ", ".join([*(option("data", f"{path}/{name}") for name in names[:MOST_FIELDS]), *more])
