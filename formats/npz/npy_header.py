"""The header of a .npy file, checked before use."""

from __future__ import annotations

import ast
import io
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

import numpy as np

from lodcli.formats.arrays.array_file import array_bytes
from lodcli.formats.arrays.dates import times_of
from lodcli.formats.arrays.fixed_texts import KINDS, require_texts
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.storage.zip_archive import brief
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import option
from lodcli.kernels.runtime.arrays import in_native_order

MAGIC = b"\x93NUMPY"
_BEGINNINGS = tuple(MAGIC + version for version in (b"\1\0", b"\2\0", b"\3\0"))
_TRUNCATED = f"ends within its header; it is truncated{FETCH_AGAIN}"
# NumPy has no name for bfloat16: saved by it, the rows are raw bytes ("V2").
NPY_DTYPES = ALL_DTYPES - {"bfloat16"}
MOST_HEADER_BYTES = 10_000
_ORDERS = tuple("<>|=")
_TEXT = re.compile(rf"[<>|=][{KINDS}][1-9][0-9]{{0,6}}")
_TIMES = re.compile(r"[<>=][Mm]8\[[a-zA-Z]{1,2}\]")
_SINGLE = re.compile(r"[<>|=](?:[US][0-9]{1,7}|[iu][1248])")
# Names of dtypes in .npy files, after the byte order: "f8", "b1", ..
_DTYPES = frozenset(np.dtype(name).str[1:] for name in NPY_DTYPES)


@dataclass(frozen=True)
class Header:
    """The description of the array in a .npy file.

    Attributes:
        dtype: in the byte order of the file.
        shape: with a row axis.
        fortran: whether the elements are in Fortran order.
        size_bytes: number of bytes before the elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    size_bytes: int


def read_header(stream: IO[bytes], file_bytes: int, *, marked: bool = False) -> Header:
    """Return the header of a .npy file, checked against its size.

    Args:
        file_bytes: the size of the file.
        marked: whether an array of texts, with one dimension, or of times is allowed.
    """
    header_bytes, (descr, shape, fortran) = _raw_header(stream)
    if marked and isinstance(descr, str) and _TEXT.fullmatch(descr):
        dtype = np.dtype(descr)
        require_texts(dtype, shape)
    elif marked and isinstance(descr, str) and _times(descr):
        dtype = np.dtype(descr)
    else:
        dtype = _checked_dtype(descr)
    if not shape:
        raise InvalidDataError(
            "is a single value; a tensor needs a row axis; save array.reshape(1)"
        )
    size = array_bytes(shape, dtype)
    held = file_bytes - header_bytes
    if size != held:
        several = "; if it has several arrays, save them with numpy.savez"
        more = several if size < held else FETCH_AGAIN
        raise DamagedFileError(
            f"shape {brief(shape)} of {dtype} needs {size} bytes, found {held}{more}"
        )
    return Header(dtype, shape, fortran, header_bytes)


def written_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of rows in C order; its size does not depend on their number."""
    made = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(made, header)
    return made.getvalue()


def native(data: Array) -> Array:
    """Return stored elements in native byte order, without a copy if they are.

    Raises:
        DamagedFileError: booleans that are neither 0 nor 1.
    """
    if data.dtype == np.bool_ and data.size and data.view(np.uint8).max() > 1:
        raise DamagedFileError("holds booleans that are neither 0 nor 1")
    return in_native_order(data)


def read_single(stream: IO[bytes], most_chars: int) -> str | int:
    """Return the content of a .npy file of one text, or one integer."""
    _, (descr, shape, _) = _raw_header(stream)
    kind = _SINGLE.fullmatch(descr) if isinstance(descr, str) else None
    if kind is None or shape:
        raise DamagedFileError(f"expected one text or number, found {brief((descr, shape))}")
    dtype = np.dtype(kind[0])
    if dtype.itemsize > 4 * most_chars:
        raise DamagedFileError(f"has {dtype.itemsize} bytes; at most {4 * most_chars}")
    data = stream.read(dtype.itemsize + 1)
    if len(data) != dtype.itemsize:
        raise DamagedFileError(f"expected {dtype.itemsize} bytes, found {len(data)}")
    found = np.frombuffer(data, dtype)[0].item() if data else ""
    if isinstance(found, bytes):
        return found.decode()
    return found if isinstance(found, str) else int(found)


def decoded(data: bytes) -> Array:
    """Return the array of a whole .npy file, in native byte order; it may be a single value."""
    header_bytes, fields = _fields(io.BytesIO(data))
    dtype, shape, fortran = _checked_fields(fields)
    size = array_bytes(shape, dtype)
    if size != len(data) - header_bytes:
        raise DamagedFileError(
            f"shape {brief(shape)} of {dtype} needs {size} bytes, {len(data) - header_bytes} there"
        )
    flat: Array = np.frombuffer(data, dtype, offset=header_bytes)
    rows = native(flat).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(rows).reshape(shape) if fortran else rows


