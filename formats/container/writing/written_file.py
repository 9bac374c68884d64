"""The HDF5 file of a container during writing, through a descriptor that lod opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
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
    from concurrent.futures import Executor

# Alignment of everything in the file, so that memory-mapped arrays are aligned for any dtype.
ALIGNMENT = 64
# The structures of HDF5 1.8, which all versions read, and the only ones `parser` knows.
OLDEST = ("earliest", "v108")
# Alignment threshold while HDF5 creates a dataset at a reserved position: only it is that large.
PLACED_BYTES = 1 << 20
# Space for HDF5's metadata before a reserved position.
GAP_BYTES = 64 << 10
# The file is reopened after this many datasets: HDF5 searches all gaps left by alignment whenever
# it creates a dataset, and forgets them when the file is closed.
DATASETS_AT_ONCE = 64


class WrittenFile:
    """Creates datasets with libhdf5, and writes the bytes of contiguous ones directly.

    Args:
        output: the target; must be seekable.
        compression: a codec for datasets in chunks, or None.

    Attributes:
        spool: buffer for datasets without a position.
    """

    def __init__(self, output: Output, compression: str | None) -> None:
        self.output = output
        self.spool = Spool(output)
        self._owned = OwnedFile(output.fd, output.wrote)
        self._compression = compression
        self._file: Any = None
        self._pool: Executor | None = None
        self._made = self._open_datasets = 0

    def open(self) -> None:
        """Create the file."""
        self._open("w", 1, ALIGNMENT)

    def close(self) -> None:
        """Close the HDF5 file; an error of a write is stored, see `raise_error`."""
        try:
            with shielded():
                if self._file is not None:
                    self._file.close()
        finally:
            # HDF5 may still use the descriptor, whose number will be reused for another file.
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
        """Return a new dataset, contiguous or in chunks; the caller closes one in chunks.

        Args:
            path, kind, shape: of the dataset.
            chunk: rows per chunk; 0 for contiguous.
            at: its position, returned by `reserve`.
        """
        if at is not None:
            # HDF5 allocates at the first free multiple of the alignment.
            self._reopen(PLACED_BYTES, at)
            dataset = self.create(path, kind, shape)
            offset = dataset.get_offset()
            del dataset
            self._reopen(1, ALIGNMENT)
            self._owned.kept_bytes = 0
            assert offset == at
            return h5d.open(self._file.id, path.encode())
        self._made += 1
        if not (self._made % DATASETS_AT_ONCE or self._open_datasets or self._owned.kept_bytes):
            self._reopen(1, ALIGNMENT)
        if chunk:
            self._open_datasets += 1
            plist = h5p.create(h5p.DATASET_CREATE)
            plist.set_obj_track_times(False)
            # Zeros beyond the last row: uninitialized memory must not get into a file.
            plist.set_fill_time(h5d.FILL_TIME_ALLOC)
            plist.set_chunk((chunk, *(max(1, extent) for extent in shape[1:])))
            _set_filters(plist, self._compression)
            limits = (h5s.UNLIMITED, *shape[1:])
            space = h5s.create_simple(shape, limits)
        else:
            plist = _contiguous()
            space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        return h5d.create(self._file.id, path.encode(), kind, space, plist, lcpl=_with_groups())

    def close_dataset(self, dataset: h5d.DatasetID) -> None:
        """Close a dataset in chunks, which is complete."""
        dataset.close()
        self._open_datasets -= 1

    def reserve(self) -> int | None:
        """Return the position of a dataset of unknown size; None while another one is reserved.

        That dataset must have at least PLACED_BYTES, and must be the next one created.
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
        """Write bytes of another file at `offset`; errors are raised at once."""
        self._owned.copy_from(fd, start, size, offset)
        self._owned.raise_error()

    @contextmanager
    def meanwhile(self, work: Callable[[Bytes], None], part: Bytes) -> Iterator[None]:
        """Call `work` with bytes in a thread while the body of the `with` statement writes them."""
        if self._pool is None:
            self._pool = thread_pool(1, "lod-checksums")
        done = self._pool.submit(work, part)
        try:
            yield
        finally:
            done.result()


@cache
def _contiguous() -> h5p.PropDCID:
    """Return the properties of contiguous datasets, with their space allocated at once."""
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    plist.set_fill_time(h5d.FILL_TIME_NEVER)
    plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    return plist


@cache
def _with_groups() -> h5p.PropLCID:
    """Return the properties of links that also create the groups of their path."""
    links = h5p.create(h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    return links


def _set_filters(plist: Any, compression: str | None) -> None:
    plist.set_shuffle()
    if compression == "deflate":
        plist.set_deflate(4)
        return
    assert compression is not None
    plist.set_filter(CODECS[compression], h5z.FLAG_MANDATORY, ())
