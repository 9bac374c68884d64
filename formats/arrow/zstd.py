"""zstd decompression of a whole buffer: into memory, or if large into an anonymous file."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError

COPY_BYTES = 4 << 20
# The default maximum size of an MDS shard.
MOST_IN_MEMORY_BYTES = 1 << 26


@contextmanager
def decompressed(file: BinaryIO, size_bytes: int, bounds: Bounds) -> Iterator[BinaryIO]:
    """Yield the content of a compressed file, which must have this size.

    Raises:
        DamagedFileError: it has another size, or is not zstd.
        TooLargeError: the size exceeds the bounds.
    """
    import pyarrow as pa

    bounds.check_block(size_bytes, "decompresses to")
    with _spool(size_bytes) as spool:
        done = 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                while block := stream.read(min(COPY_BYTES, size_bytes + 1 - done)):
                    done += len(block)
                    spool.write(block)
        except (OSError, ValueError) as error:
            words = str(error).splitlines()[0][:100]
            raise DamagedFileError(f"cannot be decompressed ({words})") from None
        if done != size_bytes:
            more = "more" if done > size_bytes else f"{done}"
            raise DamagedFileError(f"expected {size_bytes} bytes decompressed, found {more}")
        yield spool


def _spool(size_bytes: int) -> BinaryIO:
    if size_bytes > MOST_IN_MEMORY_BYTES:
        # A sandboxed process must not write files.
        with contextlib.suppress(OSError):
            return cast(BinaryIO, tempfile.TemporaryFile(prefix="lod-"))
    return io.BytesIO()
