"""Damage to HDF5 files with their checksums made right again.

What newer versions of HDF5 write (superblocks 2 and 3, object headers 2, indices of chunks,
B-trees 2, fractal heaps) begins with a signature and ends with Bob Jenkins' lookup3 of what is
before. Chunks may end with a Fletcher-32. Older structures have no checksum.
"""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from typing import Any

import h5py
import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator, flip_bits, set_integer, swap_words

SIGNATURES = (
    *(b"\x89HDF\r\n\x1a\n", b"OHDR", b"OCHK", b"BTHD", b"BTIN", b"BTLF", b"FRHP"),
    *(b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB", b"FSHD", b"FSSE", b"SMTB", b"SMLI"),
)
UNSUMMED = (b"TREE", b"SNOD", b"HEAP", b"GCOL", b"\x89HDF\r\n\x1a\n")
# Longer ones are not looked for.
MOST_BYTES = 4096
FLETCHER32 = 3


def lookup3(raw: bytes, lengths: Any) -> Any:
    """Return the lookup3 checksums of the first bytes, for each of many lengths at once."""
    count = np.asarray(lengths, np.int64)
    padded = raw + bytes(24)
    words = np.stack([np.frombuffer(padded[at : len(raw) + at + 12], np.uint8) for at in range(12)])
    words = words.astype(np.uint32)
    a = b = c = (np.uint32(0xDEADBEEF) + count).astype(np.uint32)
    last = np.maximum(count - 1, 0) // 12 * 12
    for start in range(0, int(last.max(initial=0)), 12):
        k = np.frombuffer(padded, "<u4", 3, start)
        mixed = _mix(a + k[0], b + k[1], c + k[2])
        goes_on = start < last
        a, b, c = (np.where(goes_on, x, y) for x, y in zip(mixed, (a, b, c), strict=True))
    tail = np.where(np.arange(12)[:, None] < count - last, words[:, last], 0).astype(np.uint32)
    k0, k1, k2 = (
        tail[n] | tail[n + 1] << 8 | tail[n + 2] << 16 | tail[n + 3] << 24 for n in (0, 4, 8)
    )
    return np.where(count > 0, _final(a + k0, b + k1, c + k2), c)


def _rotated(x: Any, bits: int) -> Any:
    return x << bits | x >> (32 - bits)


def _mix(a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
    for first, second, third in ((4, 6, 8), (16, 19, 4)):
        a = (a - c) ^ _rotated(c, first)
        c = c + b
        b = (b - a) ^ _rotated(a, second)
        a = a + c
        c = (c - b) ^ _rotated(b, third)
        b = b + a
    return a, b, c


def _final(a: Any, b: Any, c: Any) -> Any:
    for first, second, third in ((14, 11, 25), (16, 4, 14)):
        c = (c ^ b) - _rotated(b, first)
        a = (a ^ c) - _rotated(c, second)
        b = (b ^ a) - _rotated(a, third)
    return (c ^ b) - _rotated(b, 24)


@lru_cache(maxsize=8)
def sealed_blocks(raw: bytes) -> tuple[tuple[int, int], ...]:
    """Return where each structure with a checksum begins, and where its checksum does."""
    found = []
    for signature in SIGNATURES:
        start = raw.find(signature)
        while start >= 0:
            part = raw[start : start + MOST_BYTES]
            ends = np.arange(len(signature) + 1, len(part) - 3)
            said = np.frombuffer(part, np.uint8).astype(np.uint32)
            told = said[ends] | said[ends + 1] << 8 | said[ends + 2] << 16 | said[ends + 3] << 24
            right = ends[lookup3(part, ends) == told]
            if len(right):
                found.append((start, start + int(right[0])))
            start = raw.find(signature, start + 1)
    return tuple(sorted(found))


def _resealed(raw: bytes, start: int, end: int, body: bytes) -> bytes:
    """Return the file with another content, of the same size, of one structure."""
    body = (body + bytes(end - start))[: end - start]
    checksum = int(lookup3(body, [len(body)])[0])
    return raw[:start] + body + struct.pack("<I", checksum) + raw[end + 4 :]


def change_sealed_structures(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change a structure, or two, with their checksums."""
    blocks = sealed_blocks(raw)
    if not blocks:
        return change_unsealed_structures(raw, rng)
    for _ in range(int(rng.choice([1, 1, 1, 2]))):
        start, end = blocks[int(rng.integers(len(blocks)))]
        body = raw[start:end]
        mutators = (set_integer, set_integer, set_integer, flip_bits, swap_words, *ANY)
        kept = 4 if rng.random() < 0.98 else 0  # usually the type is unchanged
        changed = mutators[int(rng.integers(len(mutators)))](body[kept:], rng)
        raw = _resealed(raw, start, end, body[:kept] + changed)
    return raw


def exchange_sealed_structures(raw: bytes, rng: np.random.Generator) -> bytes:
    """Let one structure name the place of another, or put one in the place of another."""
    blocks = sealed_blocks(raw)
    if not blocks:
        return change_unsealed_structures(raw, rng)
    (start, end), (other, other_end) = (blocks[int(at)] for at in rng.integers(len(blocks), size=2))
    if rng.random() < 0.2:
        return _resealed(raw, start, end, raw[other:other_end])
    body = bytearray(raw[start:end])
    # Addresses are words that are the position of some structure or lie within the file.
    places = [at for at in range(4, len(body) - 7) if _is_address(body, at, len(raw))]
    if not places:
        return change_sealed_structures(raw, rng)
    at = places[int(rng.integers(len(places)))]
    body[at : at + 8] = struct.pack("<Q", other)
    return _resealed(raw, start, end, bytes(body))


def _is_address(body: bytearray, at: int, size: int) -> bool:
    (word,) = struct.unpack_from("<Q", body, at)
    return bool(16 <= word < size or word == (1 << 64) - 1)


def change_unsealed_structures(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change an integer of an older structure, which has no checksum."""
    starts = [
        at for signature in UNSUMMED for at in _all(raw, signature) if at + 16 < len(raw)
    ] or [0]
    start = starts[int(rng.integers(len(starts)))]
    end = min(len(raw), start + int(rng.choice([32, 96, 512])))
    return raw[:start] + set_integer(raw[start:end], rng) + raw[end:]


def _all(raw: bytes, signature: bytes) -> list[int]:
    found, at = [], raw.find(signature)
    while at >= 0:
        found.append(at)
        at = raw.find(signature, at + 1)
    return found


# -- chunks ------------------------------------------------------------------------


def fletcher32(data: bytes) -> int:
    """Return the checksum that HDF5 puts behind a chunk."""
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(object)
    first = second = 0
    for word in words:
        first = (first + word) % 65535
        second = (second + first) % 65535
    # HDF5 adds end-around carries: it has 65535 where the remainder is 0, unless all is 0.
    nonzero = any(data)
    return (second or 65535 * nonzero) << 16 | (first or 65535 * nonzero)


@lru_cache(maxsize=8)
def sealed_chunks(raw: bytes) -> tuple[tuple[int, int], ...]:
    """Return where each chunk with a Fletcher-32 begins, and where that does."""
    found = []

    def note(name: str, dataset: Any) -> None:
        if not isinstance(dataset, h5py.Dataset) or dataset.chunks is None:
            return
        plist = dataset.id.get_create_plist()
        filters = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
        if not filters or filters[-1] != FLETCHER32:
            return
        for number in range(dataset.id.get_num_chunks()):
            info = dataset.id.get_chunk_info(number)
            found.append((info.byte_offset, info.byte_offset + info.size - 4))

    with h5py.File(io.BytesIO(raw)) as file:
        file.visititems(note)
    return tuple(found)


def change_a_chunk(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change the content of a chunk, with its Fletcher-32."""
    chunks = sealed_chunks(raw)
    if not chunks:
        return change_sealed_structures(raw, rng)
    start, end = chunks[int(rng.integers(len(chunks)))]
    body = (set_integer, flip_bits)[int(rng.integers(2))](raw[start:end], rng)
    return raw[:start] + body + struct.pack("<I", fletcher32(body)) + raw[end + 4 :]


HDF5: tuple[Mutator, ...] = (
    *(change_sealed_structures,) * 4,
    *(exchange_sealed_structures, change_a_chunk),
)
FIELDS: tuple[Mutator, ...] = (change_unsealed_structures,)
