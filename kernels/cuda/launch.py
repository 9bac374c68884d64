"""Compiles and launches the kernels of a .cu file: types, cache, index on the device."""

from __future__ import annotations

import atexit
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda import compiling
from lodcli.kernels.cuda.device_limits import DeviceLimits as DeviceLimits
from lodcli.kernels.cuda.device_limits import blocks as blocks
from lodcli.kernels.errors import (
    InvalidDataError,
    LaunchRefusedError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.options import to_main_memory

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
# Types of running values of reductions.
C_WIDE = {"float32": "float", "float64": "double", "int64": "int64", "uint64": "uint64"}
# Types for kernels that only copy values, by their size in bytes.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint64", 16: "uint4"}

Grid = tuple[int, ...]
THREADS, WARP = 256, 32
MOST_BLOCKS = 65535  # along the second and the third axis of a grid
# Bytes of one memory transaction.
SECTOR_BYTES = 32
# One row of each of a block's units, as in narrow.cuh.
NARROW_BYTES = 256


# CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, _NOT_PERMITTED and _NOT_SUPPORTED, as under MPS; and
# _INVALID_CLUSTER_SIZE.
_REFUSED = {720, 800, 801, 912}


def run(file: str, kernel: str, grid: Grid, block: Grid, *args: Any, shared_bytes: int = 0) -> None:
    """Launch a kernel on the current device and stream; does nothing for a grid without blocks.

    Args:
        file: the .cu file, without its extension.
        kernel: its name with its template arguments: "fill<float>".
        grid: blocks along each axis.
        block: threads along each axis.
        args: device arrays, and numbers (integers are passed as 64 bits).
        shared_bytes: dynamic shared memory of each block.

    Raises:
        UnsupportedError: there are more blocks along an axis than a GPU supports.
    """
    if all(grid):
        if max(grid[1:], default=0) > MOST_BLOCKS:
            raise UnsupportedError(
                f"{kernel} needs {max(grid[1:])} blocks for the columns or heads of a row, a GPU "
                f"takes {MOST_BLOCKS}; {to_main_memory('the rows')}"
            )
        function = _with_shared(file, kernel, shared_bytes)
        function(grid, block, args, shared_mem=shared_bytes)


def _with_shared(file: str, kernel: str, shared_bytes: int, *, together: bool = False) -> Any:
    """Return a kernel for the current device, permitted to use this much shared memory."""
    function = _function(file, kernel, cupy.cuda.runtime.getDevice(), together)
    if function.max_dynamic_shared_size_bytes < shared_bytes:
        function.max_dynamic_shared_size_bytes = shared_bytes
    return function


def run_together(
    file: str, kernel: str, grid: Grid, block: Grid, shared_bytes: int, *args: Any
) -> None:
    """Launch a kernel cooperatively: all blocks run at once, so they may wait for each other.

    Args:
        grid: no more blocks than there are multiprocessors.
        shared_bytes: of shared memory, for each block; see limits().

    Raises:
        LaunchRefusedError: the driver cannot run this many at once; nothing was launched.
    """
    function = _with_shared(file, kernel, shared_bytes, together=True)
    # CuPy would launch only a part of a grid of one axis, with a warning, and its blocks would wait
    # forever for the others.
    resident = (
        limits().multiprocessors
        * cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            function.kernel.ptr, math.prod(block), shared_bytes
        )
    )
    if resident < math.prod(grid):
        raise LaunchRefusedError(f"{kernel}: {math.prod(grid)} blocks at once, of {resident}")
    _launch_or_refuse(function, kernel, grid, block, shared_bytes, args)


def run_in_clusters(
    file: str, kernel: str, grid: Grid, block: Grid, shared_bytes: int, *args: Any
) -> None:
    """Launch a kernel whose blocks along the first axis form one cluster, as it was compiled.

    Args:
        grid: as many blocks along its first axis as a cluster has.
        shared_bytes: of shared memory, for each block; see limits().

    Raises:
        LaunchRefusedError: the driver does not run such clusters; nothing was launched.
    """
    function = _with_shared(file, kernel, shared_bytes)
    _launch_or_refuse(function, kernel, grid, block, shared_bytes, args)


