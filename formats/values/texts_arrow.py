"""Distinct texts, found by Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lodcli.kernels.index.checks import Array, Offsets


def encoded(data: Array, offsets: Offsets) -> tuple[list[str], Array]:
    """Return the distinct texts, in order of their first places, and which of them each text is.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.

    >>> encoded(np.frombuffer(b"nonoyes", np.uint8), np.array([0, 2, 4, 7]))
    (['no', 'yes'], array([0, 0, 1], dtype=int32))
    """
    buffers = [np.ascontiguousarray(one) for one in (offsets, data)]
    found = pa.Array.from_buffers(
        pa.large_string(), offsets.size - 1, [None, *map(pa.py_buffer, buffers)]
    ).dictionary_encode()
    words: list[str] = found.dictionary.to_pylist()
    codes: Array = found.indices.to_numpy()
    return words, codes
