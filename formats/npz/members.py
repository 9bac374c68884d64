"""The members of an .npz archive: .npy arrays, checked before use."""

from __future__ import annotations

import ast
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.storage.zip_archive import brief, damage, shown
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array

# NumPy has no name for bfloat16: saved by it, the rows are raw bytes ("V2").
NPY_DTYPES = ALL_DTYPES - {"bfloat16"}
MOST_HEADER_BYTES = 10_000
MOST_ARRAY_BYTES = 2**63 - 1
COPY_BYTES = 8 << 20
_ORDERS = tuple("<>|=")
_SINGLE = re.compile(r"[<>|=](?:[US][0-9]{1,7}|[iu][1248])")
# As .npy files name them, behind the byte order: "f8", "b1", ..
_DTYPES = frozenset(np.dtype(name).str[1:] for name in NPY_DTYPES)


@dataclass(frozen=True)
class Member:
    """An array of the archive, known from its header."""

    info: zipfile.ZipInfo
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    header_bytes: int

    @property
    def label(self) -> str:
        """Name in messages."""
        return shown(self.info.filename)


class Rows:
    """The rows of one member, in order. Its checksum is checked with the last of them."""

    def __init__(self, archive: zipfile.ZipFile, member: Member) -> None:
        self._member = member
        self._taken = 0
        self._whole: Array | None = None
        with self._reading():
            self._stream = archive.open(member.info)
            self._stream.read(member.header_bytes)

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def take(self, count: int) -> Array:
        """Return the next `count` rows, in native byte order."""
        shape = self._member.shape
        if not self._member.fortran:
            return self._read((count, *shape[1:]))
        if self._whole is None:
            self._whole = self._read(shape[::-1]).T
        start, self._taken = self._taken, self._taken + count
        return np.ascontiguousarray(self._whole[start : self._taken])

    def _read(self, shape: tuple[int, ...]) -> Array:
        with self._reading():
            data = np.empty(shape, self._member.dtype)
            view = data.reshape(-1).view(np.uint8).data
            while len(view):
                block = self._stream.read(min(len(view), COPY_BYTES))
                if not block:
                    raise DamagedFileError(f"ends {len(view)} bytes early")
                view[: len(block)] = block
                view = view[len(block) :]
            if data.dtype == np.bool_ and data.size and data.view(np.uint8).max() > 1:
                raise DamagedFileError("holds booleans that are neither 0 nor 1")
        return data.astype(data.dtype.newbyteorder("="), copy=False)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with naming(shown(self._member.info.filename)), damage("is damaged"):
            yield


def stored_rows(file: IO[bytes], member: Member, start: int, stop: int) -> Array:
    """Return some rows of a member, in native byte order; its checksum stays unchecked.

    Args:
        file: the archive, seekable.
        member: stored, not deflated, and not in Fortran order.
        start: the first row.
        stop: the one after the last.
    """
    row_bytes = prod(member.shape[1:]) * member.dtype.itemsize
    with naming(member.label):
        # The header before the member may be longer than the one in the directory.
        file.seek(member.info.header_offset)
        local = file.read(30)
        lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        begin = member.info.header_offset + 30 + lengths + member.header_bytes
        file.seek(begin + start * row_bytes)
        wanted = (stop - start) * row_bytes
        data = bytearray(file.read(wanted))
        if len(data) != wanted:
            raise DamagedFileError(f"ends {wanted - len(data)} bytes early")
        if member.dtype == np.bool_ and data and max(data) > 1:
            raise DamagedFileError("holds booleans that are neither 0 nor 1")
    rows: Array = np.frombuffer(data, member.dtype).reshape(stop - start, *member.shape[1:])
    return rows.astype(member.dtype.newbyteorder("="), copy=False)


def read_single(stream: IO[bytes], most_chars: int) -> str | int:
    """Return a .npy file of one text, or one whole number."""
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
    header_bytes, (descr, shape, fortran) = _raw_header(io.BytesIO(data))
    dtype = _checked_dtype(descr)
    size = prod(shape) * dtype.itemsize
    if size != len(data) - header_bytes:
        raise DamagedFileError(
            f"shape {brief(shape)} of {dtype} needs {size} bytes, {len(data) - header_bytes} there"
        )
    if prod(max(1, extent) for extent in shape) * dtype.itemsize > MOST_ARRAY_BYTES:
        raise DamagedFileError(f"shape {brief(shape)} is beyond what an array can have")
    flat: Array = np.frombuffer(data, dtype, offset=header_bytes)
    if dtype == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
        raise DamagedFileError("holds booleans that are neither 0 nor 1")
    rows = flat.reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(rows, dtype.newbyteorder("=")).reshape(shape)


def _checked_dtype(descr: object) -> np.dtype[Any]:
    if "O" in str(descr):
        raise UnsupportedError("holds Python objects, which are never unpickled")
    if not isinstance(descr, str) or descr[:1] not in _ORDERS or descr[1:] not in _DTYPES:
        raise UnsupportedError(f"has dtype {repr(descr)[:100]}, which tensors cannot hold")
    return np.dtype(descr)


def _raw_header(stream: IO[bytes]) -> tuple[int, tuple[object, tuple[int, ...], bool]]:
    """Return the bytes before the array, and what they say."""
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or magic[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise DamagedFileError("is no .npy file")
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > MOST_HEADER_BYTES:
        raise DamagedFileError(f"has a header of {length} bytes; at most {MOST_HEADER_BYTES}")
    return 8 + width + length, _header_fields(stream.read(length))


def read_header(stream: IO[bytes], info: zipfile.ZipInfo) -> Member:
    """Return the header of a .npy file, checked against its size."""
    header_bytes, (descr, shape, fortran) = _raw_header(stream)
    dtype = _checked_dtype(descr)
    if not shape:
        raise InvalidDataError("is a single value; a tensor needs a row axis")
    size = most = dtype.itemsize
    for extent in shape:
        size, most = size * extent, most * max(1, extent)
    if most > MOST_ARRAY_BYTES:  # such as (0, 2**63): nothing, but beyond what can be counted
        raise DamagedFileError(f"shape {brief(shape)} is beyond what an array can have")
    held = info.file_size - header_bytes
    if size != held:
        raise DamagedFileError(
            f"shape {brief(shape)} of {dtype} needs {size} bytes, the member holds {held}"
        )
    return Member(info, dtype, shape, fortran, header_bytes)


def _header_fields(text: bytes) -> tuple[object, tuple[int, ...], bool]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fields = ast.literal_eval(text.decode("utf-8"))
        descr, shape, fortran = fields["descr"], fields["shape"], fields["fortran_order"]
        sound = len(fields) == 3 and isinstance(shape, tuple) and isinstance(fortran, bool)
        if not sound or not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError(f"shape {shape!r}, order {fortran!r}")
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise DamagedFileError(f"its header is malformed ({brief(error)})") from None
    return descr, shape, fortran
