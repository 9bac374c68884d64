"""The dtypes of the container as types of h5py, for writing."""

from __future__ import annotations

from functools import cache

from h5py import h5t

_PLAIN = {
    "uint8": h5t.STD_U8LE,
    "uint16": h5t.STD_U16LE,
    "uint32": h5t.STD_U32LE,
    "uint64": h5t.STD_U64LE,
    "int8": h5t.STD_I8LE,
    "int16": h5t.STD_I16LE,
    "int32": h5t.STD_I32LE,
    "int64": h5t.STD_I64LE,
    "float16": h5t.IEEE_F16LE,
    "float32": h5t.IEEE_F32LE,
    "float64": h5t.IEEE_F64LE,
}


@cache
def hdf5_type(name: str) -> h5t.TypeID:
    """Return the HDF5 type that stores the dtype of this name."""
    if name in _PLAIN:
        return _PLAIN[name]
    if name == "bool":
        # As h5py stores booleans: an enumeration over one byte.
        kind = h5t.enum_create(h5t.STD_I8LE)
        kind.enum_insert(b"FALSE", 0)
        kind.enum_insert(b"TRUE", 1)
        return kind
    if name == "bfloat16":
        kind = h5t.IEEE_F32LE.copy()
        # Sign bit 15, 8 bits of exponent from bit 7, 7 bits of mantissa from bit 0.
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        return kind
    part = _PLAIN["float32" if name == "complex64" else "float64"]
    size = part.get_size()
    kind = h5t.create(h5t.COMPOUND, 2 * size)
    kind.insert(b"r", 0, part)
    kind.insert(b"i", size, part)
    return kind
