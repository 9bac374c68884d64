"""Arrays of texts: of one length, padded with zeros, as NumPy stores them, or of any length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets

KINDS = "US"  # of dtypes: of characters of 4 bytes, and of bytes
STRINGS = "T"  # of NumPy's StringDType
# Decoded at a time: as Python objects, short texts take far more memory than as bytes.
_DECODED = 1 << 16


@dataclass(frozen=True)
class FixedTexts:
    """Texts without their padding.

    Attributes:
        label: name in messages.
        shape: of the array, (S,).
        data: the texts in UTF-8, one after another, (N,) uint8.
        offsets: of the texts in them, (S + 1,).
    """

    label: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: Array
    offsets: Offsets

    @classmethod
    def of(cls, label: str, texts: Array) -> FixedTexts:
        """Return the texts of an array.

        Args:
            label: name in messages.
            texts: (S,) of a dtype in KINDS or STRINGS.

        Raises:
            InvalidDataError: bytes that are not UTF-8, or characters that Unicode does not have.
        """
        parts, offsets, count = list[bytes](), np.zeros(texts.size + 1, np.int64), 1
        for found in _encoded(texts):
            parts.append(b"".join(found))
            offsets[count : count + len(found)] = list(map(len, found))
            count += len(found)
        data = np.frombuffer(b"".join(parts), np.uint8)
        return cls(label, texts.dtype, texts.shape, data, np.cumsum(offsets, out=offsets))


def require_texts(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise UnsupportedError unless an array of texts has one dimension."""
    if len(shape) != 1:
        raise UnsupportedError(
            f"has texts of dtype {dtype} in {len(shape)} dimensions; texts of one dimension can be "
            "read; save array.ravel()"
        )


def _encoded(texts: Array) -> Iterator[list[bytes]]:
    """Yield the texts in UTF-8, some at a time."""
    for start in range(0, texts.size, _DECODED):
        part = texts[start : start + _DECODED]
        try:
            is_wide = part.dtype.kind == "U"
            # With characters that Unicode does not have, `tolist` ends with a SystemError.
            if is_wide and part.view(f"{part.dtype.str[0]}u4").max() > sys.maxunicode:
                raise ValueError("a character is beyond U+10FFFF")
            if is_wide or part.dtype.kind == STRINGS:
                found = [text.encode() for text in part.tolist()]
            else:
                found = part.tolist()
                if not b"".join(found).isascii():
                    for text in found:
                        text.decode()
        except ValueError as error:
            raise InvalidDataError(
                f"items {start} to {start + part.size - 1}: a text is not Unicode "
                f"({str(error)[:80]}); save bytes as array.view('u1')"
            ) from None
        yield found