def _launch_or_refuse(
    function: Any, kernel: str, grid: Grid, block: Grid, shared_bytes: int, args: tuple[Any, ...]
) -> None:
    driver = cupy.cuda.driver
    try:
        function(grid, block, args, shared_mem=shared_bytes)
    except driver.CUDADriverError as error:
        if error.status not in _REFUSED:
            raise
        raise LaunchRefusedError(f"{kernel}: {error}") from error


@cache
def _function(file: str, kernel: str, device: int, together: bool) -> Any:
    return compiling.function(file, kernel, together=together)


def limits() -> DeviceLimits:
    """Return the resource limits of the current device."""
    return _limits(cupy.cuda.runtime.getDevice())


@cache
def _limits(device: int) -> DeviceLimits:
    found = cupy.cuda.runtime.getDeviceProperties(device)
    return DeviceLimits(
        (found["major"], found["minor"]),
        found["multiProcessorCount"],
        found["sharedMemPerBlockOptin"],
        bool(found["cooperativeLaunch"]),
    )


def c_type(dtype: np.dtype[Any], what: str) -> str:
    """Return the C++ type of a dtype's values.

    Raises:
        UnsupportedError: there is none. The message says that `what` needs it.
    """
    if dtype.name not in C_TYPES:
        raise UnsupportedError(
            f"no cupy kernel for {what} of {dtype}; {to_main_memory('the rows')}"
        )
    return C_TYPES[dtype.name]


# Results derived from an immutable index, by its address, because arrays have no hash. An entry is
# removed with its index.
_cache: dict[tuple[int, str], tuple[weakref.ref[Any], Any]] = {}
# Before Python clears modules at exit: after that `_evict` could not call cupy's functions.
atexit.register(_cache.clear)


def _cached(offsets: Offsets, what: str, make: Callable[[Offsets], Any]) -> Any:
    if not is_immutable(offsets):
        return make(offsets)
    key = (id(offsets), what)
    found = _cache.get(key)
    if found is None or found[0]() is not offsets:
        gone = weakref.ref(offsets, lambda _: _evict(key))
        found = _cache[key] = (gone, make(offsets))
    return found[1]


def _evict(key: tuple[int, str]) -> None:
    _, made = _cache.pop(key, (None, None))
    if isinstance(made, _Copy):
        made.let_go()


def on_device(offsets: Offsets) -> Array:
    """Return offsets in the current device's memory, copied there only once."""
    if not isinstance(offsets, np.ndarray):
        return offsets
    if not is_immutable(offsets):
        return cupy.asarray(offsets)  # type: ignore[no-any-return]
    copy: _Copy = _cached(offsets, f"device {cupy.cuda.runtime.getDevice()}", _copied)
    return copy.on_stream(cupy.cuda.get_current_stream())


@dataclass
class _Copy:
    """An index on a device, which any stream may read.

    Attributes:
        there: the offsets.
        device: its number.
        stream: the stream that copied them; it reuses the memory once this is freed.
        event: recorded after the copy; None once the copy is done.
        readers: the other streams that use them, by address.
    """

    there: Array
    device: int
    stream: Any
    event: Any
    readers: dict[int, Any] = field(default_factory=dict)

    def on_stream(self, stream: Any) -> Array:
        if stream.ptr != self.stream.ptr:
            self.readers[stream.ptr] = stream
        if self.event is not None:
            # Another stream may use it while the copy is still queued on the first.
            if self.event.done:
                self.event = None
            else:
                stream.wait_event(self.event)
        return self.there

    def let_go(self) -> None:
        """Make the first stream wait for all readers before it reuses the memory."""
        with cupy.cuda.Device(self.device):
            for reader in self.readers.values():
                self.stream.wait_event(reader.record())


