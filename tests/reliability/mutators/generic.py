"""Damage to bytes of any kind: flips, cuts, insertions, moved blocks, integers at their extremes.

A mutator takes the bytes of a file and a generator, and returns other bytes. It never changes its
argument, takes all its randomness from the generator, and may return equal bytes by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Mutator = Callable[[bytes, np.random.Generator], bytes]

EXTREME_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
# Bytes without a checksum.
GZIP_HEADER = 10
BLOCKS = (1, 4, 8, 16, 64, 512)


def chance(rng: np.random.Generator, *choices: object) -> object:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def place(raw: bytes, rng: np.random.Generator) -> int:
    """Return a position; every second time not of a zero, which may be padding."""
    position = int(rng.integers(len(raw)))
    if rng.random() < 0.5:
        for step in range(min(len(raw), 4096)):
            if raw[(position + step) % len(raw)]:
                return (position + step) % len(raw)
    return position


def extreme(value: int, width: int, rng: np.random.Generator, size: int = 0) -> int:
    """Return an integer of `width` bytes to put in the place of `value`, unsigned.

    Counts, sizes and positions go wrong near their old value, near the size of the file, and at
    the limits of every narrower type.
    """
    bits = 8 * width
    kind = int(rng.integers(5))
    if kind == 0:
        found = value + int(rng.choice([-8, -2, -1, 1, 2, 8]))
    elif kind == 1:
        found = int(rng.choice([0, 1, 2, 3, 4, 7, 8, 16, 255, 256]))
    elif kind == 2:
        power = int(rng.integers(bits + 1))
        found = (1 << power) + int(rng.choice([-1, 0, 1]))
    elif kind == 3:
        found = size + int(rng.choice([-8, -1, 0, 1, 8]))
        found //= int(rng.choice([1, 1, 2, 4, 8]))
    else:
        found = int(rng.choice([-1, -2, 2 * value, -value, value ^ 1 << int(rng.integers(bits))]))
    return found & (1 << bits) - 1


def with_integer(
    raw: bytes, position: int, width: int, rng: np.random.Generator, order: str = "little"
) -> bytes:
    """Return the bytes with the integer at a position replaced."""
    value = int.from_bytes(raw[position : position + width], order)  # type: ignore[arg-type]
    changed = extreme(value, width, rng, len(raw)).to_bytes(width, order)  # type: ignore[arg-type]
    return raw[:position] + changed + raw[position + width :]


def rearrange(values: list[Any], rng: np.random.Generator) -> None:
    """Lose or double one of the values, or swap two."""
    if not values:
        return
    at, other = (int(rng.integers(len(values))) for _ in range(2))
    kind = int(rng.integers(3))
    if kind == 0:
        del values[at]
    elif kind == 1:
        values.insert(other, values[at])
    else:
        values[at], values[other] = values[other], values[at]


def flip_bits(raw: bytes, rng: np.random.Generator) -> bytes:
    """Flip a bit, or a few."""
    changed = bytearray(raw)
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        changed[place(raw, rng)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def replace_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    """Replace a byte, or a few, by extremes or anything."""
    changed = bytearray(raw)
    for _ in range(int(rng.choice([1, 1, 2, 4, 16]))):
        byte = rng.choice(EXTREME_BYTES) if rng.random() < 0.5 else rng.integers(256)
        changed[place(raw, rng)] = int(byte)
    return bytes(changed)


def set_integer(raw: bytes, rng: np.random.Generator) -> bytes:
    """Set an integer of any width and byte order to an extreme."""
    width = min(int(rng.choice([1, 2, 4, 8])), len(raw))
    position = min(place(raw, rng), len(raw) - width)
    if rng.random() < 0.5:
        position -= position % width
    return with_integer(raw, position, width, rng, str(rng.choice(["little", "little", "big"])))


def swap_words(raw: bytes, rng: np.random.Generator) -> bytes:
    """Put one word, or its own position, in the place of another: what makes loops."""
    if len(raw) < 16:
        return flip_bits(raw, rng)
    here, there = (place(raw, rng) // 8 * 8 for _ in range(2))
    here = min(here, len(raw) - 8)
    word = raw[there : there + 8] if rng.random() < 0.5 else there.to_bytes(8, "little")
    return raw[:here] + word + raw[here + len(word) :]


def cut(raw: bytes, rng: np.random.Generator) -> bytes:
    """Cut off the end, or the beginning."""
    position = int(rng.integers(len(raw)))
    if rng.random() < 0.3:
        position = max(0, len(raw) - int(rng.integers(1, 65)))
    return raw[position:] if rng.random() < 0.2 else raw[:position]


def remove(raw: bytes, rng: np.random.Generator) -> bytes:
    """Remove a piece from the middle."""
    position = place(raw, rng)
    return raw[:position] + raw[position + int(rng.choice(BLOCKS)) :]


def insert(raw: bytes, rng: np.random.Generator) -> bytes:
    """Insert zeros, noise or a copy of another piece."""
    position, size = int(rng.integers(len(raw) + 1)), int(rng.choice(BLOCKS))
    kind = int(rng.integers(3))
    other = int(rng.integers(len(raw)))
    piece = (bytes(size), rng.bytes(size), raw[other : other + size])[kind]
    return raw[:position] + piece + raw[position:]


def move_block(raw: bytes, rng: np.random.Generator) -> bytes:
    """Swap two blocks, or write one over another, or zeros over one."""
    size = min(int(rng.choice(BLOCKS[2:])), max(1, len(raw) // 2))
    here, there = sorted(int(rng.integers(len(raw))) // size * size for _ in range(2))
    first, second = raw[here : here + size], raw[there : there + size]
    kind = int(rng.integers(3))
    if kind == 0 and here + size <= there and len(first) == len(second):
        return raw[:here] + second + raw[here + size : there] + first + raw[there + size :]
    piece = bytes(len(first)) if kind == 1 else second
    return raw[:here] + piece + raw[here + len(piece) :]


def splice(raw: bytes, rng: np.random.Generator) -> bytes:
    """Join the beginning of the file to some end of it: too long, or too short."""
    return raw[: int(rng.integers(len(raw) + 1))] + raw[int(rng.integers(len(raw))) :]


def splicer(other: bytes) -> Mutator:
    """Return a mutator that joins parts of a file and of another one of the same kind."""

    def splice_other(raw: bytes, rng: np.random.Generator) -> bytes:
        here, there = int(rng.integers(len(raw) + 1)), int(rng.integers(len(other)))
        if rng.random() < 0.5:
            there = min(here, len(other))  # as if a copy had continued with another file
        if rng.random() < 0.5:
            found = raw[:here] + other[there:]
        else:
            size = int(rng.choice(BLOCKS))
            found = raw[:here] + other[there : there + size] + raw[here + size :]
        # The other file is not damaged, whatever its header of gzip has for a time.
        return raw if found[GZIP_HEADER:] == other[GZIP_HEADER:] else found

    return splice_other


ANY: tuple[Mutator, ...] = (
    *(flip_bits, replace_bytes, set_integer, swap_words),
    *(cut, remove, insert, move_block, splice),
)


def several(mutators: tuple[Mutator, ...]) -> Mutator:
    """Return a mutator that applies a few of these, one after another."""

    def apply_several(raw: bytes, rng: np.random.Generator) -> bytes:
        for _ in range(int(rng.integers(2, 5))):
            if raw:
                raw = mutators[int(rng.integers(len(mutators)))](raw, rng)
        return raw

    return apply_several
