"""Blocks of JSON lines by the compiled scanner, once there is enough to repay loading it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from lodcli.formats.json_columns import Column
from lodcli.formats.numerals import narrowed
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor
from lodcli.kernels.threads import thread_count

if TYPE_CHECKING:
    from lodcli.formats.on_numba.json_scan import JsonScanner, Scanned

# Whole lines, and the number of the first.
Block = tuple[bytes, int]
Tensors = dict[str, LoDTensor]

# Loading the compiled scanner takes more than half a second; in that time the exact parser reads
# this.
REPAID_BYTES = 16 << 20
BLOCK_BYTES = 4 << 20
# What the scanner may reserve (not touch) for a block.
MOST_RESERVED_BYTES = 4 << 30

# More would wait for whoever writes.
MOST_THREADS = 4

# Up to these, every whole number has its place.
_EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}


class FastColumns:
    """All columns of a file of lines, whose description is known. Blocks are read in threads.

    Args:
        columns: of the file.
        others: whether lines may have other fields.
    """

    def __init__(self, columns: tuple[Column, ...], *, others: bool) -> None:
        self._columns = columns
        self._others = others
        self._scanners = threading.local()
        depth = max(column.depth for column in columns)
        self._threads = _threads(len(columns) * (2 + depth) * BLOCK_BYTES * 4)

    @property
    def fits(self) -> bool:
        """Whether there are not too many columns."""
        return self._threads > 0

    def tensors(self, blocks: Iterator[Block]) -> Iterator[tuple[Block, Tensors | None]]:
        """Yield blocks of whole lines with their tensors; None if the exact parser must read it."""
        with ThreadPoolExecutor(self._threads, "lod-json") as pool:
            waiting: deque[tuple[Block, Future[Tensors | None]]] = deque()
            try:
                for block in blocks:
                    waiting.append((block, pool.submit(self._scanned, block[0])))
                    if len(waiting) > self._threads:
                        yield _first(waiting)
                while waiting:
                    yield _first(waiting)
            finally:
                pool.shutdown(cancel_futures=True)

    def _scanned(self, block: bytes) -> Tensors | None:
        if not hasattr(self._scanners, "own"):
            self._scanners.own = self._made()
        scanned = self._scanners.own.scan(block)
        if scanned is None:
            return None
        result = {}
        for column, found in zip(self._columns, scanned, strict=True):
            tensor = _tensor(column, found)
            if tensor is None:
                return None
            result[column.name] = tensor
        return result

    def _made(self) -> JsonScanner:
        from lodcli.formats.on_numba.json_scan import REAL, TEXT, TRUTH, WHOLE, JsonScanner, Plan

        kinds = {"b": TRUTH, "i": WHOLE, "u": WHOLE}
        fields = [column.field for column in self._columns]
        plan = Plan(
            tuple(TEXT if c.text else kinds.get(c.spec.dtype.kind, REAL) for c in self._columns),
            tuple(column.depth for column in self._columns),
            None if None in fields else tuple(str(field).encode() for field in fields),
            self._others,
        )
        return JsonScanner(plan)


def _threads(reserved_bytes: int) -> int:
    """Return how many threads to scan with, each of which reserves so much."""
    return min(thread_count(), MOST_THREADS, MOST_RESERVED_BYTES // reserved_bytes)


def _first(
    waiting: deque[tuple[Block, Future[Tensors | None]]],
) -> tuple[Block, Tensors | None]:
    block, future = waiting.popleft()
    return block, future.result()


def _tensor(column: Column, found: Scanned) -> LoDTensor | None:
    spec = column.spec
    levels, rows = len(spec.levels), _rows(found, spec.dtype)
    if rows is None:
        return None
    for extent, offsets in zip(spec.row_shape, found.offsets[levels:], strict=True):
        if (np.diff(offsets) != extent).any():
            return None
    if spec.row_shape:
        rows = rows.reshape(found.offsets[levels].size - 1, *spec.row_shape)
    for offsets in found.offsets:
        offsets.flags.writeable = False  # then the index need not copy them
    return LoDTensor(rows, LoD(found.offsets[:levels], spec.level_names))


def _rows(found: Scanned, dtype: np.dtype[Any]) -> Any:
    """Return the values as `dtype`, None if one has no exact place in it."""
    values = found.values
    if values.dtype == dtype:
        return values
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        return values.astype(dtype) if limits.min <= low and high <= limits.max else None
    return narrowed(values, dtype) if found.largest <= _EXACT[dtype.name] else None
