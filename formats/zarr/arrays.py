"""An open Zarr store: its arrays as tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import zarr

from lodcli.formats.arrays.array_source import ArraySource
from lodcli.formats.arrays.dates import times_of
from lodcli.formats.arrays.fixed_texts import KINDS, STRINGS, require_texts
from lodcli.formats.choosing.array_patterns import JoinedArrays
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, TooLargeError, naming
from lodcli.formats.core.format import LeftOut
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Schema
from lodcli.formats.npz.npy_header import NPY_DTYPES, remedy_of
from lodcli.formats.values.file_attributes import fitting
from lodcli.formats.values.netcdf import (
    CONVENTIONS,
    INSTANCES,
    UNSIGNED,
    changes_sign,
    no_lengths,
    time_note,
)
from lodcli.formats.zarr.attributes import KEY, kept_marks, of_file, unescaped, with_marks
from lodcli.formats.zarr.bfloat16 import BFLOAT16, NAME, Bits
from lodcli.formats.zarr.stores import ReadStore
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.runtime.arrays import in_native_order

# Message of zarr 3 about the fill value that zarr 2 gives to arrays of bytes objects. Of arrays of
# fixed texts it is damage.
_ZERO_OF_BYTES = "Invalid type: 0. Expected a string"
# Attribute of arrays that xarray wrote in Zarr 2: their fill value stands for missing values. Other
# programs nearly always give one.
_DIMENSIONS = "_ARRAY_DIMENSIONS"
# In messages of zarr and numcodecs about an unknown data type, codec or extension of an array.
_UNKNOWN = (
    *("No Zarr data type found", "Invalid data_type", "Unknown codec", "codec not available"),
    *("Unknown chunk grid", "storage transformers", "disallowed extra fields"),
)


@dataclass(frozen=True)
class ZarrArray:
    """One array, described by its metadata."""

    label: str
    array: zarr.Array[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class ZarrSource(ArraySource[ZarrArray]):
    """The arrays of a store; their chunks are read on demand.

    Args:
        store: closed with this source.
        options: choose the arrays of rows and of the index.
        bounds: maximum decompressed size.
    """

    def __init__(self, store: ReadStore, options: ReadOptions, bounds: Bounds) -> None:
        self._store, self._bounds = store, bounds
        self.left_out = LeftOut()
        index = options.offsets or options.lengths or ()

        def look(name: str) -> ZarrArray:
            found = self._look(name, names[name])
            if name in index and INSTANCES in found.array.attrs:
                raise no_lengths(name)
            return found

        root = self._attributes()
        kept = root.get(KEY)
        paths = store.arrays()
        names = {path or DEFAULT_NAME: path for path in paths}
        if kept is not None:
            names = {unescaped(path): path for path in paths}
        if not names:
            raise InvalidDataError("holds no array")
        store.whole = kept is not None
        # For stores of other programs it is unknown whether codecs verify checksums.
        self.checksums = None if kept is not None else ""
        marks = {} if kept is None else kept_marks(kept)
        self.attributes, self.notes = fitting(of_file(root, kept))
        self.describe(names, look, marks, options)
        if kept is None:
            self.notes = [*self.notes, *self._as_stored()]
        if kept is not None and not (options.data or options.offsets or options.lengths):
            self._mark(with_marks(kept, marks, self.schema))

    def _mark(self, schema: Schema) -> None:
        """Set the schema, with marks and level names, and rename the levels of indexes."""
        renamed: dict[tuple[int, tuple[str | None, ...]], LoD] = {}
        found = {}
        for spec in schema:
            lod = self.lods[spec.name]
            key = id(lod), spec.level_names
            found[spec.name] = renamed.setdefault(key, lod.with_names(spec.level_names))
        self.schema, self.lods = schema, found

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes of the root, of Zarr 3 or 2."""
        content = self._store.metadata("zarr.json")
        if content is None:
            attributes = self._store.metadata(".zattrs")
        else:
            attributes = content.get("attributes") if isinstance(content, dict) else None
        return attributes if isinstance(attributes, dict) else {}

    def _as_stored(self) -> Iterator[str]:
        """Yield a note for each array with attributes of netCDF that would change its values."""
        for name, rows in self.arrays.items():
            parts = rows.parts if isinstance(rows, JoinedArrays) else (rows,)
            stored = (_changing(part) for part in parts if isinstance(part, ZarrArray))
            found = set(chain.from_iterable(stored))
            if named := [one for one in CONVENTIONS if one in found]:
                yield f"{name}: values are as stored: {', '.join(named)} not applied"
            alone = len(parts) == 1 and not named
            told = [
                time_note(dict(part.array.attrs), part.dtype, name, alone=alone)
                for part in parts
                if isinstance(part, ZarrArray)
            ]
            first, *others = dict.fromkeys(filter(None, told)) or [None]
            if first is not None:
                more = f"; {len(others)} more such notes on its other arrays" if others else ""
                yield f"{name}: {first}{more}"

    def _look(self, name: str, path: str) -> ZarrArray:
        with self._damage(name, path):
            found = zarr.open_array(self._store, path=path, mode="r")
            if any(getattr(one, "codec_id", None) == "pickle" for one in _codecs(found)):
                raise UnsupportedError(
                    "holds pickled Python objects, which are never unpickled; save an array of "
                    "numbers, or of texts"
                )
            dtype, shape = np.dtype(found.dtype), tuple(map(int, found.shape))
            if isinstance(found.metadata.dtype, Bits):
                dtype = BFLOAT16
            chunk = math.prod(found.shards or found.chunks)
        if dtype.kind in KINDS + STRINGS:
            with naming(name):
                require_texts(dtype, shape)
        elif dtype.name not in {*NPY_DTYPES, NAME} and times_of(dtype) is None:
            remedy = remedy_of(np.lib.format.dtype_to_descr(dtype))
            raise UnsupportedError(f"{name}: holds {dtype}, which tensors cannot hold; {remedy}")
        self._bounds.check_block(chunk * dtype.itemsize, f"{name}: has chunks of")
        return ZarrArray(name, found, dtype, shape)

    def read_array(self, array: ZarrArray, start: int, stop: int) -> Array:
        size = (stop - start) * math.prod(array.shape[1:]) * array.dtype.itemsize
        self._bounds.check_block(size, f"{array.label}: has")
        with self._damage(array.label, array.array.path):
            found = np.asarray(array.array[start:stop])
        rows = np.ascontiguousarray(in_native_order(found))
        return rows.view(BFLOAT16) if array.dtype == BFLOAT16 else rows

    @contextmanager
    def _damage(self, name: str, path: str) -> Iterator[None]:
        """Convert errors of zarr and its codecs on the array at a path to those of lod."""
        try:
            with naming(name):
                yield
        except MemoryError:
            raise TooLargeError(f"{name}: needs more memory than is available") from None
        except Exception as error:
            if self._store.error is not None:
                raise self._store.error from None
            if isinstance(error, LodError):
                raise
            words = " ".join(str(error).split())[:200] or type(error).__name__
            # In a store of lod, everything is known.
            objects = _ZERO_OF_BYTES in words and self._has_objects(path)
            unknown = not self._store.whole and (objects or any(one in words for one in _UNKNOWN))
            kind = UnsupportedError if unknown else DamagedFileError
            remedy = ""
            if "vlen-array" in words:  # arrays of different lengths, of zarr 2
                remedy = (
                    "; zarr 2 does: save numpy.concatenate(array[:]) and the lengths of its items, "
                    f"for {option('data')} and {option('lengths')}"
                )
            elif "object_codec_id" in words or objects:
                remedy = "; save an array of numbers, or of texts"
            raise kind(f"{name}: zarr cannot read it ({words}){remedy}") from None

    def _has_objects(self, path: str) -> bool:
        """Return whether an array of Zarr 2 is one of Python objects."""
        described = self._store.metadata(f"{path}/.zarray".lstrip("/"))
        return isinstance(described, dict) and described.get("dtype") == "|O"

    def close(self) -> None:
        self._store.close()


def _codecs(array: zarr.Array[Any]) -> Iterator[Any]:
    """Yield the codecs of an array; those of version 2 are of numcodecs."""
    yield from array.filters
    yield from array.compressors


def _changing(array: ZarrArray) -> list[str]:
    """Return the names of the attributes of netCDF that would change the values of an array."""
    attributes = dict(array.array.attrs)
    missing = array.array.fill_value
    if array.array.metadata.zarr_format == 2 and _DIMENSIONS in attributes and missing is not None:
        attributes["_FillValue"] = missing
    named = [one for one in CONVENTIONS if not _is_nan(attributes.get(one, math.nan))]
    if UNSIGNED in named and not changes_sign(attributes[UNSIGNED], array.dtype):
        named.remove(UNSIGNED)
    return named


def _is_nan(value: Any) -> bool:
    """Return whether an attribute is NaN, which xarray gives as the missing value of all floats."""
    return value in ("NaN", "AAAAAAAA+H8=") or value != value  # text of JSON, and in base64