def _copied(offsets: Offsets) -> _Copy:
    stream = cupy.cuda.get_current_stream()
    there = cupy.asarray(offsets)
    return _Copy(there, cupy.cuda.runtime.getDevice(), stream, stream.record())


def shortest_and_longest(offsets: Offsets) -> tuple[int, int]:
    """Return the least and the greatest length of one or more segments.

    For offsets on the device, return the possible range, which avoids a device sync.
    """
    if not isinstance(offsets, np.ndarray):
        return 0, np.iinfo(np.int64).max
    return _cached(offsets, "lengths", _extremes)  # type: ignore[no-any-return]


def _extremes(offsets: Offsets) -> tuple[int, int]:
    lengths = np.diff(offsets)
    return int(lengths.min()), int(lengths.max())


def result_array(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *inputs: Array
) -> Array:
    """Return the array for a result; see rows.py."""
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
        raise InvalidDataError("out must not share memory with rows that are read or another out")
    given: Array = out
    return given


def flat_rows(data: Array) -> Array:
    """Return (N, D) C-contiguous rows of data of any rank; a view if possible."""
    width = int(np.prod(data.shape[1:], dtype=np.int64))
    rows: Array = cupy.ascontiguousarray(data).reshape(data.shape[0], width)
    return rows


def address(array: Any) -> int:
    """Return the device address of the first value of an array."""
    return int(array.data.ptr)


def tiles(rows: int, width: int, height: int) -> tuple[Grid, Grid]:
    """Return grid and block of units that each process `height` rows: (columns, units).

    Args:
        rows: number of all rows.
        width: columns of a unit, divided by the number that a thread processes at once.
        height: rows of a unit.
    """
    across = blocks(width, THREADS)
    # A power of two of threads, or whole warps: at most 31 threads have no column.
    columns = WARP * blocks(blocks(width, across), WARP)
    if width < WARP:
        columns = 1 << max(0, width - 1).bit_length()
    units = THREADS // columns
    return (blocks(blocks(rows, height), units), across), (columns, units)


def narrow_tiles(rows: int, width: int, row_bytes: int, height: int) -> tuple[Grid, Grid]:
    """Return grid and block for narrow.cuh, whose shared memory holds `height` rows per unit."""
    units = min(NARROW_BYTES // row_bytes, THREADS // width)
    return (blocks(blocks(rows, height), units),), (width, units)


def shares(rows: int, width: int, many: int, height: int, *, dealt: bool) -> tuple[Grid, Grid]:
    """Return grid and block for row_partition.cuh: `many` columns and `height` rows per thread."""
    if not dealt:
        return tiles(rows, width // many, height)
    units = THREADS // width
    return (blocks(blocks(rows, height), units),), (width, units)


def by_row(rows: int, width: int, many: int) -> tuple[Grid, Grid]:
    """Return grid and block: a power of two of threads per row, each with `many` columns."""
    lanes = min(WARP, 1 << (width // many - 1).bit_length())
    return (blocks(rows, THREADS // lanes),), (lanes, THREADS // lanes)


def is_narrow(row_bytes: int) -> bool:
    """Return whether a row is smaller than one memory transaction."""
    return row_bytes < SECTOR_BYTES


def at_once(width: int, *arrays: Array, most: int = 8) -> int:
    """Return how many adjacent values of a row one thread may process, as vectors.cuh requires.

    Args:
        width: number of values in a row.
        arrays: C-contiguous rows; those of the first are read, at most 16 bytes at a time.
        most: maximum number that fits the registers of a thread.
    """
    sizes = [(address(one), one.itemsize) for one in arrays if one.size]
    for count in (8, 4, 2):
        fits = count <= most and count * arrays[0].itemsize <= 16 and not width % count
        if fits and not any(place % min(16, count * size) for place, size in sizes):
            return count
    return 1
