"""Reads many texts as numbers with compiled code. See digits.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.nulls import Mask

_read_numbers = load.kernel("formats.text.parsing_numba", "read_numbers")


def is_available() -> bool:
    """Return whether there is a compiled reader; compiles it if needed."""
    try:
        return bool(_read_numbers[""])
    except load.NativeUnavailableError:
        return False


def whole_numbers(texts: Texts) -> tuple[Array, Mask]:
    """See digits.py."""
    return _numbers(texts, np.dtype(np.int64))


def decimal_numbers(texts: Texts) -> tuple[Array, Mask]:
    """See digits.py; numbers with an exponent are read as well."""
    return _numbers(texts, np.dtype(np.float64))


def _numbers(texts: Texts, dtype: np.dtype[np.generic]) -> tuple[Array, Mask]:
    count = texts.lengths.size
    numbers, known = np.empty(count, dtype), np.empty(count, np.bool_)
    places = (np.ascontiguousarray(each) for each in (texts.starts, texts.lengths))
    whole, out = dtype.kind == "i", load.address(numbers)
    _read_numbers[""].call(0, count, texts.data, *places, whole, known.view(np.uint8), out)
    return numbers, known
