"""From a .cu file to a running kernel: types, compiling, the index on the device."""

from __future__ import annotations

import weakref
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError

FOLDER = Path(__file__).parent
# Line numbers in profiles cost nothing. C++17 is what every supported NVRTC takes.
OPTIONS = ("-std=c++17", f"-I{FOLDER}", "-lineinfo")

C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "int64",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "uint64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float",
    "float64": "double",
}
# Of what values are reduced in.
C_WIDE = {"float32": "float", "float64": "double", "int64": "int64", "uint64": "uint64"}
# Values of these many bytes, for kernels that only move them.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint64", 16: "uint4"}

Grid = tuple[int, ...]
THREADS = 256


def run(file: str, kernel: str, grid: Grid, block: Grid, *args: Any) -> None:
    """Launch a kernel on the current device and stream. A grid without blocks is done at once.

    Args:
        file: the .cu file, without its ending.
        kernel: its name, with the types it is made for: "fill<float>".
        grid: blocks along each axis.
        block: threads along each axis.
        args: device arrays, and numbers (whole ones are 64 bits wide).
    """
    if all(grid):
        _function(file, kernel, cupy.cuda.runtime.getDevice())(grid, block, args)


@cache
def _function(file: str, kernel: str, device: int) -> Any:
    """Return a compiled kernel; cupy keeps what it compiles on disk."""
    code = (FOLDER / f"{file}.cu").read_text("utf-8")
    module = cupy.RawModule(code=code, options=OPTIONS, name_expressions=(kernel,))
    return module.get_function(kernel)


def c_type(dtype: np.dtype[Any], what: str) -> str:
    """Return the C++ type of a dtype's values.

    Raises:
        UnsupportedError: there is none; `what` needs it.
    """
    if dtype.name not in C_TYPES:
        raise UnsupportedError(
            f"no cupy kernel for {what} of {dtype}; move the rows to main memory "
            "(LoDTensor.to_device, --device cpu)"
        )
    return C_TYPES[dtype.name]


# Of an index that nobody can change, the copy on each device: by address, for arrays have
# no hash, and gone when the index is.
_kept: dict[tuple[int, int], tuple[weakref.ref[Any], Any]] = {}


def on_device(offsets: Offsets) -> Array:
    """Return offsets in the current device's memory, copied there only once."""
    if not isinstance(offsets, np.ndarray):
        return offsets
    if offsets.flags.writeable:
        return cupy.asarray(offsets)  # type: ignore[no-any-return]
    key = (id(offsets), cupy.cuda.runtime.getDevice())
    found = _kept.get(key)
    if found is None or found[0]() is not offsets:
        gone = weakref.ref(offsets, lambda _: _kept.pop(key, None))
        found = _kept[key] = (gone, cupy.asarray(offsets))
    return found[1]  # type: ignore[no-any-return]


def result_array(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *inputs: Array
) -> Array:
    """Return the array that a result goes to; see ops/common.py."""
    if out is None:
        made: Array = cupy.empty(shape, dtype)
        return made
    if not isinstance(out, cupy.ndarray):
        raise InvalidDataError(f"out must be an array on the GPU, found {type(out).__name__}")
    if out.shape != shape:
        raise ShapeMismatchError(f"out must have shape {shape}, found {out.shape}")
    if out.dtype != dtype:
        raise InvalidDataError(f"out must hold {dtype}, found {out.dtype}")
    if not out.flags.c_contiguous:
        raise InvalidDataError("out must be C-contiguous, found a strided array")
    if any(cupy.may_share_memory(out, each) for each in inputs):
        raise InvalidDataError("out must not share memory with the rows that are read")
    given: Array = out
    return given


def flat_rows(data: Array) -> Array:
    """Return (N, D) C-contiguous rows of data of any rank; a view where it can be."""
    width = int(np.prod(data.shape[1:], dtype=np.int64))
    rows: Array = cupy.ascontiguousarray(data).reshape(data.shape[0], width)
    return rows


def address(array: Any) -> int:
    """Return where on the device the values of an array begin."""
    return int(array.data.ptr)


def tiles(rows: int, width: int, height: int) -> tuple[Grid, Grid]:
    """Return grid and block of units that each walk down `height` rows: (columns, units)."""
    columns = min(THREADS, 1 << max(0, width - 1).bit_length())
    units = THREADS // columns
    return (blocks(blocks(rows, height), units), blocks(width, columns)), (columns, units)


def blocks(count: int, each: int) -> int:
    """Return how many blocks of `each` it takes for `count`."""
    return -(-count // each)
