"""Distributes rows of items to buckets in one temporary file, and reads back bucket by bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.arrays.byte_blocks import flat_bytes
from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming_os
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.items import FoundItems
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.gather import gather_items

# Maximum size of a bucket, and of the items distributed at a time.
_LIMIT_BYTES = 64 << 20
# Memory per item for the arrays of positions.
ITEM_BYTES = 48


def limit_bytes() -> int:
    """Return the maximum size of the items of a bucket, including ITEM_BYTES each."""
    return batch_bytes(_LIMIT_BYTES)


def item_ranges(ends: Offsets | range, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of items that are distributed at a time.

    Args:
        ends: (I + 1,) the offsets of the items, in rows.
    """
    counts: Sequence[Offsets | range] = (ends, range(len(ends)))
    return cuts(counts, (row_bytes, ITEM_BYTES), limit_bytes())


class Buckets:
    """Buckets of rows; each holds its items in the order in which they were appended.

    Args:
        fd: of an empty file.
        rows: (K,) int64, the number of rows of each bucket.
    """

    def __init__(self, fd: int, spec: TensorSpec, rows: Offsets) -> None:
        self._fd = fd
        self._spec = spec
        self._rows = rows
        self._starts = lengths_to_offsets(rows * spec.row_bytes, level=0)
        self._next = self._starts[:-1].copy()

    def distribute(self, data: Array, ends: Offsets, bucket: Offsets) -> None:
        """Append items to their buckets.

        Args:
            data: the rows of consecutive items.
            ends: (I + 1,) the offsets of the items in `data`.
            bucket: (I,) the bucket of each.
        """
        order = np.argsort(bucket, kind="stable")
        bounds = lengths_to_offsets(np.diff(ends)[order], level=0)
        data = gather_items(data, FoundItems((), (), ends[:-1][order], bounds))
        numbers, first = np.unique(bucket[order], return_index=True)
        borders = [*bounds[first].tolist(), len(data)]
        for place, number in enumerate(numbers.tolist()):
            part = flat_bytes(data[borders[place] : borders[place + 1]])
            self._next[number] = files.write_all_at(self._fd, part.data, int(self._next[number]))

    def read(self, number: int) -> Array:
        """Return the rows of a bucket."""
        spec = self._spec
        shape = (int(self._rows[number]), *spec.row_shape)
        dtype = spec.dtype.newbyteorder("=")
        return read_array(self._fd, shape, dtype, int(self._starts[number]))


@contextmanager
def buckets(spec: TensorSpec, rows: Offsets) -> Iterator[Buckets]:
    """Yield empty buckets for these numbers of rows, in the folder TMPDIR."""
    with (
        naming_os(tempfile.gettempdir()),
        tempfile.TemporaryFile(prefix="lod-", buffering=0) as file,
    ):
        yield Buckets(file.fileno(), spec, rows)
