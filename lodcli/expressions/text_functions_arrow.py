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

from lodcli.expressions.function_table import REPLACE_MATCHES
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
    REPLACE_MATCHES: pc.replace_substring_regex,
}


def values_of_texts(name: str, words: Sequence[str]) -> Callable[[Array, Offsets], Array]:
    """Return a function that has a value for each text, (K,): a boolean, or a number.

    Args:
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

    Raises:
        InvalidDataError: a word is no pattern, or does not fit it.

    >>> texts = np.frombuffer(b"noyes", np.uint8), np.array([0, 2, 5])
    >>> data, offsets = made_texts("upper", [])(*texts)
    >>> data.tobytes(), offsets.tolist()
    (b'NOYES', [0, 2, 5])
    """

    _called(name, words, _NONE, np.zeros(2, np.int64))  # Arrow reads no pattern without a text
    return lambda data, offsets: _as_packed(_called(name, words, data, offsets))


def cut_texts(start: int | None, stop: int | None) -> Callable[[Array, Offsets], Packed]:
    """Return a function that has the characters from `start` to `stop` of each text.

    >>> texts = np.frombuffer("zoë".encode(), np.uint8), np.array([0, 2, 4])
    >>> data, offsets = cut_texts(-1, None)(*texts)
    >>> data.tobytes().decode(), offsets.tolist()
    ('oë', [0, 1, 3])
    """

    def cut(data: Array, offsets: Offsets) -> Packed:
        return _as_packed(pc.utf8_slice_codeunits(as_arrow(data, offsets), start or 0, stop))

    return cut


def split_texts(separator: str, data: Array, offsets: Offsets) -> tuple[Packed, Offsets]:
    """Return the parts of texts between separators, and how many each text has, (K,) int64.

    >>> given = np.frombuffer(b"a,bc", np.uint8), np.array([0, 3, 4])
    >>> (data, offsets), counts = split_texts(",", *given)
    >>> data.tobytes(), offsets.tolist(), counts.tolist()
    (b'abc', [0, 1, 2, 3], [2, 1])
    """
    found = pc.split_pattern(as_arrow(data, offsets), separator)
    return _as_packed(found.flatten()), np.diff(found.offsets.to_numpy()).astype(np.int64)


def _as_packed(texts: Any) -> Packed:
    """Return an array of Arrow as the bytes of texts and their offsets."""
    _, ends, contents = texts.buffers()
    place, count = texts.offset, len(texts)
    if not count:
        return _NONE, np.zeros(1, np.int64)
    offsets = np.frombuffer(ends, np.int64)[place : place + count + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    # Arrow has no buffer for no bytes.
    rows = np.frombuffer(contents, np.uint8)[first:last] if last > first else _NONE
    return rows, offsets - first


_NONE = np.zeros(0, np.uint8)


def _called(name: str, words: Sequence[str], data: Array, offsets: Offsets) -> Any:
    try:
        return _FUNCTIONS[name](as_arrow(data, offsets), *words)
    except pa.ArrowInvalid as error:
        what = str(error).removeprefix("Invalid regular expression: ")
        raise InvalidDataError(f"{name}: {what}") from None
