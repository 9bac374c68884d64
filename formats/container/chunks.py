"""Encodes chunks, and decodes them, with output limited to the declared size."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.core.errors import DamagedFileError

DEFLATE, SHUFFLE, LZ4, ZSTD = 1, 2, 32004, 32015
FILTERS = {DEFLATE: "deflate", SHUFFLE: "shuffle", LZ4: "lz4", ZSTD: "zstd"}
CODECS = {"deflate": DEFLATE, "lz4": LZ4, "zstd": ZSTD}
# More than a chunk of deflate (1,032) or lz4 (255) can expand. Zstd stores a block of one value,
# at most 128 KiB, in 4 bytes.
MAX_EXPANSION, _MAX_EXPANSION_OF_ZSTD = 1100, 1 << 15
_MANDATORY, _OPTIONAL = 0, 1  # flags of filters: whether a chunk may lack one
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_DEFLATE_LEVEL, _ZSTD_LEVEL = 4, 3
# Of the blocks of a chunk, as in HDF5's filter; LZ4 compresses less than 2 GiB at once.
LZ4_BLOCK_BYTES = 1 << 30


def most_stored_bytes(size: int) -> int:
    """Return the maximum stored size of a chunk: no codec expands by more."""
    return size + size // 64 + 4096


def most_expansion(filters: tuple[int, ...]) -> int:
    """Return how many times larger than its stored bytes a dataset with these filters may be."""
    return _MAX_EXPANSION_OF_ZSTD if ZSTD in filters else MAX_EXPANSION


def filter_message(codec: str, item_bytes: int) -> bytes:
    """Return the content of the filter message of a dataset: shuffle, then the codec."""
    filters = [_filter(SHUFFLE, "shuffle", item_bytes)]
    if codec == "deflate":
        filters.append(_filter(DEFLATE, codec, _DEFLATE_LEVEL))
    else:
        # Some versions of h5repack crash if it has no name.
        filters.append(struct.pack("<4H8s", CODECS[codec], 8, _MANDATORY, 0, codec.encode()))
    return struct.pack("<BB6x", 1, len(filters)) + b"".join(filters)


def _filter(code: int, name: str, value: int) -> bytes:
    """Return a filter of HDF5 with a name of 7 letters and a value."""
    return struct.pack("<4H8sI4x", code, 8, _OPTIONAL, 1, name.encode(), value)


def encode(data: Bytes, codec: str, item_bytes: int) -> tuple[bytes, int]:
    """Return the stored bytes of a chunk, and the bit mask of the filters that it lacks.

    Args:
        data: a whole chunk.
        codec: applied after shuffle; deflate not if that makes the chunk larger.
        item_bytes: bytes of one number, for shuffle.
    """
    shuffled = data.reshape(-1, item_bytes).T.tobytes()
    found = _ENCODERS[codec](shuffled)
    if codec == "deflate" and len(found) >= len(shuffled):
        return shuffled, 0b10
    return found, 0


def _deflated(data: bytes) -> bytes:
    return zlib.compress(data, _DEFLATE_LEVEL)


def _to_zstd(data: bytes) -> bytes:
    from lodcli.formats.arrow.sizes.codecs import compress

    return compress("zstd", data, _ZSTD_LEVEL)


def _to_lz4(data: bytes) -> bytes:
    """Return blocks of LZ4, as HDF5's filter 32004 stores them; see `_of_lz4`."""
    from lodcli.formats.arrow.sizes.codecs import compress

    block_bytes = min(len(data), LZ4_BLOCK_BYTES)
    parts = [struct.pack(">QI", len(data), block_bytes)]
    for start in range(0, len(data), max(1, block_bytes)):
        block = data[start : start + block_bytes]
        packed = compress("lz4_raw", block)
        stored = packed if len(packed) < len(block) else block
        parts += [struct.pack(">I", len(stored)), stored]
    return b"".join(parts)


_ENCODERS = {"deflate": _deflated, "lz4": _to_lz4, "zstd": _to_zstd}


def decode(raw: bytes, filters: tuple[int, ...], skipped: int, out: Bytes, item_bytes: int) -> None:
    """Fill `out` with the chunk stored as `raw`.

    Args:
        raw: its bytes in the file.
        filters: codes of the dataset's filters, in the order in which they were applied.
        skipped: bit mask of the filters that were not applied to this chunk.
        out: C-contiguous, the size of a whole chunk.
        item_bytes: bytes of one number, for shuffle.

    Raises:
        DamagedFileError: it does not decode to the size of a chunk.
    """
    data, shuffled = raw, False
    for number, code in reversed(list(enumerate(filters))):
        if skipped >> number & 1:
            continue
        if code == SHUFFLE:
            shuffled = item_bytes > 1
        else:
            data = _DECODERS[code](data, out.size)
    _require_size(len(data), out.size)
    source = np.frombuffer(data, np.uint8)
    if shuffled:
        out.reshape(-1, item_bytes)[:] = source.reshape(item_bytes, -1).T
    else:
        out[:] = source


def _inflated(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        result = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise DamagedFileError(f"a chunk cannot be decompressed ({error})") from None
    if not inflater.eof:
        raise DamagedFileError(f"a chunk is longer than its {size} bytes, or cut off")
    return result


def _of_zstd(data: bytes, size: int) -> bytes:
    from lodcli.formats.arrow.sizes.codecs import decompress

    _require_size(_announced_by_zstd(data[:32]), size)
    return decompress("zstd", data, size)


def _of_lz4(data: bytes, size: int) -> bytes:
    """Return the content of LZ4 blocks, as stored by HDF5's filter 32004.

    The data starts with the total size in 8 bytes and the size of a block in 4, both big-endian.
    Each block follows its stored size, and is not compressed if that does not make it smaller.
    """
    from lodcli.formats.arrow.sizes.codecs import decompress

    _require_size(int.from_bytes(data[:8], "big"), size)
    block_bytes, place = int.from_bytes(data[8:12], "big"), 12
    parts: list[bytes] = []
    for start in range(0, size, max(1, block_bytes)):
        whole = min(block_bytes, size - start)
        stored = int.from_bytes(data[place : place + 4], "big")
        part = data[place + 4 : place + 4 + stored]
        place += 4 + stored
        if not whole or not part or len(part) < stored or stored > most_stored_bytes(whole):
            raise DamagedFileError("a chunk cannot be decompressed (its blocks are damaged)")
        parts.append(part if stored == whole else decompress("lz4_raw", part, whole))
    return b"".join(parts)


_DECODERS = {DEFLATE: _inflated, LZ4: _of_lz4, ZSTD: _of_zstd}


def _announced_by_zstd(head: bytes) -> int:
    """Return the decoded size declared by a zstd frame; -1 if unknown."""
    if head[:4] != _ZSTD_MAGIC or len(head) < 5:
        return -1
    # RFC 8878, 3.1.1.1: a byte of flags, perhaps a window and a dictionary, then the size.
    flags = head[4]
    single = flags >> 5 & 1
    begin = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    width = (single, 2, 4, 8)[flags >> 6]
    if not width:
        return -1
    return int.from_bytes(head[begin : begin + width], "little") + (256 if width == 2 else 0)


def _require_size(found: int, expected: int) -> None:
    if found != expected:
        raise DamagedFileError(f"a chunk decodes to {found} bytes, expected {expected}")
