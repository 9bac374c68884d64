"""Damage to a lod container with its CRC32Cs made right again: header, index and rows.

The HDF5 structures around them have no checksums; `hdf5` damages them. h5py returns positions.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import google_crc32c
import h5py
import numpy as np

from tests.reliability.mutators.generic import ANY, Mutator, with_integer
from tests.reliability.mutators.json_values import changed

_TAIL = b',"crc32c":"'


@dataclass(frozen=True)
class _Place:
    """Where a contiguous dataset lies, and the bytes of one of its numbers."""

    path: str
    start: int
    size: int
    width: int


@lru_cache(maxsize=8)
def _places(raw: bytes) -> tuple[_Place, ...]:
    """Return the datasets that have bytes and are contiguous, /header first."""
    found = []

    def note(name: str, dataset: Any) -> None:
        if isinstance(dataset, h5py.Dataset) and dataset.id.get_offset() is not None:
            start, size = dataset.id.get_offset(), dataset.id.get_storage_size()
            found.append(_Place(f"/{name}", start, size, min(8, dataset.dtype.itemsize)))

    with h5py.File(io.BytesIO(raw)) as file:
        file.visititems(note)
    return tuple(sorted(found, key=lambda one: (one.path != "/header", one.path)))


def _sealed(body: bytes) -> bytes:
    return body + _TAIL + b'%08x"}' % google_crc32c.value(body)


def _with_header(raw: bytes, text: bytes) -> bytes:
    """Return the container with another header: at its end if it does not fit in the old place."""
    old = _places(raw)[0]
    if len(text) == old.size:
        return raw[: old.start] + text + raw[old.start + old.size :]
    moved = bytearray(raw + text)
    layout = raw.index(struct.pack("<QQ", old.start, old.size))
    moved[layout : layout + 16] = struct.pack("<QQ", len(raw), len(text))
    datatype = raw.rindex(struct.pack("<I", old.size), 0, layout)
    moved[datatype : datatype + 4] = struct.pack("<I", len(text))
    moved[40:48] = struct.pack("<Q", len(moved))
    return bytes(moved)


def _body(raw: bytes) -> bytes:
    old = _places(raw)[0]
    return raw[old.start : old.start + old.size].rpartition(_TAIL)[0]


def change_the_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change one value of the header."""
    value = changed(json.loads(_body(raw) + b"}"), rng)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    body = text.encode("utf-8", "surrogatepass")
    return _with_header(raw, _sealed(body[:-1] if body.endswith(b"}") else body))


def damage_the_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """Damage the text of the header blindly."""
    body = ANY[int(rng.integers(len(ANY)))](_body(raw), rng)
    return _with_header(raw, _sealed(body))


def change_a_number(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change an offset, or a number of the rows, with its checksum in the header."""
    places = [one for one in _places(raw)[1:] if one.size]
    if not places:
        return change_the_header(raw, rng)
    place = places[int(rng.integers(len(places)))]
    position = place.start + int(rng.integers(place.size // place.width)) * place.width
    raw = with_integer(raw, position, place.width, rng)
    header = json.loads(_body(raw) + b"}")
    entry = header["datasets"][place.path]
    rows = entry["shape"][0]
    block = entry["block_rows"] * (place.size // rows)
    data = raw[place.start : place.start + place.size]
    blocks = [data[at : at + block] for at in range(0, place.size, block)]
    entry["crc32c"] = "".join(f"{google_crc32c.value(one):08x}" for one in blocks)
    body = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return _with_header(raw, _sealed(body[:-1]))


LOD_CONTAINER: tuple[Mutator, ...] = (
    *(change_the_header, change_the_header, damage_the_header, change_a_number, change_a_number),
)
