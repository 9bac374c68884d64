"""The dtypes of the container, and their HDF5 descriptions."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import UnsupportedError

# Bits of the exponent and of the mantissa.
_FLOATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}
_INTEGERS = {
    f"{kind}{bits}": (bits, kind == "int") for kind in ("uint", "int") for bits in (8, 16, 32, 64)
}
NAMES = frozenset({*_FLOATS, *_INTEGERS, "bool", "complex64", "complex128"})


@cache
def datatype_message(name: str) -> bytes:
    """Return the datatype message of an object header for the dtype of this name."""
    if name in _INTEGERS:
        message = _integer(*_INTEGERS[name])
    elif name in _FLOATS:
        message = _float(*_FLOATS[name])
    elif name == "bool":
        # As h5py stores booleans: an enumeration over one byte.
        message = struct.pack("<B3sI", 0x18, b"\2", 1) + _integer(8, True)
        message += b"FALSE\0\0\0TRUE\0\0\0\0\0\1"
    else:
        message = _complex(_float(*_FLOATS["float32" if name == "complex64" else "float64"]))
    return message.ljust(-(-len(message) // 8) * 8, b"\0")


def string_message(size: int) -> bytes:
    """Return the datatype message for a string of this size, padded with zeros."""
    return struct.pack("<B3sI", 0x13, b"\1", size)


def _integer(bits: int, signed: bool) -> bytes:
    return struct.pack("<B3sIHH", 0x10, b"\x08" if signed else b"", bits // 8, 0, bits)


def _float(exponent: int, mantissa: int) -> bytes:
    bits, bias = 1 + exponent + mantissa, (1 << exponent - 1) - 1
    # Little-endian, an implied leading 1, and the position of the sign bit.
    flags = bytes([0x20, bits - 1, 0])
    size = struct.pack("<B3sIHH", 0x11, flags, bits // 8, 0, bits)
    return size + struct.pack("<4BI", mantissa, exponent, 0, mantissa, bias)


def _complex(part: bytes) -> bytes:
    size = int.from_bytes(part[4:8], "little")
    message = struct.pack("<B3sI", 0x16, b"\2", 2 * size)
    for name, offset in ((b"r", 0), (b"i", size)):
        # Name, offset, and no array dimensions.
        message += struct.pack("<8sI28x", name, offset) + part
    return message


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """Return the little-endian NumPy dtype of this name."""
    if name not in NAMES:
        raise UnsupportedError(f"the container holds no {name}")
    dtype = dtype_of_rows(name)
    return dtype if dtype.kind == "V" else dtype.newbyteorder("<")
