"""The memory budget for reading: sizes of batches, and errors before rows are read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from lodcli.formats.core.errors import TooLargeError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.options import option
from lodcli.kernels.runtime.memory_budget import at_most, memory_budget

# Copies in memory: a batch read ahead, the current one, results, and data being written.
BATCH_SHARE = 8
# A large item, its result, and the next item.
ITEM_COPIES = 3
# A whole tensor, a result, and intermediate values.
WHOLE_COPIES = 3
# Of the data that a command keeps in memory instead of in temporary files.
KEPT_SHARE = 4
# Items whose sizes are computed at a time.
_ITEMS = 1 << 16


def batch_bytes(limit_bytes: int) -> int:
    """Return the maximum size of a batch: `limit_bytes`, or less with a small budget."""
    return at_most(limit_bytes, BATCH_SHARE)


def fits(size_bytes: int, copies: int) -> bool:
    """Return whether this many copies fit into the memory budget."""
    budget = memory_budget()
    return budget is None or size_bytes * copies <= budget


class Kept:
    """Counts data that is held in memory as long as it fits, else written to a temporary file.

    It fits if all that is kept at the same time takes at most one part in KEPT_SHARE of the budget.

    Args:
        least_bytes: the size that is always allowed, whatever else is held.
    """

    _lock = threading.Lock()
    _total_bytes = 0

    def __init__(self, least_bytes: int) -> None:
        self._least_bytes = least_bytes
        self._own_bytes = 0

    def fits(self, size_bytes: int) -> bool:
        """Count this many more bytes, and return whether the total fits."""
        with Kept._lock:
            self._own_bytes += size_bytes
            Kept._total_bytes += size_bytes
            others = Kept._total_bytes - self._own_bytes
        share = (memory_budget() or 0) // KEPT_SHARE
        return self._own_bytes <= max(self._least_bytes, share - others)

    def release(self) -> None:
        """Count nothing any more."""
        with Kept._lock:
            Kept._total_bytes -= self._own_bytes
            self._own_bytes = 0


@contextmanager
def keeping(least_bytes: int) -> Iterator[Kept]:
    """Yield a `Kept`; at the end it counts nothing."""
    kept = Kept(least_bytes)
    try:
        yield kept
    finally:
        kept.release()


def require_fits(what: str, size_bytes: int, copies: int, *, whole: bool = True) -> None:
    """Raise TooLargeError unless this many copies fit into the memory budget.

    Args:
        what: name for the message, such as "item 3".
        size_bytes: size of one copy.
        copies: number of copies in memory at the same time.
        whole: whether the size is final.
    """
    budget = memory_budget()
    if budget is not None and not fits(size_bytes, copies):
        enough = f"{option('memory', _megabytes(size_bytes * copies))} is enough"
        held = f", of which memory holds up to {copies} copies" if copies > 1 else ""
        raise TooLargeError(
            f"{what}: {'' if whole else 'at least '}{size_bytes} bytes{held}; the budget is "
            f"{_megabytes(budget)}, "
            + (enough if whole else f"set a larger one with {option('memory')}")
        )


def require_items_fit(
    item_offsets: Sequence[Offsets | Sequence[int]], row_bytes: Sequence[int], first: int = 0
) -> None:
    """Raise TooLargeError if an item does not fit into the budget.

    Args:
        item_offsets: for each tensor, the offsets of its outermost items, in rows.
        row_bytes: for each tensor, bytes of a row.
        first: the number of the first item.
    """
    budget = memory_budget()
    parts = list(zip(item_offsets, row_bytes, strict=True))
    if budget is None or sum(int(ends[-1] - ends[0]) * size for ends, size in parts) <= (
        budget // ITEM_COPIES
    ):
        return
    count = len(item_offsets[0]) - 1
    for start in range(0, count, _ITEMS):
        stop = min(start + _ITEMS, count)
        sizes = np.zeros(stop - start, np.int64)
        for ends, size in parts:
            bounds: Offsets = np.asarray(ends[start : stop + 1], np.int64)
            sizes += (bounds[1:] - bounds[:-1]) * size
        require_sizes_fit(sizes, range(first + start, first + stop))


def require_sizes_fit(sizes: Offsets, items: Sequence[int] | Offsets) -> None:
    """Raise TooLargeError if an item does not fit into the budget.

    Args:
        sizes: (K,) bytes of each item.
        items: (K,) their numbers.
    """
    if sizes.size:
        largest = int(np.argmax(sizes))
        require_fits(f"item {int(items[largest])}", int(sizes[largest]), ITEM_COPIES)


def _megabytes(size_bytes: int) -> str:
    """Return a size as --memory takes it, rounded up."""
    return f"{-(-size_bytes // (1 << 20))}M"
