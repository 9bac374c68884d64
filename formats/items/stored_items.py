"""Reads items of one tensor in any order, in place from a file, and checks each.

One pass over the file verifies its blocks and stores the running checksum at the end of every item.
With the running checksums at both ends, an item is verified later without the rest of its blocks.
"""

from __future__ import annotations

import numpy as np

from lodcli.formats.arrays import crc32c
from lodcli.formats.container.rows import PIECE_BYTES, on_threads
from lodcli.formats.core.errors import changed_while_read
from lodcli.formats.core.format import StoredRows
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.index.checks import Array, Offsets


class StoredItems:
    """The items of one tensor; the constructor verifies all blocks.

    Args:
        stored: position of the rows.
        ends: (K + 1,) int64, the offsets of the items in bytes.

    Raises:
        DamagedFileError: a checksum does not match.
    """

    def __init__(self, stored: StoredRows, ends: Offsets) -> None:
        self._stored = stored
        self._ends = ends
        blocks = -(-int(ends[-1]) // stored.block_bytes)
        self._blocks = np.zeros(blocks, np.uint32)
        # Running checksum at the end of each item, from the start of its last block.
        self._sums = np.zeros(ends.size, np.uint32)
        step = max(1, PIECE_BYTES // stored.block_bytes)
        for _ in on_threads(
            lambda first: self._sum(first, min(first + step, blocks)), range(0, blocks, step)
        ):
            pass
        stored.check(self._blocks, 0)

    def _sum(self, first: int, last: int) -> None:
        """Compute the checksums of blocks first..last, and of the items that end in them."""
        size = self._stored.block_bytes
        begin, end = first * size, min(last * size, int(self._ends[-1]))
        data = np.empty(end - begin, np.uint8)
        read_into(self._stored.fd, data, self._stored.offset + begin)
        item, stop = np.searchsorted(self._ends, (begin, end), "right").tolist()
        ends = (self._ends[item:stop] - begin).tolist()
        place = 0
        sums: list[int] = []
        for block in range(first, last):
            border, state = min((block + 1) * size, end) - begin, 0
            while len(sums) < len(ends) and ends[len(sums)] <= border:
                state = crc32c.extend(state, data[place : ends[len(sums)]])
                place = ends[len(sums)]
                sums.append(state)
            self._blocks[block] = crc32c.extend(state, data[place:border])
            place = border
        self._sums[item:stop] = sums

    def read(self, wanted: Offsets, out: Array) -> None:
        """Fill `out`, uint8, with these items, one after another.

        Raises:
            DamagedFileError: the file was changed since it was checked.
        """
        fd, offset, size = self._stored.fd, self._stored.offset, self._stored.block_bytes
        starts, stops = self._ends[wanted], self._ends[wanted + 1]
        before = np.where(starts % size, self._sums[wanted], 0).tolist()
        after = self._sums[wanted + 1].tolist()
        filled = 0
        for start, stop, state, expected in zip(
            starts.tolist(), stops.tolist(), before, after, strict=True
        ):
            data = out[filled : filled + stop - start]
            filled += stop - start
            read_into(fd, data, offset + start)
            done = 0
            for block in range(start // size, (stop - 1) // size):
                border = (block + 1) * size - start
                if crc32c.extend(state, data[done:border]) != self._blocks[block]:
                    raise changed_while_read()
                done, state = border, 0
            if done < data.size and crc32c.extend(state, data[done:]) != expected:
                raise changed_while_read()
