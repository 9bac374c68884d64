"""Split sequences into batches of a limited size: padded or packed."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets


def padded_batches(lengths: Array, limit: int) -> Offsets:
    """Return where each batch begins, (B + 1,): as many consecutive sequences as fit when padded.

    Args:
        lengths: (S,) of sequences in the order of the batches, none over the limit.
        limit: maximum of the longest length of a batch times the number of its sequences.

    >>> padded_batches(np.array([3, 1, 4, 4, 1]), 8).tolist()
    [0, 2, 4, 5]
    """
    found, start, window = [0], 0, 16
    while start < lengths.size:
        # The size only grows with more sequences, so the first that is too large ends the batch.
        part = lengths[start : start + window]
        size = np.maximum.accumulate(part) * np.arange(1, part.size + 1)
        count = int(np.searchsorted(size, limit, "right"))
        if count == window:
            window *= 2
            continue
        start += count
        found.append(start)
        window = 2 * max(count, 8)
    return np.array(found, np.int64)


def packed_batches(lengths: Array, limit: int) -> tuple[Offsets, Offsets]:
    """Return sequences packed by best fit: longest first, each into the fullest batch with room.

    All sequences of one length are placed at once, in all batches with the same room. So the time
    depends on the number of different lengths; only sorting depends on the number of sequences.

    Args:
        lengths: (S,) int64, none over the limit.
        limit: maximum of the sum of the lengths in a batch.

    Returns:
        The sequences in the order of their batches, (S,), and where each batch begins, (B + 1,).

    References:
        Johnson, "Near-optimal bin packing algorithms" (1973), best fit decreasing.

    >>> order, batches = packed_batches(np.array([2, 5, 3, 6]), 8)
    >>> order.tolist(), batches.tolist()
    ([3, 0, 1, 2], [0, 2, 4])
    """
    # The unique lengths and their counts: all lengths in order would take memory.
    different, counts = (each[::-1] for each in np.unique(lengths, return_counts=True))
    small = np.uint16 if limit < 1 << 16 else np.int64  # NumPy sorts small integers in linear time
    order = np.argsort((limit - lengths).astype(small), kind="stable")
    placing = _Placing(lengths.size, limit)
    borders = lengths_to_offsets(counts, level=0).tolist()
    for length, first, last in zip(different.tolist(), borders, borders[1:], strict=False):
        placing.place(length, first, last)
    by_batch = np.argsort(placing.batch_of, kind="stable")
    counts = np.bincount(placing.batch_of, minlength=placing.count)
    return order[by_batch], lengths_to_offsets(counts, level=0)


class _Placing:
    """Batches being filled.

    Attributes:
        batch_of: (S,), the batch of each sequence, in descending order of their lengths.
        count: the number of batches.
    """

    def __init__(self, sequences: int, limit: int) -> None:
        self.batch_of = np.zeros(sequences, np.int64)
        self.count = 0
        self._limit = limit
        self._rooms: list[int] = []  # ascending
        self._batches: dict[int, list[Array]] = {}

    def place(self, length: int, first: int, last: int) -> None:
        """Place the sequences first..last, all of one length."""
        if not length:
            self.count = max(self.count, 1)
            return
        while first < last:
            room, batches = self._next(length, last - first)
            each = room // length
            full = min(batches.size, (last - first) // each)
            self.batch_of[first : first + full * each] = np.repeat(batches[:full], each)
            first += full * each
            self._add(room - each * length, batches[:full])
            batches = batches[full:]
            if first < last and batches.size:
                self.batch_of[first:last] = batches[0]
                self._add(room - (last - first) * length, batches[:1])
                first, batches = last, batches[1:]
            self._add(room, batches)

    def _next(self, length: int, left: int) -> tuple[int, Array]:
        """Return the least sufficient room and the batches with it; new ones if there are none."""
        place = bisect_left(self._rooms, length)
        if place < len(self._rooms):
            room = self._rooms.pop(place)
            return room, np.concatenate(self._batches.pop(room))
        more = -(-left // (self._limit // length))
        self.count += more
        return self._limit, np.arange(self.count - more, self.count)

    def _add(self, room: int, batches: Array) -> None:
        if room and batches.size:
            if room not in self._batches:
                insort(self._rooms, room)
            self._batches.setdefault(room, []).append(batches)
