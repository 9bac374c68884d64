"""npz archives for the corpus."""

from __future__ import annotations

import struct
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.formats.broken.broken_npz import BROKEN_MEMBERS, DEFLATED, archive, npy

ENCRYPTED = 1


def _archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a member twice
        return archive(Path(folder), *members, method=method).read_bytes()


def archives() -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of each broken archive."""
    for number, (member, _, _) in enumerate(BROKEN_MEMBERS, 1):
        yield f"member-{number:02}", _archive(("x.npy", member))
    good = _archive(("x.npy", npy(bytes(1000), shape=(125,))))
    for size in (1, 30, 60, len(good) // 2, len(good) - 22, len(good) - 1):
        yield f"cut-{size}", good[:size]
    yield "unknown-member", _archive(("x.npy", npy()), ("readme.txt", npy()))
    yield "member-twice", _archive(("x.npy", npy()), ("x.npy", npy()))
    for name, method in {"bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}.items():
        yield name, _archive(("x.npy", npy()), method=method)
    packed = _archive(("x.npy", npy(bytes(1000), shape=(125,))), method=DEFLATED)
    told = struct.pack("<I", len(npy(bytes(1000), shape=(125,))))
    yield "bomb", packed.replace(told, struct.pack("<I", 1 << 30))
    yield "checksum-lies", good.replace(good[14:18], b"\1\2\3\4")
    entry = good.index(b"PK\1\2")
    encrypted = bytearray(good)
    encrypted[6] |= ENCRYPTED
    encrypted[entry + 8] |= ENCRYPTED
    yield "encrypted", bytes(encrypted)
    two = _archive(("x.npy", npy(bytes(8000), shape=(1000,))), ("y.npy", npy()))
    at = two.index(b"PK\1\2", two.index(b"PK\1\2") + 1)
    first = two[two.index(b"PK\1\2") : at]
    shared = first.replace(b"x.npy", b"y.npy")
    yield "shared-bytes", two[:at] + shared + two[at + len(first) :]
    offsets = npy(struct.pack("<3q", 0, 9, 2), descr="<i8", shape=(3,))
    yield (
        "offsets-decrease",
        _archive(("data.npy", npy(bytes(16), shape=(2,))), ("lod.0.npy", offsets)),
    )
    floats = npy(struct.pack("<3d", 0, 1, 2), shape=(3,))
    yield (
        "offsets-of-floats",
        _archive(("data.npy", npy(bytes(16), shape=(2,))), ("lod.0.npy", floats)),
    )
    huge = npy(struct.pack("<2q", 0, 2**63 - 1), descr="<i8", shape=(2,))
    yield "offset-2-to-63", _archive(("data.npy", npy(bytes(16), shape=(2,))), ("lod.0.npy", huge))
    yield "level-without-rows", _archive(("lod.0.npy", huge))
