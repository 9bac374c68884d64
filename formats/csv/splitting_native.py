"""Splits records with compiled code."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load

# Bytes that the kernel reads at once, perhaps beyond the last record.
_STEP = 64
_split_records = load.kernel("formats.csv.splitting_numba", "split_records")


def is_available() -> bool:
    """Return whether there is a compiled splitter; compiles it if needed."""
    try:
        return bool(_split_records[""])
    except load.NativeUnavailableError:
        return False


def split(
    block: bytes, separator: str, width: int, count: int
) -> tuple[Array, Array, Array] | None:
    """Return the bytes of records, and where each field starts and stops, without quotes around it.

    None if a record has another number of fields, or line ends or quotes are within quotes.

    Args:
        block: records, each with "\\n" after it.
        separator: between fields.
        width: the number of fields of each.
        count: the number of line ends.

    Returns:
        (N,) uint8; (width, count) int64, the first byte of each field; and that after its last one.
    """
    if count * width > len(block):  # each field has a byte after it
        return None
    data = np.frombuffer(block + bytes(_STEP), np.uint8)
    starts, stops = (np.empty((width, count), np.int64) for _ in range(2))
    is_split = _split_records[""].call(
        0, 1, data, len(block), ord(separator), width, count, b'"' in block,
        starts.reshape(-1), stops.reshape(-1),
    )  # fmt: skip
    return (data, starts, stops) if is_split else None
