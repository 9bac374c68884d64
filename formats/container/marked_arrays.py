"""Arrays of marks: masks of nulls, and words of categories.

A mask is written from the first null on; what came before is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.arrays.array_writer import ArraySpec
from lodcli.formats.arrays.byte_blocks import byte_blocks
from lodcli.formats.container.header import DatasetEntry, mask_path, word_paths
from lodcli.formats.container.rows import Rows
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, check_offsets, check_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories
from lodcli.kernels.tensor.nulls import Mask, pack

if TYPE_CHECKING:
    from lodcli.formats.container.sinks import Sink  # loads h5py, which readers do not need

_BITS = np.dtype(np.uint8)
# Written at a time of what came before the first null.
_VALID = np.full(1 << 20, 0xFF, np.uint8)


class MaskWriter:
    """Writes the masks of tensors beside their rows.

    Args:
        schema: what the batches hold; only tensors that are nullable are looked at.
        open_sink: makes the sink of an array.
    """

    def __init__(self, schema: Schema, open_sink: Callable[[ArraySpec], Sink]) -> None:
        self._specs = {spec.name: spec for spec in schema if spec.nullable}
        self._open_sink = open_sink
        self._counts: dict[str, list[int]] = {}
        self._bits: dict[str, _Bits] = {}

    def watched(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Return the batches, whose masks are written as they pass."""
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
            mask = item.nulls.masks[level] if item.nulls else None
            path = mask_path(spec, level)
            if mask is not None and path not in self._bits:
                array = ArraySpec(path, _BITS)
                self._bits[path] = _Bits(self._open_sink(array), before[level])
            if path in self._bits:
                self._bits[path].write(np.ones(size, np.bool_) if mask is None else mask)
            before[level] += size

    def finish(self) -> dict[str, tuple[ArraySpec, Sink]]:
        """Return the masks that were written, by path."""
        return {
            path: (ArraySpec(path, _BITS, (), bits.finish()), bits.sink)
            for path, bits in self._bits.items()
        }


class _Bits:
    """One mask: whole bytes are written, the rest waits.

    Args:
        sink: of the bytes.
        valid: how many items came before the first null.
    """

    def __init__(self, sink: Sink, valid: int) -> None:
        self.sink = sink
        self._bytes = 0
        for start in range(0, valid // 8, _VALID.size):
            self._put(_VALID[: min(_VALID.size, valid // 8 - start)])
        self._rest: Mask = np.ones(valid % 8, np.bool_)

    def write(self, mask: Mask) -> None:
        """Write the mask of the next items."""
        whole = np.concatenate([self._rest, mask])
        full = whole.size - whole.size % 8
        self._put(pack(whole[:full]))
        self._rest = whole[full:]

    def finish(self) -> int:
        """Write what waits, and return the number of bytes."""
        self._put(pack(self._rest))
        return self._bytes

    def _put(self, packed: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        self._bytes += packed.size
        for block in byte_blocks(packed):
            self.sink.write(block)


def write_words(
    schema: Schema, open_sink: Callable[[ArraySpec], Sink]
) -> dict[str, tuple[ArraySpec, Sink]]:
    """Return the sinks of all dictionaries by path, with everything written."""
    found: dict[str, tuple[ArraySpec, Sink]] = {}
    for spec in schema:
        if spec.marks.categories is None:
            continue
        encoded = [word.encode() for word in spec.marks.categories.words]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        letters = np.frombuffer(b"".join(encoded), np.uint8)
        parts: tuple[Array, Array] = (letters, offsets)
        for path, data in zip(word_paths(spec), parts, strict=True):
            array = ArraySpec(path, data.dtype, (), data.size)
            found[path] = array, open_sink(array)
            for block in byte_blocks(data):
                found[path][1].write(block)
    return found


def with_words(
    spec: TensorSpec, rows: Mapping[str, Rows], entries: Mapping[str, DatasetEntry], label: str
) -> TensorSpec:
    """Return the tensor with the words of its categories, as the file has them.

    Raises:
        InvalidLoDError, DamagedFileError: they are none; names the dataset.
    """
    assert spec.marks.categories is not None
    words, starts = word_paths(spec)
    offsets = rows[starts].read(0, entries[starts].shape[0], check=False)
    with naming(label, starts):
        check_offsets(offsets, level=0)
    rows[starts].check(offsets, 0)
    letters = rows[words].read(0, entries[words].shape[0]).tobytes()
    with naming(label, words):
        check_rows([offsets], len(letters))
        bounds = offsets.tolist()
        try:
            found = tuple(letters[low:high].decode() for low, high in pairwise(bounds))
            unit = Categories(found, spec.marks.categories.ordered)
        except UnicodeDecodeError:
            raise DamagedFileError("a word is not UTF-8") from None
        except InvalidDataError as error:
            raise DamagedFileError(str(error)) from None
    return replace(spec, marks=replace(spec.marks, unit=unit))
