"""Damage to a lod stream with all its CRC32Cs made right again."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace

import google_crc32c
import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator, extreme, several
from tests.reliability.mutators.json_values import changed

_HEADER = struct.Struct("<B3sIQ")


@dataclass(frozen=True)
class _Frame:
    """A frame; `size` and the checksums are correct unless a mutator sets them."""

    kind: int
    zeros: bytes
    part: int
    payload: bytes
    size: int | None = None

    def header(self) -> bytes:
        size = len(self.payload) if self.size is None else self.size
        raw = _HEADER.pack(self.kind, self.zeros, self.part, size)
        raw += struct.pack("<I", google_crc32c.value(self.payload))
        return raw + struct.pack("<I", google_crc32c.value(raw))


def _frames(raw: bytes) -> list[_Frame]:
    found, at = [], 8
    while at + 24 <= len(raw):
        kind, zeros, part, size = _HEADER.unpack_from(raw, at)
        found.append(_Frame(kind, zeros, part, raw[at + 24 : at + 24 + size]))
        at += 24 + size
    return found


def _joined(raw: bytes, frames: list[_Frame], *, recount: bool) -> bytes:
    """Return the stream of these frames; with `recount`, its trailer is recomputed."""
    told = _json(frames[-1].payload) if recount and frames else None
    if isinstance(told, dict):
        told["frames"] = len(frames) - 1
        told["batches"] = sum(frame.kind == 2 for frame in frames)
        headers = b"".join(frame.header() for frame in frames[:-1])
        told["headers_crc32c"] = google_crc32c.value(headers)
        payload = json.dumps(told, separators=(",", ":")).encode()
        frames = [*frames[:-1], replace(frames[-1], payload=payload)]
    return raw[:8] + b"".join(frame.header() + frame.payload for frame in frames)


def _json(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except ValueError:
        return None


def _chosen(frames: list[_Frame], rng: np.random.Generator) -> int:
    return int(rng.integers(len(frames)))


def change_a_payload(raw: bytes, rng: np.random.Generator) -> bytes:
    """Damage the payload of a frame, its checksum right."""
    frames = _frames(raw)
    at = _chosen(frames, rng)
    payload = frames[at].payload
    if payload:
        payload = several(ANY)(payload, rng) if rng.random() < 0.2 else _one(payload, rng)
    frames[at] = replace(frames[at], payload=payload)
    return _joined(raw, frames, recount=rng.random() < 0.8 and at + 1 < len(frames))


def _one(payload: bytes, rng: np.random.Generator) -> bytes:
    return ANY[int(rng.integers(len(ANY)))](payload, rng)


def change_a_number(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one of the numbers in a frame of counts, offsets or an order."""
    frames = _frames(raw)
    places = [at for at, frame in enumerate(frames) if frame.kind in (2, 3, 5) and frame.payload]
    if not places:
        return change_a_payload(raw, rng)
    at = places[int(rng.integers(len(places)))]
    numbers = list(struct.unpack(f"<{len(frames[at].payload) // 8}Q", frames[at].payload))
    one = int(rng.integers(len(numbers)))
    numbers[one] = extreme(numbers[one], 8, rng, len(raw))
    frames[at] = replace(frames[at], payload=struct.pack(f"<{len(numbers)}Q", *numbers))
    return _joined(raw, frames, recount=True)


def change_json(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of the header or of the trailer."""
    frames = _frames(raw)
    at = 0 if rng.random() < 0.7 else len(frames) - 1
    value = changed(json.loads(frames[at].payload), rng)
    payload = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    frames[at] = replace(frames[at], payload=payload)
    return _joined(raw, frames, recount=at == 0)


def change_a_frame_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change kind, part, size or the zeros of a frame, its checksums right."""
    frames = _frames(raw)
    at = _chosen(frames, rng)
    frame = frames[at]
    frames[at] = (
        replace(frame, kind=int(rng.integers(9))),
        replace(frame, part=extreme(frame.part, 4, rng)),
        replace(frame, size=extreme(len(frame.payload), 8, rng, len(raw))),
        replace(frame, zeros=rng.bytes(3)),
    )[int(rng.integers(4))]
    return _joined(raw, frames, recount=rng.random() < 0.8)


def rearrange_frames(raw: bytes, rng: np.random.Generator) -> bytes:
    """Lose, double, swap or split frames, and count them right in the trailer."""
    frames = _frames(raw)
    at, other = _chosen(frames, rng), _chosen(frames, rng)
    kind = int(rng.integers(4))
    if kind == 0:
        del frames[at]
    elif kind == 1:
        frames.insert(other, frames[at])
    elif kind == 2:
        frames[at], frames[other] = frames[other], frames[at]
    else:
        payload = frames[at].payload
        cut = int(rng.integers(len(payload) + 1))
        parts = [replace(frames[at], payload=one) for one in (payload[:cut], payload[cut:])]
        frames[at : at + 1] = parts
    return _joined(raw, frames, recount=True)


LOD_STREAM: tuple[Mutator, ...] = (
    *(change_a_payload, change_a_number, change_json, change_a_frame_header, rearrange_frames),
)
