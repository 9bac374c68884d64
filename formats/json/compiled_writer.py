"""Writes JSON lines with the compiled writer, for large output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import numpy as np

from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.text.records_native import is_repaid
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.platform.pools import thread_pool
from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Number of values and lists in a piece.
PIECE_SIZE = 1 << 17
# More threads would wait for the one that passes on the text.
MOST_THREADS = 4


class FastLines:
    """The lists of a file that the compiled writer writes.

    Args:
        schema: of the tensors; if counts are unknown, values are counted as they arrive.
    """

    def __init__(self, schema: Schema) -> None:
        counts = (spec.rows * int(np.prod(spec.row_shape)) for spec in schema if spec.rows)
        self._values = sum(counts)
        self._seen = 0
        self._spare: list[Array] = []

    def repays(self, tensors: Iterable[LoDTensor]) -> bool:
        """Return whether compiled code is worth loading for the file so far, with these tensors."""
        self._seen += sum(tensor.values.size for tensor in tensors)
        return is_repaid(max(self._values, self._seen))

    @staticmethod
    def holds(spec: TensorSpec) -> bool:
        """Return whether compiled code writes the lists of a tensor: it writes no nulls or times.

        Nor float16 and bfloat16, which have few different values, of which texts are made once.
        """
        plain = not (spec.nullable or spec.marks.unit)
        return plain and (spec.dtype.kind in "biu" or spec.dtype in (np.float32, np.float64))

    @staticmethod
    def is_available(spec: TensorSpec) -> bool:
        """Return whether compiled code for values that it `holds` can be compiled here."""
        from lodcli.formats.json.put_native import is_available

        return is_available(spec.dtype, text=spec.marks.is_text)

    def pieces(self, tensor: LoDTensor) -> Iterator[memoryview]:
        """Yield pieces of text with the outermost items of a tensor, one per line.

        A piece is valid until the next one is requested.

        Args:
            tensor: its numbers are finite.
        """
        from lodcli.formats.json.put_native import LineWriter

        levels, text = list_offsets(tensor), tensor.marks.is_text
        writer = LineWriter(tensor.data.reshape(-1), levels, self._spare, text=text)
        threads = min(thread_count(), MOST_THREADS)
        with thread_pool(threads, "lod-json") as pool:
            waiting: deque[Future[memoryview]] = deque()
            try:
                for first, last in _cuts(levels, len(tensor)):
                    waiting.append(pool.submit(writer.lines, first, last))
                    if len(waiting) > threads:
                        yield (piece := waiting.popleft().result())
                        writer.take_back(piece)
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)


def list_offsets(tensor: LoDTensor) -> list[Offsets]:
    """Return the offsets of all lists: of the levels, then of the axes of a row."""
    shape = tensor.values.shape
    levels = list(tensor.lod.levels)
    for axis in range(1, len(shape)):
        lists = int(np.prod(shape[:axis], dtype=np.int64))
        levels.append(np.arange(lists + 1, dtype=np.int64) * shape[axis])
    return levels


def _cuts(levels: list[Offsets], items: int) -> Iterator[tuple[int, int]]:
    """Yield the range of items of each piece: the first, and one past the last."""
    place: Array = np.arange(items + 1)
    before = place
    for offsets in levels:
        place = offsets[place]
        before = before + place
    ends = np.searchsorted(before, np.arange(0, int(before[-1]), PIECE_SIZE), "left")
    ends = np.unique([0, *ends.tolist(), items])
    yield from zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
