"""The file of a container during writing: rows first, then the structures of HDF5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.spool import Spool
from lodcli.formats.container.header import PATH, as_tree
from lodcli.formats.container.types import string_message
from lodcli.formats.container.writing.structures import (
    SUPERBLOCK_BYTES,
    PlacedDataset,
    StructureWriter,
)
from lodcli.formats.storage.outputs import COPY_BYTES, Output
from lodcli.kernels.platform import files
from lodcli.kernels.platform.pools import thread_pool

if TYPE_CHECKING:
    from concurrent.futures import Executor

# Of all rows, so that memory-mapped arrays are aligned for any dtype.
ALIGNMENT = 64


class WrittenFile:
    """Gives datasets their positions, and writes the structures that describe them.

    Args:
        output: the target; must be seekable.

    Attributes:
        spool: buffer for datasets without a position.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.spool = Spool(output)
        self._end = SUPERBLOCK_BYTES
        self._grows = False
        self._pool: Executor | None = None

    def close(self) -> None:
        """Remove temporary files."""
        self.spool.close()
        if self._pool is not None:
            self._pool.shutdown()

    def place(self, size: int) -> int:
        """Return a position for this many bytes."""
        assert not self._grows
        start = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = start + size
        return start

    def reserve(self) -> int | None:
        """Return the position of a dataset of unknown size; None while another one is reserved.

        It must be complete, see `grown`, before others are placed.
        """
        if self._grows:
            return None
        start = self.place(0)
        self._grows = True
        return start

    def grown(self, stop: int) -> None:
        """Note where the reserved dataset ends."""
        self._end, self._grows = stop, False

    def copy_from(self, fd: int, start: int, size: int, offset: int) -> None:
        """Write some bytes of another file at `offset`.

        If the file system supports it, it copies the bytes, or shares the blocks (reflink).
        """
        stop = start + size
        with self.output.naming():
            while start < stop:
                sent = files.copy_range(fd, self.output.fd, stop - start, start, offset)
                if not sent:
                    break
                self.output.wrote(sent)
                start, offset = start + sent, offset + sent
        while part := files.pread(fd, min(COPY_BYTES, stop - start), start):
            self.output.write_at(part, offset)
            start, offset = start + len(part), offset + len(part)

    def finish(self, datasets: Mapping[str, PlacedDataset], header: bytes) -> None:
        """Write the header and all structures: the file is complete."""
        place = self.place(len(header))
        self.output.write_at(header, place)
        root = as_tree(datasets)
        root[PATH[1:]] = PlacedDataset(string_message(len(header)), (), place, len(header))
        StructureWriter(self.output.write_at, self.place(0)).finish(root)

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
