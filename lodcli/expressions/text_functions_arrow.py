"""Functions of texts, by Arrow: conditions, numbers of characters, and other texts.

References:
    Apache Arrow, compute functions of strings. Patterns are those of RE2, which take linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lodcli.expressions.texts import Packed
from lodcli.formats.values.texts_arrow import as_arrow
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chars": pc.utf8_length,
    "contains": pc.match_substring,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "matches": pc.match_substring_regex,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "strip": pc.utf8_trim_whitespace,
    "replace": pc.replace_substring,
}


def values_of_texts(name: str, words: Sequence[str]) -> Callable[[Array, Offsets], Array]:
    """Return a function that has a value for each text, (K,): a boolean, or a number.

    Args:
        name: of TEXT_FUNCTIONS.
        words: its arguments after the texts.

    Raises:
        InvalidDataError: a word is no pattern.

    >>> data, offsets = np.frombuffer("né".encode() + b"no", np.uint8), np.array([0, 3, 5])
    >>> values_of_texts("contains", ["o"])(data, offsets).tolist()
    [False, True]
    >>> values_of_texts("chars", [])(data, offsets).tolist()
    [2, 2]
    """

    def values(data: Array, offsets: Offsets) -> Array:
        found: Array = _called(name, words, data, offsets).to_numpy(zero_copy_only=False)
        return found

    values(_NONE, np.zeros(2, np.int64))  # Arrow reads no pattern without a text
    return values


def made_texts(name: str, words: Sequence[str]) -> Callable[[Array, Offsets], Packed]:
    """Return a function that has a text for each text: see `values_of_texts`.

    >>> texts = np.frombuffer(b"noyes", np.uint8), np.array([0, 2, 5])
    >>> data, offsets = made_texts("upper", [])(*texts)
    >>> data.tobytes(), offsets.tolist()
    (b'NOYES', [0, 2, 5])
    """

    def texts(data: Array, offsets: Offsets) -> Packed:
        found = _called(name, words, data, offsets)
        _, ends, contents = found.buffers()
        made = np.frombuffer(ends, np.int64)[: len(found) + 1] if len(found) else np.zeros(1, int)
        # Arrow has no buffer for no bytes.
        size = int(made[-1])
        return np.frombuffer(contents, np.uint8)[:size] if size else _NONE, made

    return texts


_NONE = np.zeros(0, np.uint8)


def _called(name: str, words: Sequence[str], data: Array, offsets: Offsets) -> Any:
    try:
        return _FUNCTIONS[name](as_arrow(data, offsets), *words)
    except pa.ArrowInvalid as error:
        what = str(error).removeprefix("Invalid regular expression: ")
        raise InvalidDataError(f"{name}: {what}") from None
