"""LZ4 and Zstandard, one block at a time."""

from __future__ import annotations

import pyarrow as pa

from lodcli.formats.core.errors import DamagedFileError


def decompress(codec: str, data: bytes, size: int) -> bytes:
    """Return the decompressed block.

    Args:
        codec: "lz4_raw" or "zstd".
        data: the block.
        size: bytes of the decompressed block; no more memory is used.

    Raises:
        DamagedFileError: it cannot be decompressed to this size.
    """
    try:
        found: bytes = pa.decompress(data, decompressed_size=size, codec=codec, asbytes=True)
    except (OSError, ValueError) as error:
        words = str(error).splitlines()[0][:100]
        raise DamagedFileError(f"a chunk cannot be decompressed ({words})") from None
    return found


def compress(codec: str, data: bytes, level: int | None = None) -> bytes:
    """Return a block compressed by "lz4_raw" or "zstd"."""
    found: bytes = pa.Codec(codec, level).compress(data, asbytes=True)
    return found
