"""Dictionaries of Arrow as categories, and codes of one dictionary in another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import MOST_WORD_BYTES, MOST_WORDS, Categories


def categories_of(array: Any) -> Categories | None:
    """Return the words of a dictionary array of text.

    None if a word is null or occurs twice, or if there are more than a tensor may have.
    """
    words = array.dictionary
    if words.null_count or len(words) > MOST_WORDS or words.nbytes > 16 * MOST_WORD_BYTES:
        return None
    try:
        return Categories(tuple(words.to_pylist()), array.type.ordered)
    except InvalidDataError:
        return None


def texts_of(words: Sequence[str]) -> Any:
    """Return words as Arrow text, of less than 2 GiB.

    Not `pyarrow.array`, which imports pandas if it is installed, and that is slow.
    """
    encoded = [word.encode() for word in words]
    ends = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(encoded) + 1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def recoded(array: Any, categories: Categories, kind: Any) -> Any:
    """Return the codes of a dictionary array in other categories, as an Arrow integer type.

    Raises:
        InvalidDataError: a word that is not among the categories.
    """
    words = array.dictionary.to_pylist()
    codes = array.indices
    if words and tuple(words) != categories.words[: len(words)]:
        places = {word: place for place, word in enumerate(categories.words)}
        try:
            own = np.array([places[word] for word in words], np.int64)
        except KeyError as error:
            raise InvalidDataError(
                f"a word of a dictionary is not among the categories: {error}"
            ) from None
        mapping = pa.Array.from_buffers(pa.int64(), own.size, [None, pa.py_buffer(own)])
        import pyarrow.compute as pc  # slow to import

        codes = pc.take(mapping.cast(kind), codes)
    return codes if codes.type == kind else codes.cast(kind)
