"""Whole tensors in memory, made of batches without a copy of all of them.

Pages that are new to a process take longer to write than to copy. So batches are not kept until
they are joined: their rows are appended to arrays that grow in place, and their memory is reused.
"""

from __future__ import annotations

import mmap

import numpy as np

from lodcli.formats.arrays.batch_parts import BatchSplitter, Kind
from lodcli.formats.core.schema import Batch, Schema, tensor_of
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform.machine import advise, enlarged, mapped_zeros
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

# Smaller arrays are kept in parts: of very many tensors, each would take a mapping of the system.
_LEAST_BYTES = 1 << 20
# From here on in huge pages, which are cleared faster; the last one may be nearly empty.
_HUGE_BYTES = 8 << 20


class GrowingArray:
    """Rows to which others are appended."""

    def __init__(self, row_shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self._row_shape = row_shape
        self._dtype = dtype
        self._parts: list[Array] = []
        self._block: mmap.mmap | None = None
        self._rows = self._size_bytes = 0

    def append(self, rows: Array) -> None:
        """Append rows (K, ...), copied."""
        if self._size_bytes + rows.nbytes < _LEAST_BYTES:
            self._parts.append(rows.copy())
        else:
            self._reserve(self._size_bytes + rows.nbytes)
            self._place(rows, self._size_bytes)
        self._rows += len(rows)
        self._size_bytes += rows.nbytes

    def _reserve(self, size_bytes: int) -> None:
        """Allocate this many bytes, and more in advance, because unused pages take no memory."""
        if self._block is not None and size_bytes <= len(self._block):
            return
        reserved = size_bytes + size_bytes // 4
        try:
            if self._block is None:
                self._block = mapped_zeros(reserved)
            else:
                self._block = enlarged(self._block, reserved)
        except OSError as error:
            raise MemoryError(f"{reserved} bytes: {error.strerror}") from None
        if size_bytes >= _HUGE_BYTES:
            advise(self._block, "MADV_HUGEPAGE")
        place = 0
        for part in self._parts:
            self._place(part, place)
            place += part.nbytes
        self._parts.clear()

    def _place(self, rows: Array, position: int) -> None:
        assert self._block is not None
        np.ndarray(rows.shape, self._dtype, self._block, position)[...] = rows

    def array(self) -> Array:
        """Return all rows, read-only; then nothing can be appended."""
        shape = (self._rows, *self._row_shape)
        if self._block is not None:
            # Not np.ndarray, which would let the block be resized.
            content = np.frombuffer(self._block, np.uint8, self._size_bytes)
            found: Array = content.view(self._dtype).reshape(shape)
        else:
            found = np.concatenate([np.empty((0, *self._row_shape), self._dtype), *self._parts])
        found.flags.writeable = False
        return found


class HeldBatches:
    """Tensors to which batches are appended.

    Args:
        schema: of the batches; without TensorArrays.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._splitter = BatchSplitter(schema, nulls=True)
        self._arrays: dict[tuple[Kind, str], GrowingArray] = {}
        # For each level with nulls, and for the rows.
        self._masks: dict[tuple[str, int], GrowingArray] = {}
        for spec in schema:
            dtype = spec.dtype.newbyteorder("=")
            self._arrays[Kind.ROWS, spec.name] = GrowingArray(spec.row_shape, dtype)
            for level in spec.levels:
                if (Kind.OFFSETS, level.key) not in self._arrays:
                    offsets = GrowingArray((), np.dtype(np.int64))
                    offsets.append(np.zeros(1, np.int64))
                    self._arrays[Kind.OFFSETS, level.key] = offsets

    def add(self, batch: Batch) -> None:
        """Append a batch, in which tensors that share a level are together.

        Raises:
            InvalidDataError: it does not match the schema.
        """
        before = dict(self._splitter.counts)
        for part in self._splitter.split(batch):
            rows = part.data[1:] + part.base if part.kind is Kind.OFFSETS else part.data
            self._arrays[part.kind, part.key].append(rows)
        for spec in self._schema:
            if spec.nullable and spec.name in batch:
                tensor = tensor_of(batch[spec.name])
                arrays = [*((Kind.OFFSETS, one.key) for one in spec.levels), (Kind.ROWS, spec.name)]
                for level, array in enumerate(arrays):
                    mask = tensor.nulls.mask(level)
                    added = self._splitter.counts[array] - before[array]
                    self._add_mask((spec.name, level), mask, before[array], added)

    def _add_mask(self, key: tuple[str, int], mask: Array | None, before: int, added: int) -> None:
        """Append the mask of some items; None if none is null, as none of all before may be."""
        if mask is None and key not in self._masks:
            return
        if key not in self._masks:
            self._masks[key] = GrowingArray((), np.dtype(np.bool_))
            self._masks[key].append(np.ones(before, np.bool_))
        self._masks[key].append(np.ones(added, np.bool_) if mask is None else mask)

    def counted(self) -> Schema:
        """Return the schema with actual counts.

        Raises:
            InvalidDataError: they differ from those of the schema.
        """
        return self._splitter.counted()

    def tensors(self) -> dict[str, LoDTensor]:
        """Return all tensors, read-only, with one index for equal levels; then none is added."""
        arrays = {key: array.array() for key, array in self._arrays.items()}
        offsets = {
            key: immutable(array) for (kind, key), array in arrays.items() if kind is Kind.OFFSETS
        }
        lods: dict[tuple[str, ...], LoD] = {}
        found = {}
        for spec in self._schema:
            keys = tuple(level.key for level in spec.levels)
            if keys not in lods:
                lods[keys] = LoD._trusted([offsets[key] for key in keys], spec.level_names)
            masks = [self._masks.get((spec.name, level)) for level in range(len(keys) + 1)]
            nulls = Nulls.of([None if mask is None else mask.array() for mask in masks])
            rows = arrays[Kind.ROWS, spec.name]
            found[spec.name] = LoDTensor(rows, lods[keys], spec.marks, nulls)
        return found
