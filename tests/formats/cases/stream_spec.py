"""Lod streams built by hand from docs/stream.md. Shares no code with lodcli."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

HEADER, BATCH, OFFSETS, ROWS, ORDER, TRAILER, VALID = range(1, 8)
FAILED = 255
PREFIX = b"\x89LODS\r\n\x01"


def crc32c(raw: bytes) -> int:
    """Return the CRC32C of these bytes."""
    return int(google_crc32c.value(raw))


def frame_header(kind: int, part: int, payload: bytes, size: int | None = None) -> bytes:
    """Return the 24 bytes before a payload; `size` lies about it."""
    told = len(payload) if size is None else size
    checked = struct.pack("<BBBBIQI", kind, 0, 0, 0, part, told, crc32c(payload))
    return checked + struct.pack("<I", crc32c(checked))


def as_json(content: Any) -> bytes:
    """Return canonical JSON."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def int64s(values: Sequence[int]) -> bytes:
    """Return numbers as the payload of a frame."""
    return struct.pack(f"<{len(values)}q", *values)


def level(name: str | None = None, items: int | None = None) -> dict[str, Any]:
    """Return an entry of the level table."""
    return {"name": name, "items": items}


def tensor(**changes: Any) -> dict[str, Any]:
    """Return an entry for a tensor of bytes with one level, with changes."""
    entry = {"name": "data", "dtype": "uint8", "row_shape": [], "levels": [0], "rows": None}
    return {**entry, "array": None, **changes}


def header(levels: list[Any], tensors: list[Any], **changes: Any) -> bytes:
    """Return the payload of a header."""
    content = {"format": "lod-stream", "version": 1, "levels": levels, "tensors": tensors}
    return as_json({**content, **changes})


@dataclass
class Stream:
    """Frames of a stream, each (kind, part, payload). The trailer is counted from them."""

    frames: list[tuple[int, int, bytes]] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    trailer: dict[str, Any] = field(default_factory=dict)

    def trailer_payload(self) -> bytes:
        """Return the payload of the trailer, with the changes in `trailer`."""
        headers = b"".join(frame_header(*frame) for frame in self.frames)
        content = {
            "batches": sum(kind == BATCH for kind, _, _ in self.frames),
            "frames": len(self.frames),
            "headers_crc32c": crc32c(headers),
            "levels": self.levels,
            "tensors": self.tensors,
        }
        return as_json({**content, **self.trailer})

    def encode(self) -> bytes:
        """Return the bytes of the stream."""
        frames = [*self.frames, (TRAILER, 0, self.trailer_payload())]
        return PREFIX + b"".join(frame_header(*frame) + frame[2] for frame in frames)


def example() -> Stream:
    """Return the example of the specification: sequences `a b` and `c`, totals known."""
    return Stream(
        frames=[
            (HEADER, 0, header([level(items=2)], [tensor(rows=3)])),
            (BATCH, 0, int64s([0, 3, 2])),
            (OFFSETS, 0, int64s([2, 3])),
            (ROWS, 0, b"abc"),
        ],
        levels=[2],
        tensors=[3],
    )


def two_tensors() -> Stream:
    """Return tensors x and y, one level each shared, in two batches of one and two items."""
    shared = [tensor(name="x"), tensor(name="y", dtype="int16", row_shape=[2])]
    return Stream(
        frames=[
            (HEADER, 0, header([level("word")], shared)),
            (BATCH, 0, int64s([0, 2, 1, 1, 2, 1])),
            (OFFSETS, 0, int64s([2])),
            (ROWS, 0, b"ab"),
            (ROWS, 1, bytes(range(8))),
            (BATCH, 1, int64s([0, 1, 2, 1, 1, 2])),
            (OFFSETS, 0, int64s([0, 1])),
            (ROWS, 0, b"c"),
            (ROWS, 1, bytes(range(8, 12))),
        ],
        levels=[3],
        tensors=[3, 3],
    )


def array() -> Stream:
    """Return a TensorArray: sequences `abcd` and `xy` unpacked, `a x`, `b y`, `c`, `d`."""
    entry = tensor(name="steps", levels=[0], array={"outer": [1]})
    return Stream(
        frames=[
            (HEADER, 0, header([level("step"), level()], [entry])),
            (BATCH, 0, int64s([0, 6, 4, 2])),
            (OFFSETS, 0, int64s([2, 4, 5, 6])),
            (OFFSETS, 1, int64s([2, 6])),
            (ROWS, 0, b"axbycd"),
            (ORDER, 0, int64s([1, 0])),
        ],
        levels=[4, 2],
        tensors=[6],
    )
