"""Scans JSON lines to rows and offsets, with all checks; unusual input stops the scan.

A scan that stops does not mean that the lines are invalid: the exact parser reads them, and raises
the error if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load

# As in the kernels: kinds of columns, int64s per number left to Python, most unknown fields.
WHOLE, REAL, TRUTH, TEXT = range(4)
HARD_INTS, MOST_UNKNOWN = 4, 64

# Zeros after a block, which end any token.
PADDING_BYTES = 8
# Maximum number of numbers in a block that Python rounds.
MOST_HARD = 1 << 16

_MODULE = "formats.json.scanner.scan_numba"
_scan_lines, _is_ascii = (load.kernel(_MODULE, name) for name in ("scan_lines", "is_ascii"))


def is_available() -> bool:
    """Return whether the scanner's kernels are available; compiles them if needed."""
    try:
        return all(each[""] for each in (_scan_lines, _is_ascii))
    except load.NativeUnavailableError:
        return False


@dataclass(frozen=True)
class Plan:
    """The expected content of lines.

    Attributes:
        kinds: for each column WHOLE, REAL, TRUTH or TEXT.
        depths: for each column the number of nested lists; text counts as one.
        keys: for each column its name in the line's object; None if lines are not objects.
        others: whether objects may have other fields, which are left out.
    """

    kinds: tuple[int, ...]
    depths: tuple[int, ...]
    keys: tuple[bytes, ...] | None
    others: bool


@dataclass(frozen=True)
class Scanned:
    """One column of the lines.

    Attributes:
        values: int64, float64, bool or uint8.
        offsets: of each level, outermost first.
        largest: largest absolute value of the integers among floats.
    """

    values: Array
    offsets: tuple[Offsets, ...]
    largest: int


class JsonScanner:
    """Scans blocks of lines, and reuses its memory.

    Args:
        plan: what the lines hold.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._columns = len(plan.kinds)
        self._kinds = np.array(plan.kinds, np.int64)
        self._depths = np.array(plan.depths, np.int64)
        keys = plan.keys or ()
        self._keys = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
        self._key_ends = np.cumsum([0, *map(len, keys)]).astype(np.int64)
        self._unknown = np.empty((MOST_UNKNOWN, 2), np.int64)
        self._held = 0

    def _reserve(self, size: int) -> None:
        """Reserve memory for everything that a block of this size may hold."""
        if size <= self._held:
            return
        self._held = size + size // 4  # sizes vary, because blocks end with a line
        most = self._held // 2 + 2  # at least a digit and a separator per value
        levels = max(self._plan.depths, default=0) + 1
        # Pages that are not written cost nothing.
        self._values = np.empty((self._columns, most), np.int64)
        self._offsets = np.empty((self._columns, levels, most), np.int64)
        self._hard = np.empty((MOST_HARD, HARD_INTS), np.int64)

    def scan(self, block: bytes) -> list[Scanned] | None:
        """Return the columns of whole lines, or None if something is unusual."""
        return self.scan_padded(np.frombuffer(block + bytes(PADDING_BYTES), np.uint8), len(block))

    def scan_padded(self, data: Array, size: int) -> list[Scanned] | None:
        """Return the columns of the first bytes of `data`, whole lines; see `scan`.

        Args:
            data: uint8, contiguous, with PADDING_BYTES zeros after `size` bytes.
            size: of the lines.
        """
        self._reserve(size)
        begin = load.address(data)
        if not _is_ascii[""].call(0, 1, begin, size):
            try:
                bytes(data[:size]).decode()
            except UnicodeDecodeError:
                return None
        _, levels, room = self._offsets.shape
        counts = np.zeros((self._columns, levels), np.int64)
        largest = np.zeros(self._columns, np.int64)
        seen = np.full(self._columns, -1, np.int64)
        hard = _scan_lines[""].call(
            *(0, 1, begin, size, self._columns, load.address(self._kinds)),
            *(load.address(self._depths), load.address(self._keys), load.address(self._key_ends)),
            *(self._plan.keys is not None, self._plan.others, load.address(self._values)),
            *(load.address(self._offsets), levels, room, load.address(counts)),
            *(load.address(largest), load.address(self._hard), MOST_HARD, load.address(seen)),
            load.address(self._unknown),
        )
        if hard < 0 or not self._settle(data, begin, hard):
            return None
        return [
            self._column(number, counts[number], largest[number]) for number in range(self._columns)
        ]

    def _settle(self, data: Array, begin: int, count: int) -> bool:
        """Insert the numbers that the kernel left to Python; False if one exceeds float64."""
        rows = self._values.view(np.float64)
        for column, row, start, stop in self._hard[:count].tolist():
            value = rows[column, row] = float(bytes(data[start - begin : stop - begin]))
            if value in (np.inf, -np.inf):
                return False
        return True

    def _column(self, number: int, counts: Offsets, largest: Any) -> Scanned:
        depth, kind = self._plan.depths[number], self._plan.kinds[number]
        rows = int(counts[depth])
        held = self._values[number]
        if kind == REAL:
            held = held.view(np.float64)
        elif kind != WHOLE:
            held = held.view(np.uint8)
        values = held[:rows].copy()
        offsets = tuple(
            self._offsets[number, level, : counts[level] + 1].copy() for level in range(depth)
        )
        return Scanned(values.view(np.bool_) if kind == TRUTH else values, offsets, int(largest))
