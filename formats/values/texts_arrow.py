"""Distinct texts, and texts that are among some words, found by Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lodcli.kernels.index.checks import Array, Offsets


def encoded(data: Array, offsets: Offsets) -> tuple[list[str], Array]:
    """Return the distinct texts, in order of their first places, and which of them each text is.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.

    >>> encoded(np.frombuffer(b"nonoyes", np.uint8), np.array([0, 2, 4, 7]))
    (['no', 'yes'], array([0, 0, 1], dtype=int32))
    """
    found = _array(data, offsets).dictionary_encode()
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
    found: Array = pc.is_in(_array(data, offsets), pa.array(words, pa.large_string())).to_numpy(
        zero_copy_only=False
    )
    return found


def _array(data: Array, offsets: Offsets) -> Any:
    buffers = (np.ascontiguousarray(one) for one in (offsets, data))
    return pa.Array.from_buffers(
        pa.large_string(), offsets.size - 1, [None, *map(pa.py_buffer, buffers)]
    )
