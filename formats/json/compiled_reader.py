"""Reads blocks of JSON lines with the compiled scanner, for large input."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cached_property
from typing import Any

import numpy as np

from lodcli.formats.json.columns import Column
from lodcli.formats.json.fields import Columns
from lodcli.formats.json.scanner.plan import MOST_DEPTH, paths_of, plan
from lodcli.formats.json.scanner.scan_native import (
    PADDING_BYTES,
    JsonScanner,
    Node,
    Scanned,
    is_available,
)
from lodcli.formats.text.lines import LineReader
from lodcli.formats.text.numerals import narrowed
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.native import load
from lodcli.kernels.platform.pools import thread_pool
from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

# Whole lines, and the number of the first line.
Block = tuple[bytes, int]
Tensors = dict[str, LoDTensor]

# Input that the exact parser reads while the scanner of the package is loaded, or while one is
# compiled in a checkout.
REPAID_SHIPPED, REPAID_BYTES = 1 << 16, 16 << 20
# A block of lines; less if there are many columns. In fewer bytes for each column, the exact parser
# would be faster.
BLOCK_BYTES, LEAST_COLUMN_BYTES = 1 << 20, 1 << 10
# Maximum memory that the scanners of all threads reserve (without touching it).
MOST_RESERVED_BYTES = 4 << 30

# More threads would only wait for the writer.
MOST_THREADS = 4

_BLANK_LINES = re.compile(rb"^[ \t\r]*(?:\n|\Z)", re.MULTILINE)
# Up to these, every integer is represented exactly.
_EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}


def repaid_bytes() -> int:
    """Return the size of input from which on the compiled scanner is worth loading."""
    return REPAID_SHIPPED if load.is_shipped() else REPAID_BYTES


class FastColumns:
    """All columns of a file with a known schema. Blocks are read in threads."""

    def __init__(self, columns: Columns, *, skips_blanks: bool = False) -> None:
        self._all = columns
        self._columns = [(column, tuple(paths_of(column))) for column in columns.found]
        self._root = plan(columns)
        self._skips_blanks = skips_blanks
        self._scanners = threading.local()
        self._threads, self._block_bytes = _threads(self._root)

    @property
    def fits(self) -> bool:
        """Whether the scanner is available, and supports this many columns and levels."""
        shallow = all(column.depth <= MOST_DEPTH for column, _ in self._columns)
        return shallow and self._threads > 0 and is_available()

    def fit(self, lines: list[bytes]) -> bool:
        """Return whether whole lines match the columns, and would not change them."""
        many = max(1, len(lines) * self._block_bytes // (1 + sum(map(len, lines))))
        for first in range(0, len(lines), many):
            block = b"".join(lines[first : first + many])
            room = Blocks.room(len(block))
            room[: len(block)] = block
            if self._scanned(self._narrow, room, len(block)) is None:
                return False
        return True

    @cached_property
    def _narrow(self) -> JsonScanner:
        return JsonScanner(plan(self._all, narrow=True))

    def tensors(self, reader: LineReader, block_bytes: int) -> Iterator[Tensors | Block]:
        """Yield the tensors of each block of lines, or the block if the exact parser must read it.

        When a block is yielded, the reader's `line` is the one before it.
        """
        blocks = Blocks(reader, min(block_bytes, self._block_bytes))
        with thread_pool(self._threads, "lod-json") as pool:
            waiting: deque[tuple[bytearray, int, Future[Tensors | None]]] = deque()
            try:
                while (block := blocks.next()) or waiting:
                    if block:
                        waiting.append((*block, pool.submit(self._read, *block)))
                        if len(waiting) <= self._threads:
                            continue
                    room, size, future = waiting.popleft()
                    found = future.result()
                    yield found if found is not None else (bytes(room[:size]), reader.line + 1)
                    reader.line += room.count(b"\n", 0, size)
                    blocks.give_back()
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, room: bytearray, size: int) -> Tensors | None:
        """Return the tensors of lines, or None if the exact parser is needed."""
        if not hasattr(self._scanners, "own"):
            self._scanners.own = JsonScanner(self._root)
        return self._scanned(self._scanners.own, room, size)

    def _scanned(self, scanner: JsonScanner, room: bytearray, size: int) -> Tensors | None:
        scanned = scanner.scan_padded(np.frombuffer(room, np.uint8), size)
        if scanned is None and self._skips_blanks:
            others = _BLANK_LINES.sub(b"", room[:size])
            scanned = scanner.scan(others) if len(others) < size else None
        if scanned is None:
            return None
        result = {}
        for column, paths in self._columns:
            tensor = _tensor(column, [scanned[path] for path in paths])
            if tensor is None:
                return None
            result[column.name] = tensor
        return result


def _threads(root: Node) -> tuple[int, int]:
    """Return the number of threads to scan with, and the size of their blocks."""
    threads, block_bytes = min(thread_count(), MOST_THREADS), BLOCK_BYTES
    while threads * root.reserved_bytes(block_bytes) > MOST_RESERVED_BYTES:
        if block_bytes < 2 * LEAST_COLUMN_BYTES * root.size:
            break
        block_bytes //= 2
    return min(threads, MOST_RESERVED_BYTES // root.reserved_bytes(block_bytes)), block_bytes


class Blocks:
    """Blocks of whole lines, in reused memory."""

    def __init__(self, reader: LineReader, size: int) -> None:
        self._reader = reader
        self._size = size
        self._spare: list[bytearray] = []
        # Blocks that were not given back, with the sizes of their lines.
        self._out: deque[tuple[bytearray, int]] = deque()
        self._begun = b""

    @staticmethod
    def room(size: int) -> bytearray:
        """Return memory for a block of this size, with the scanner's padding."""
        return bytearray(size + PADDING_BYTES)

    def next(self) -> tuple[bytearray, int] | None:
        """Return memory with lines, then zeros, and the size of the lines; None at the end."""
        room = self._spare.pop() if self._spare else self.room(self._size)
        held = len(self._begun)
        # Not all of a room that a long line enlarged: later blocks are of the usual size again.
        most = max(self._size, held)
        room[:held] = self._begun
        end = 0
        while not end:
            room += bytes(max(0, most + PADDING_BYTES - len(room)))
            with memoryview(room) as view:
                held += self._reader.fill(view[held:most])
            # The last line of the input may lack its line end.
            end = held if held < most else room.rfind(b"\n", 0, held) + 1
            if not held:
                return None
            if not end:
                lines_out = sum(other.count(b"\n", 0, size) for other, size in self._out)
                self._reader.check_line(held, self._reader.line + lines_out + 1)
                most *= 2
        self._begun = bytes(room[end:held])
        room[end : end + PADDING_BYTES] = bytes(PADDING_BYTES)
        self._out.append((room, end))
        return room, end

    def give_back(self) -> None:
        """Return the memory of the first block that is still out, for reuse."""
        self._spare.append(self._out.popleft()[0])


