"""Distinct texts, texts that are among some words, and numbers and times of texts, by Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.marks import DECIMAL_DIGITS, Times

# Lengths of a date and of an hour in texts such as 2024-05-01T12.
_DATE, _HOUR = 10, 3
# One of them is in each zone.
_SIGNS = np.frombuffer(b"Z+-", np.uint8)
_HEX = np.frombuffer(b"xX", np.uint8)


def encoded(data: Array, offsets: Offsets) -> tuple[list[str], Array]:
    """Return the distinct texts, in order of their first places, and which of them each text is.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.

    >>> encoded(np.frombuffer(b"nonoyes", np.uint8), np.array([0, 2, 4, 7]))
    (['no', 'yes'], array([0, 0, 1], dtype=int32))
    """
    found = as_arrow(data, offsets).dictionary_encode()
    words: list[str] = found.dictionary.to_pylist()
    codes: Array = found.indices.to_numpy()
    return words, codes


def among(words: Sequence[str], data: Array, offsets: Offsets) -> Array:
    """Return a mask of the texts that are among some words, (K,) bool.

    Args:
        words: in any order.
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
    """
    import pyarrow.compute as pc  # slow to import

    found: Array = pc.is_in(as_arrow(data, offsets), pa.array(words, pa.large_string())).to_numpy(
        zero_copy_only=False
    )
    return found


def plain_numbers(data: Array, offsets: Offsets, kind: str) -> Array | None:
    """Return the numbers in texts, (K,) int64 or float64, 0 of an empty text.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
        kind: of the dtype; whole numbers for "i" and "u".

    Returns:
        None if a text is no number, or one that 64 bits may round: from 2**53 on, and infinity.

    >>> plain_numbers(np.frombuffer(b"1.5-2e1", np.uint8), np.array([0, 3, 3, 7]), "f")
    array([  1.5,   0. , -20. ])
    """
    known = offsets[1:] > offsets[:-1]
    whole = kind in "iu"
    if np.isin(data, _HEX).any():  # Arrow takes 0x10 for 16
        return None
    try:
        found = as_arrow(data, offsets, known).cast(pa.int64() if whole else pa.float64())
    except pa.ArrowInvalid:
        return None
    values = np.frombuffer(found.buffers()[1], np.int64 if whole else np.float64)[: known.size]
    numbers: Array = np.where(known, values, 0)
    return numbers if whole or np.all(np.abs(numbers) < 2.0**53) else None


def decimal_digits(data: Array, offsets: Offsets, scale: int) -> Array | None:
    """Return the digits of decimals in texts, (K,) int64, 0 of an empty text.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
        scale: the number of digits after the point.

    Returns:
        None if a text is no such number, has more digits after the point, exceeds 64 bits, has an
        exponent, or is so long that Arrow may compute it modulo 2**128.

    >>> decimal_digits(np.frombuffer(b"1.5-20", np.uint8), np.array([0, 3, 3, 6]), 2)
    array([  150,     0, -2000])
    """
    longest = int(np.diff(offsets).max(initial=0))
    exponents = (data | 0x20) == ord("e")  # also E
    if not 0 <= scale <= DECIMAL_DIGITS[128] - longest or exponents.any():
        return None
    known = offsets[1:] > offsets[:-1]
    try:
        found = as_arrow(data, offsets, known).cast(pa.decimal128(DECIMAL_DIGITS[128], scale))
    except pa.ArrowInvalid:
        return None
    low, high = np.frombuffer(found.buffers()[1], np.int64)[: 2 * known.size].reshape(-1, 2).T
    digits: Array = np.where(known, low, 0)
    return digits if np.all((high == digits >> 63) | ~known) else None


def moments(data: Array, offsets: Offsets, times: Times) -> Array | None:
    """Return the numbers of dates or timestamps in texts, (K,) int64, 0 of an empty text.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
        times: their unit.

    Returns:
        None if a text is no such time, has more digits than the unit, or only some have a zone.

    >>> moments(np.frombuffer(b"1970-01-02", np.uint8), np.array([0, 10, 10]), Times("date", "D"))
    array([1, 0])
    """
    if times.kind not in ("date", "timestamp"):
        return None
    lengths = np.diff(offsets)
    known, ends_of_hours = lengths > 0, offsets[:-1][lengths > _DATE] + _DATE + _HOUR
    # Arrow also takes hours without minutes.
    if (data.take(ends_of_hours, mode="clip") != ord(":")).any():
        return None
    first = data[: lengths[known][0]] if known.any() else data
    zone = "UTC" if np.isin(first[_DATE:], _SIGNS).any() else None
    kind = pa.date32() if times.kind == "date" else pa.timestamp(times.unit, zone)
    try:
        found = as_arrow(data, offsets, known).cast(kind)
    except pa.ArrowInvalid:
        return None
    width = np.int32 if times.kind == "date" else np.int64
    numbers = np.frombuffer(found.buffers()[1], width)[: known.size].astype(np.int64)
    if times.kind == "date":
        numbers *= NANOSECONDS["D"] // NANOSECONDS[times.unit]
    return np.where(known, numbers, 0)


def as_arrow(data: Array, offsets: Offsets, valid: Array | None = None) -> Any:
    """Return texts as an array of Arrow; no bytes are copied.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
        valid: (K,), where texts are not null; None for everywhere.
    """
    buffers = [pa.py_buffer(np.ascontiguousarray(one)) for one in (offsets, data)]
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.large_string(), offsets.size - 1, [mask, *buffers])
