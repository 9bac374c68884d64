"""Damage to what is packed by gzip or Zstandard: inside, and packed again with right checksums."""

from __future__ import annotations

import gzip

import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator


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