# Cached: an archive may have thousands of small arrays with few different headers.
@lru_cache(maxsize=1024)
def _checked_fields(fields: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    descr, shape, fortran = _header_fields(fields)
    return _checked_dtype(descr), shape, fortran


def _checked_dtype(descr: object) -> np.dtype[Any]:
    if _has_objects(descr):
        raise UnsupportedError(
            "holds Python objects, which are never unpickled; save an array of numbers; of texts, "
            "none of them missing, numpy.array(array.tolist()); of arrays of different lengths, "
            f"numpy.concatenate(x) and their lengths, for {option('data')} and {option('lengths')}"
        )
    if not isinstance(descr, str) or not (
        descr in _DTYPES | NPY_DTYPES or (descr[:1] in _ORDERS and descr[1:] in _DTYPES)
    ):
        raise UnsupportedError(
            f"has dtype {repr(descr)[:100]}, which tensors cannot hold; {remedy_of(descr)}"
        )
    return np.dtype(descr)


def _has_objects(descr: object) -> bool:
    """Return whether an array, or a field of its records, holds Python objects."""
    if isinstance(descr, str):
        return "O" in descr
    return isinstance(descr, list) and any(
        isinstance(field, tuple) and len(field) > 1 and _has_objects(field[1]) for field in descr
    )


def remedy_of(descr: object) -> str:
    """Return advice for an array of a dtype that tensors do not have.

    Args:
        descr: the dtype as in .npy files: a str, or a list of the fields of records.
    """
    if not isinstance(descr, str):
        return "save each field of its records as a separate array"
    if descr[1:2] in ("M", "m"):
        if _times(descr):  # not in the format that asks
            return "save array.astype('i8') instead, and its unit beside it"
        unit = "[D]" if re.search(r"M8\[\d*[YMW]\]", descr) else "[s]"
        return f"save array.astype('{descr[1:3]}{unit}') instead"
    if descr[1:2] in ("U", "S"):
        return "save codes, as numpy.unique(array, return_inverse=True) returns them"
    if descr[1:] in ("V1", "V2"):  # as NumPy stores dtypes of other packages
        return "save an array of numbers; bfloat16 and float8 as array.astype('f4')"
    if descr[1:2] in ("O", "V"):
        return "save an array of numbers"
    near = "c16" if descr[1:2] == "c" else "f8"
    return f"save array.astype({near!r}) instead, or another of {', '.join(sorted(NPY_DTYPES))}"


def _times(descr: str) -> bool:
    """Return whether a dtype is one of times with a unit that tensors have."""
    try:
        return _TIMES.fullmatch(descr) is not None and times_of(np.dtype(descr)) is not None
    except TypeError:  # an unknown unit
        return False


def _raw_header(stream: IO[bytes]) -> tuple[int, tuple[object, tuple[int, ...], bool]]:
    """Return the number of bytes before the array, and the parsed fields of the header."""
    size, fields = _fields(stream)
    return size, _header_fields(fields)


def _fields(stream: IO[bytes]) -> tuple[int, str]:
    """Return the number of bytes before the array, and the text of the header."""
    magic = stream.read(8)
    if len(magic) < 8 and any(one.startswith(magic) for one in _BEGINNINGS):
        raise DamagedFileError(_TRUNCATED)
    if magic not in _BEGINNINGS:
        raise DamagedFileError("is not a .npy file")
    width = 2 if magic[6] == 1 else 4
    stored = stream.read(width)
    length = int.from_bytes(stored, "little")
    if length > MOST_HEADER_BYTES:
        raise DamagedFileError(f"has a header of {length} bytes; at most {MOST_HEADER_BYTES}")
    fields = stream.read(length)
    if len(stored) < width or len(fields) < length:
        raise DamagedFileError(_TRUNCATED)
    try:  # before version 3, names of fields have one byte for each letter
        return 8 + width + length, fields.decode("utf-8" if magic[6] == 3 else "latin1")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"its header is malformed ({brief(error)})") from None


# The suffix of long integers in Python 2.
_LONG = re.compile(r"(?<=[0-9])L(?=[,)])")


# Many arrays of a file have equal headers.
@lru_cache(64)
def _header_fields(text: str) -> tuple[object, tuple[int, ...], bool]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fields = ast.literal_eval(_LONG.sub("", text))
        descr, shape, fortran = fields["descr"], fields["shape"], fields["fortran_order"]
        sound = len(fields) == 3 and isinstance(shape, tuple) and isinstance(fortran, bool)
        if not sound or not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError(f"shape {shape!r}, order {fortran!r}")
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise DamagedFileError(f"its header is malformed ({brief(error)})") from None
    return descr, shape, fortran
