"""Damage inside of gzip, Zstandard and TFRecord, whose checksums are then made right."""

from __future__ import annotations

import gzip

import google_crc32c
import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator
from tests.reliability.mutators.protobuf import PROTOBUF


def _zstd(raw: bytes) -> bytes:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return bytes(reader.readall())


def inside_gzip(mutators: tuple[Mutator, ...]) -> Mutator:
    """Return a mutator of a gzip file that damages what is packed in it."""

    def change_inside_gzip(raw: bytes, rng: np.random.Generator) -> bytes:
        kinds = (*mutators, *ANY[:2])
        content = gzip.decompress(raw) or b"\n"
        changed = kinds[int(rng.integers(len(kinds)))](content, rng)
        packed = gzip.compress(changed, mtime=0)
        if rng.random() < 0.1:  # in two members, one behind the other
            cut = int(rng.integers(len(changed) + 1))
            packed = gzip.compress(changed[:cut], mtime=0) + gzip.compress(changed[cut:], mtime=0)
        return packed

    return change_inside_gzip


def inside_zstd(mutators: tuple[Mutator, ...]) -> Mutator:
    """Return a mutator of a Zstandard file that damages what is packed in it."""

    def change_inside_zstd(raw: bytes, rng: np.random.Generator) -> bytes:
        import zstandard

        kinds = (*mutators, *ANY[:2])
        content = _zstd(raw) or b"\n"
        changed = kinds[int(rng.integers(len(kinds)))](content, rng)
        options = {
            "write_checksum": rng.random() < 0.5,
            "write_content_size": rng.random() < 0.5,
        }
        return zstandard.ZstdCompressor(**options).compress(changed)  # type: ignore[arg-type]

    return change_inside_zstd


def change_inside_records(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one record of a TFRecord file, as a protocol buffer or anywhere."""
    records, place = [], 0
    while place < len(raw):
        size = int.from_bytes(raw[place : place + 8], "little")
        records.append(raw[place + 12 : place + 12 + size])
        place += size + 16
    kinds = (*PROTOBUF, *ANY)
    which = int(rng.integers(len(records)))
    records[which] = kinds[int(rng.integers(len(kinds)))](records[which] or b"\n\0", rng)
    return b"".join(_framed(record) for record in records)


def _framed(record: bytes) -> bytes:
    length = len(record).to_bytes(8, "little")
    return length + _masked(length) + record + _masked(record)


def _masked(data: bytes) -> bytes:
    crc = int(google_crc32c.value(data))
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
