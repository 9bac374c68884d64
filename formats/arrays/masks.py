"""Writes masks of nulls, together with the rows.

A mask is written from the first null on; previous items are filled in as valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from lodcli.formats.arrays.array_writer import ArraySpec, Sink
from lodcli.formats.arrays.byte_blocks import byte_blocks
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, pack

S = TypeVar("S", bound=Sink)
# Size of the pieces in which items before the first null are written.
_VALID_BYTES = 1 << 20


class MaskWriter(Generic[S]):
    """Writes the masks of tensors beside their rows.

    Args:
        schema: the tensors in the batches; only nullable ones have masks.
        open_sink: returns the sink of an array.
        name: returns the name of the mask of a tensor's level; the rows are the level below the
            finest.
        packed: True for masks of one bit per item, the lowest first; False for bools.
    """

    def __init__(
        self,
        schema: Schema,
        open_sink: Callable[[ArraySpec], S],
        name: Callable[[TensorSpec, int], str],
        *,
        packed: bool,
    ) -> None:
        self._specs = {spec.name: spec for spec in schema if spec.nullable}
        self._open_sink = open_sink
        self._name = name
        self._packed = packed
        self._counts: dict[str, list[int]] = {}
        self._masks: dict[str, _Mask[S]] = {}
        self._levels: dict[str, set[int]] = {}

    def watched(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Return the batches; the masks of each are written when it is read."""
        return self._watched(batches) if self._specs else batches

    def _watched(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            for name, spec in self._specs.items():
                item = batch.get(name)
                if isinstance(item, LoDTensor):
                    self._write(spec, item)
            yield batch

    def _write(self, spec: TensorSpec, item: LoDTensor) -> None:
        sizes = [*(offsets.size - 1 for offsets in item.lod.levels), item.rows]
        before = self._counts.setdefault(spec.name, [0] * len(sizes))
        for level, size in enumerate(sizes):
            mask = item.nulls.mask(level)
            name = self._name(spec, level)
            if mask is not None and name not in self._masks:
                sink = self._open_sink(self._array(name))
                self._masks[name] = _Mask(sink, before[level], packed=self._packed)
                self._levels.setdefault(spec.name, set()).add(level)
            if name in self._masks:
                self._masks[name].write(np.ones(size, np.bool_) if mask is None else mask)
            before[level] += size

    def _array(self, name: str, rows: int | None = None) -> ArraySpec:
        return ArraySpec(name, np.dtype(np.uint8 if self._packed else np.bool_), (), rows)

    def levels(self) -> dict[str, list[int]]:
        """Return the levels that have a mask, in order, by tensor."""
        return {name: sorted(levels) for name, levels in self._levels.items()}

    def finish(self) -> dict[str, tuple[ArraySpec, S]]:
        """Return the masks that were written, by name."""
        return {
            name: (self._array(name, mask.finish()), mask.sink)
            for name, mask in self._masks.items()
        }


class _Mask(Generic[S]):
    """A mask being written: complete bytes are written, remaining bits are buffered.

    Args:
        sink: for the bytes.
        valid: number of items before the first batch with a mask.
        packed: see MaskWriter.
    """

    def __init__(self, sink: S, valid: int, *, packed: bool) -> None:
        self.sink = sink
        self._bytes = 0
        self._each = 8 if packed else 1
        whole, rest = divmod(valid, self._each)
        for start in range(0, whole, _VALID_BYTES):
            size = min(_VALID_BYTES, whole - start)
            self._put(np.full(size, 0xFF if packed else 1, np.uint8))
        self._rest: Mask = np.ones(rest, np.bool_)

    def write(self, mask: Mask) -> None:
        """Write the mask of the next items."""
        whole = np.concatenate([self._rest, mask])
        full = whole.size - whole.size % self._each
        self._put(self._stored(whole[:full]))
        self._rest = whole[full:]

    def finish(self) -> int:
        """Write the remaining bits, and return the number of bytes."""
        self._put(self._stored(self._rest))
        return self._bytes

    def _stored(self, mask: Mask) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return pack(mask) if self._each > 1 else mask.view(np.uint8)

    def _put(self, stored: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        self._bytes += stored.size
        for block in byte_blocks(stored):
            self.sink.write(block)