def _tensor(column: Column, nodes: list[Scanned]) -> LoDTensor | None:
    """Return a column of the nodes that hold it, outermost first; None if it does not fit."""
    spec, own = column.spec, nodes[-1]
    levels = len(spec.levels)
    offsets = [each for node in nodes for each in node.offsets]
    masks = [mask for node in nodes for mask in node.masks[:-1]]
    if spec.marks.tells_records:
        valid = own.masks[-1]
        rows = np.ones(own.count, np.bool_) if valid is None else valid
        masks.append(None)
    else:
        rows = _rows(own, spec.dtype)
        masks.append(own.masks[-1])
    if rows is None:
        return None
    for extent, found in zip(spec.row_shape, offsets[levels:], strict=True):
        if (np.diff(found) != extent).any():
            return None
    if spec.row_shape:
        rows = rows.reshape(offsets[levels].size - 1, *spec.row_shape)
    index = LoD(offsets[:levels], spec.level_names)
    return LoDTensor(rows, index, spec.marks, Nulls.of(masks[: levels + 1]))


def _rows(found: Scanned, dtype: np.dtype[Any]) -> Any:
    """Return the values as `dtype`, None if one cannot be represented exactly in it."""
    values = found.values
    if values.dtype == dtype:
        return values
    if dtype.kind == "b":  # of nulls only, which have zeros
        return values.astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        return values.astype(dtype) if limits.min <= low and high <= limits.max else None
    return narrowed(values, dtype) if found.largest <= _EXACT[dtype.name] else None
