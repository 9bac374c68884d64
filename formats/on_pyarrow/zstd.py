"""zstd, decompressed into a nameless file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from lodcli.formats.errors import DamagedFileError

COPY_BYTES = 4 << 20


@contextmanager
def decompressed(file: BinaryIO, size_bytes: int) -> Iterator[BinaryIO]:
    """Give the content of a compressed file, which must have this size.

    Raises:
        DamagedFileError: it has not, or is no zstd.
    """
    import pyarrow as pa

    with tempfile.TemporaryFile(prefix="lod-") as spool:
        done = 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                while done <= size_bytes and (block := stream.read(COPY_BYTES)):
                    done += len(block)
                    spool.write(block)
        except (OSError, ValueError) as error:
            words = str(error).splitlines()[0][:100]
            raise DamagedFileError(f"cannot be decompressed ({words})") from None
        if done != size_bytes:
            more = "more" if done > size_bytes else f"{done}"
            raise DamagedFileError(f"expected {size_bytes} bytes decompressed, found {more}")
        spool.flush()
        yield cast(BinaryIO, spool)
