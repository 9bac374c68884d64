"""The HDF5 file of a container during writing, through a descriptor that lod opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import h5py
from h5py import h5d, h5p, h5s, h5t, h5z

from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.spool import Spool
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.owned import OwnedFile, require_memory
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.platform.pools import thread_pool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Of everything in the file, so that a map of it gives arrays aligned for any dtype.
ALIGNMENT = 64
# The structures of HDF5 1.8, which all versions read, and the only ones `parser` knows.
OLDEST = ("earliest", "v108")
# From here on HDF5 may align a dataset otherwise, when it is to be at a certain place.
PLACED_BYTES = 1 << 20
# For what HDF5 keeps of its own before the first such dataset.
GAP_BYTES = 64 << 10
# HDF5 looks through all gaps that alignment has left whenever it makes a dataset, and forgets them
# when the file is closed.
DATASETS_AT_ONCE = 256
# From here on it pays to have the checksums made in another thread.
SHARED_BYTES = 1 << 20


class WrittenFile:
    """Makes datasets, and writes their bytes past libhdf5.

    Args:
        output: where to; must be seekable.
        compression: a codec for datasets in chunks, or None.

    Attributes:
        spool: for what waits for its place.
    """

    def __init__(self, output: Output, compression: str | None) -> None:
        self.output = output
        self.spool = Spool(output)
        self._owned = OwnedFile(output.fd, output.wrote)
        self._compression = compression
        self._file: Any = None
        self._pool: ThreadPoolExecutor | None = None
        self._made = 0

    def open(self) -> None:
        """Begin the file."""
        self._open("w", 1, ALIGNMENT)

    def close(self) -> None:
        """Close the HDF5 file; errors it meets are kept by the descriptor's owner."""
        try:
            with shielded():
                if self._file is not None:
                    self._file.close()
        finally:
            # Should HDF5 still hold something: the number will soon be another file's.
            self._owned.release()
            self.spool.close()
            if self._pool is not None:
                self._pool.shutdown()

    def raise_error(self) -> None:
        """Raise the first error of HDF5's writes."""
        self._owned.raise_error()

    def _open(self, mode: str, threshold: int, interval: int) -> None:
        require_memory()
        with shielded():
            self._file = h5py.File(
                self._owned,
                mode,
                libver=OLDEST,
                alignment_threshold=threshold,
                alignment_interval=interval,
                rdcc_nbytes=0,
            )

    def create(
        self,
        path: str,
        kind: h5t.TypeID,
        shape: tuple[int, ...],
        chunk: int = 0,
        *,
        at: int | None = None,
    ) -> h5d.DatasetID:
        """Return a new dataset; contiguous, or in chunks of so many rows.

        Args:
            path, kind, shape: of the dataset.
            chunk: how many rows; 0 for contiguous.
            at: where to put it: what `reserve` gave.
        """
        if at is not None:
            # HDF5 takes the first multiple of an alignment that is free.
            self._reopen(PLACED_BYTES, at)
            dataset = self.create(path, kind, shape)
            offset = dataset.get_offset()
            del dataset
            self._reopen(1, ALIGNMENT)
            self._owned.kept_bytes = 0
            assert offset == at
            return h5d.open(self._file.id, path.encode())
        self._made += 1
        # Datasets in chunks stay open until they are complete.
        if not (self._made % DATASETS_AT_ONCE or self._compression or self._owned.kept_bytes):
            self._reopen(1, ALIGNMENT)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_obj_track_times(False)
        if chunk:
            # Zeros beyond the last row: what lay in memory must not get into a file.
            plist.set_fill_time(h5d.FILL_TIME_ALLOC)
            plist.set_chunk((chunk, *(max(1, extent) for extent in shape[1:])))
            _set_filters(plist, self._compression)
            limits = (h5s.UNLIMITED, *shape[1:])
            space = h5s.create_simple(shape, limits)
        else:
            plist.set_fill_time(h5d.FILL_TIME_NEVER)
            plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        links = h5p.create(h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        return h5d.create(self._file.id, path.encode(), kind, space, plist, lcpl=links)

    def reserve(self) -> int | None:
        """Return where a dataset of unknown size can be written; None the second time.

        It must be the next one that is created, with at least PLACED_BYTES, and goes first.
        """
        if self._owned.kept_bytes:
            return None
        end = int(self._file.id.get_filesize())
        place = -(-(end + GAP_BYTES) // GAP_BYTES) * GAP_BYTES
        self._owned.kept_bytes = place
        return place

    def _reopen(self, threshold: int, interval: int) -> None:
        with shielded():
            self._file.close()
        self._owned.raise_error()
        self._open("r+", threshold, interval)

    def pwrite(self, view: memoryview, offset: int) -> None:
        """Write bytes to the file; errors are raised at once."""
        self._owned.pwrite(view, offset)
        self._owned.raise_error()

    def copy_from(self, fd: int, start: int, size: int, offset: int) -> None:
        """Write the first bytes of another file; errors are raised at once."""
        self._owned.copy_from(fd, start, size, offset)
        self._owned.raise_error()

    @contextmanager
    def meanwhile(self, work: Callable[[Bytes], None], part: Bytes) -> Iterator[None]:
        """Do some work on bytes while the block writes them."""
        if part.size < SHARED_BYTES:
            work(part)
            yield
            return
        if self._pool is None:
            self._pool = thread_pool(1, "lod-checksums")
        done = self._pool.submit(work, part)
        try:
            yield
        finally:
            done.result()


def _set_filters(plist: Any, compression: str | None) -> None:
    plist.set_shuffle()
    if compression == "deflate":
        plist.set_deflate(4)
        return
    assert compression is not None
    plist.set_filter(CODECS[compression], h5z.FLAG_MANDATORY, ())
