"""Encodings of values in MosaicML's MDS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import choose_others
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array

# Codes of dtypes in the first byte of an array: the bits of an item, plus its kind.
CODES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
DTYPES = frozenset(CODES.values())
_SCALARS = DTYPES | {"int"}
_TEXT = ("bytes", "str")
_NDARRAY = re.compile(
    r"ndarray(?::(?P<dtype>[a-z0-9]+)(?::(?P<shape>[0-9]{1,18}(?:,[0-9]{1,18})*))?)?"
)


@dataclass(frozen=True)
class Encoding:
    """One column's encoding.

    Attributes:
        dtype: of all values, None if each value states its dtype.
        shape: of all values, None if each value states its shape.
        text: whether a value consists of bytes only, without dtype and shape.
        unicode: whether these bytes are UTF-8.
    """

    dtype: np.dtype[np.generic] | None
    shape: tuple[int, ...] | None
    text: bool = False
    unicode: bool = False

    @classmethod
    def of(cls, column: str, name: str) -> Encoding:
        """Return the encoding of that name.

        Raises:
            UnsupportedError: such values are not numbers, or are unsafe to decode.
        """
        if name in _TEXT:
            return cls(np.dtype(np.uint8), None, text=True, unicode=name == "str")
        if name in _SCALARS:
            return cls(np.dtype("int64" if name == "int" else name), ())
        found = _NDARRAY.fullmatch(name)
        if found is None or (found["dtype"] or "int8") not in DTYPES:
            why = "which is never unpickled" if name == "pkl" else "which no tensor has"
            raise UnsupportedError(
                f"column {column}: is encoded as {name[:60]!r}, {why}; {choose_others()}"
            )
        shape = tuple(map(int, found["shape"].split(","))) if found["shape"] else None
        return cls(np.dtype(found["dtype"]) if found["dtype"] else None, shape)

    @classmethod
    def for_spec(cls, spec: TensorSpec) -> tuple[str, Encoding]:
        """Return the name and the encoding with which a tensor is written."""
        if spec.levels:
            if spec.dtype == np.uint8 and not spec.row_shape:
                return "str" if spec.marks.is_text else "bytes", cls(spec.dtype, None, text=True)
            return f"ndarray:{spec.dtype.name}", cls(spec.dtype, None)
        if not spec.row_shape:
            return spec.dtype.name, cls(spec.dtype, ())
        shape = ",".join(map(str, spec.row_shape))
        return f"ndarray:{spec.dtype.name}:{shape}", cls(spec.dtype, spec.row_shape)

    @property
    def ragged(self) -> bool:
        """Whether values differ in their number of rows."""
        return self.shape is None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of every value, None if they differ."""
        if self.dtype is None or self.shape is None:
            return None
        return prod(self.shape) * self.dtype.itemsize

    def decode(self, data: bytes) -> Array:
        """Return a value.

        Raises:
            DamagedFileError: its size does not match its shape and dtype.
        """
        if self.text:
            return np.frombuffer(data, np.uint8)
        dtype, shape, at = self.dtype, self.shape, 0
        if dtype is None:
            code = data[0] if data else -1
            if code not in CODES:
                raise DamagedFileError(f"has dtype code {code}")
            dtype, at = np.dtype(CODES[code]), 1
        if shape is None:
            if len(data) <= at:
                raise DamagedFileError("ends before its shape")
            axes, width = data[at] >> 2, 1 << (data[at] & 3)
            end = at + 1 + axes * width
            if len(data) < end or not axes:
                raise DamagedFileError(f"has {axes} axes, and ends within them")
            shape = tuple(
                int.from_bytes(data[place : place + width], "little")
                for place in range(at + 1, end, width)
            )
            at = end
        size = prod(shape) * dtype.itemsize
        if len(data) - at != size:
            raise DamagedFileError(
                f"shape {shape} of {dtype} needs {size} bytes, found {len(data) - at}"
            )
        found: Array = np.frombuffer(data, dtype.newbyteorder("<"), offset=at).reshape(shape)
        return found.astype(dtype, copy=False)

    def encode(self, value: Array) -> bytes:
        """Return the bytes of a value. Arrays must not be empty."""
        body = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
        if self.text or self.shape is not None:
            return body
        largest = max(value.shape)
        code = 0 if largest < 1 << 8 else 1 if largest < 1 << 16 else 2 if largest < 1 << 32 else 3
        axes = np.array(value.shape, f"<u{1 << code}").tobytes()
        return bytes([value.ndim << 2 | code]) + axes + body
