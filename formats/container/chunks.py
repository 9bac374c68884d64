"""Chunks, decoded here as far as possible: HDF5 lets one of 1 MiB grow to gigabytes."""

from __future__ import annotations

import zlib

import numpy as np
from h5py import h5d, h5p

from lodcli.formats.errors import DamagedFileError
from lodcli.kernels.checks import Array

DEFLATE, SHUFFLE, LZ4, ZSTD = 1, 2, 32004, 32015
FILTERS = {DEFLATE: "deflate", SHUFFLE: "shuffle", LZ4: "lz4", ZSTD: "zstd"}
CODECS = {"deflate": DEFLATE, "lz4": LZ4, "zstd": ZSTD}
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def filters_of(plist: h5p.PropDCID) -> list[int]:
    """Return the codes of a dataset's filters, in the order in which they were applied."""
    return [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]


def usual(filters: list[int]) -> bool:
    """Return whether these are nothing, shuffle, one codec, or shuffle and then a codec."""
    codec = filters[1:] if filters[:1] == [SHUFFLE] else filters
    return not codec or (len(codec) == 1 and codec[0] in CODECS.values())


def read_chunk(dataset: h5d.DatasetID, start: int, chunk: Array) -> bool:
    """Fill `chunk` with the chunk that begins at row `start`.

    Args:
        dataset: whose filters are as `usual` says.
        start: a multiple of the rows of a chunk.
        chunk: (rows of a chunk, D1, ..), C-contiguous.

    Returns:
        False if only HDF5 has the codec, and may decode it: it grows to no more than `chunk`.

    Raises:
        DamagedFileError: the chunk does not decode to its size.
    """
    # No codec expands by more than this; what claims to is refused before it is read.
    room = bytearray(chunk.nbytes + chunk.nbytes // 64 + 4096)
    skipped, raw = dataset.read_direct_chunk((start, *(0,) * (chunk.ndim - 1)), out=room)
    data: bytes | memoryview = raw
    for number, code in reversed(list(enumerate(filters_of(dataset.get_create_plist())))):
        if skipped >> number & 1:
            continue
        if code == DEFLATE:
            data = _inflated(data, chunk.nbytes)
        elif code == SHUFFLE:
            data = _unshuffled(data, chunk.dtype.itemsize)
        else:
            _require_size(_announced(code, bytes(data[:32])), chunk.nbytes)
            return False
    _require_size(len(data), chunk.nbytes)
    chunk.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return True


def _inflated(data: bytes | memoryview, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        result = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise DamagedFileError(f"a chunk cannot be decompressed ({error})") from None
    if not inflater.eof:
        raise DamagedFileError(f"a chunk is longer than its {size} bytes, or cut off")
    return result


def _unshuffled(data: bytes | memoryview, item_bytes: int) -> bytes | memoryview:
    if item_bytes == 1 or len(data) % item_bytes:
        return data
    return np.frombuffer(data, np.uint8).reshape(item_bytes, -1).T.tobytes()


def _announced(code: int, head: bytes) -> int:
    """Return how many bytes an lz4 or zstd chunk says it decodes to; -1 if it does not say."""
    if code == LZ4:
        return int.from_bytes(head[:8], "big")
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
