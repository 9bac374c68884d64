"""Reads rows of a file to a GPU in checked blocks, overlapping reads and copies."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import cupy
import numpy as np

from lodcli.formats.core.format import Source
from lodcli.formats.core.schema import find
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Large enough for the full speed of the bus, small enough to stay in the CPU's cache.
_BLOCK_BYTES = 8 << 20


class _Staging:
    """Two page-locked buffers in turn: one is filled while the other is copied to the GPU."""

    def __init__(self) -> None:
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._buffers: list[Array] = [np.empty(0, np.uint8)] * 2
        self._sent: list[Any] = [None, None]
        self._turn = 0

    def buffer(self, size_bytes: int) -> Array:
        """Return the next buffer, when its last copy has finished: (>= size_bytes,) uint8."""
        self._turn ^= 1
        if self._sent[self._turn] is not None:
            self._sent[self._turn].synchronize()
        if self._buffers[self._turn].size < size_bytes:
            memory = cupy.cuda.alloc_pinned_memory(size_bytes)
            self._buffers[self._turn] = np.frombuffer(memory, np.uint8, size_bytes)
        return self._buffers[self._turn]

    def start(self) -> None:
        """Wait for queued work, which may still use newly allocated memory."""
        self._stream.wait_event(cupy.cuda.get_current_stream().record())

    def send(self, rows: Array, target: Any) -> None:
        """Queue the copy of rows in the buffer returned last."""
        target.set(rows, stream=self._stream)
        self._sent[self._turn] = self._stream.record()

    def finish(self) -> None:
        """Wait until all copies have finished; the buffers must live until then."""
        self._stream.synchronize()


def read_to_gpu(source: Source, name: str, number: int) -> LoDTensor:
    """Return a tensor of an open file with checked rows on a GPU; the index is in main memory.

    If kvikio is installed, it reads rows that are stored in the file as in memory.

    Args:
        source: the file. All rows of a container are never in main memory at once.
        number: of the GPU, -1 for the current one.

    Raises:
        UnsupportedError: it is a TensorArray.
        LodError: the file is damaged; nothing is returned.
    """
    spec = find(source.schema, name)
    if spec.array:
        raise UnsupportedError(f"{name} is a TensorArray, which stays in main memory; pack it")
    with cupy.cuda.Device(cupy.cuda.runtime.getDevice() if number < 0 else number):
        stored = source.stored_rows(name) if find_spec("kvikio") else None
        if stored is not None:
            from lodcli.formats.gpu.kvikio import read_stored

            found = read_stored(stored, spec.row_shape, spec.dtype)
            if found is not None:
                return LoDTensor(found.data, found.lod, spec.marks)
        staging = _Staging()
        lod, count, blocks = source.row_blocks(name, staging.buffer, _BLOCK_BYTES)
        there = cupy.empty((count, *spec.row_shape), spec.dtype)
        staging.start()
        try:
            for first, rows in blocks:
                staging.send(rows, there[first : first + len(rows)])
        finally:
            staging.finish()
    return LoDTensor(there, lod, spec.marks)
