"""Lookup of ids in an embedding table, torch's nn.Embedding, and its gradient.

    y[r] = table[ids[r]]        grad table[v] = sum of grad y[r] over all r with ids[r] = v

Rows with the same id are added in their order, so the sum does not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.places import branch_below
from lodcli.kernels.ops.arguments import require_float
from lodcli.kernels.ops.pooling.pool import segment_sum
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import VALUES, Marks, codes_of

# The name of the table in a state dict: that of a torch module with `embedding = nn.Embedding(..)`.
EMBEDDING = "embedding.weight"


@types_explained
def embed(ids: npt.ArrayLike, table: Array) -> Array:
    """Return the row of a table for each id.

    Args:
        ids: (N,) integers from 0 to V-1, in main memory.
        table: (V, D), floating point, in main memory or on a GPU.

    Returns:
        (N, D), in the dtype and the memory of the table.

    Raises:
        InvalidDataError: the ids are not a flat array of integers, or an id is out of range.
        ShapeMismatchError: the table is not (V, D).

    >>> embed([2, 0, 2], np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist()
    [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    """
    check_table(table)
    numbers = on_host(ids, "ids")
    check_ids(numbers, len(table))
    return _gathered(table, numbers.astype(np.int64, copy=False))


@types_explained
def embed_grad(upstream: Array, ids: npt.ArrayLike, vocabulary: int) -> Array:
    """Return the gradient of the table of `embed`: (vocabulary, D), zeros for unused ids.

    Args:
        upstream: (N, D), floating point, the gradient with respect to the result of `embed`.
        ids: (N,), those of `embed`.
        vocabulary: V, the number of rows of the table.

    Raises:
        InvalidDataError, ShapeMismatchError: see `embed`; or there are not N ids.

    >>> embed_grad(np.array([[1.0], [2.0], [4.0]]), [2, 0, 2], 4).tolist()
    [[2.0], [0.0], [5.0], [0.0]]
    """
    numbers = on_host(ids, "ids")
    check_ids(numbers, vocabulary)
    require_float(upstream, "upstream")
    if upstream.ndim != 2 or len(upstream) != len(numbers):
        raise ShapeMismatchError(
            f"upstream: expected shape ({len(numbers)}, D), a row for each id, found "
            f"{upstream.shape}"
        )
    numbers = numbers.astype(np.int64, copy=False)
    counts = np.bincount(numbers, minlength=vocabulary)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    rows = _gathered(upstream, np.argsort(numbers, kind="stable"))
    return on("auto", segment_sum, size_bytes=rows.nbytes)(rows, offsets)


def check_table(table: Array, width: int | None = None) -> None:
    """Raise an error unless `table` is (V, D), floating point; `width` is D, None: any."""
    require_float(table, EMBEDDING)
    if table.ndim != 2 or not table.size or width not in (None, table.shape[1]):
        expected = "D" if width is None else width
        raise ShapeMismatchError(f"{EMBEDDING}: expected (ids, {expected}), found {table.shape}")


def check_ids(
    ids: Array, vocabulary: int, offsets: Offsets | None = None, *, before: int = 0
) -> None:
    """Raise InvalidDataError unless `ids` are (N,) integers from 0 to vocabulary - 1.

    Args:
        offsets: of their sequences, for the message.
        before: the number of sequences before these, as in earlier batches of a file.
    """
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InvalidDataError(
            f"ids: expected whole numbers of shape (N,), found {ids.dtype} of shape {ids.shape}"
        )
    if not ids.size or (int(ids.min()) >= 0 and int(ids.max()) < vocabulary):
        return
    row = int(np.argmax((ids < 0) | (ids > vocabulary - 1)))
    where = f"position {row}"
    if offsets is not None:
        sequence, position = branch_below((offsets,), row)
        where = f"sequence {before + sequence}, position {position}"
    raise InvalidDataError(
        f"{where}: expected an id from 0 to {vocabulary - 1}, found {ids[row]}: the embedding has "
        f"{vocabulary} rows; train it with a larger vocabulary, or replace the id"
    )


def require_ids(dtype: np.dtype[Any], row_shape: tuple[int, ...], taker: str, remedy: str) -> None:
    """Raise InvalidDataError unless rows of a tensor are ids; `taker` is what needs them."""
    if dtype.kind not in "iu" or math.prod(row_shape) != 1:
        shape = f" of shape {row_shape}" if row_shape else ""
        raise InvalidDataError(
            f"expected ids, one whole number a row, for {taker}; found rows{shape} of {dtype}; "
            f"{remedy}"
        )


def id_of_code(words: tuple[str, ...], marks: Marks) -> Array | None:
    """Return the id of each category of a tensor, -1 for an unknown one; None if codes are ids.

    Args:
        words: those of all ids, in their order; () if they are unknown.
        marks: of the tensor.

    Raises:
        InvalidDataError: the ids are words, and the tensor is text, or bytes.
    """
    if words and marks.kind in VALUES:
        raise InvalidDataError(
            f"expected categories, for the ids of the embedding are {len(words)} words; found "
            f"{marks.kind}, whose bytes are other ids"
        )
    if not words or marks.categories is None or marks.categories.words == words:
        return None
    return codes_of(marks.categories.words, words)


def ids_of(tensor: LoDTensor, by_code: Array | None) -> Array:
    """Return the ids of a tensor of ids or categories: (N,).

    Args:
        by_code: the result of `id_of_code`.

    Raises:
        InvalidDataError: a row has an unknown category.
    """
    codes = tensor.data.reshape(-1)
    if by_code is None:
        return codes
    ids: Array = by_code[codes]
    known = tensor.marks.categories
    if known is not None and ids.min(initial=0) < 0:
        code = int(codes[np.argmin(ids)])
        raise InvalidDataError(
            f"category {code} is {known.words[code][:40]!r}, which the embedding does not have; "
            "leave it out, or train with it"
        )
    return ids


def _gathered(rows: Array, places: Offsets) -> Array:
    return rows_of_ranges(rows, places, np.arange(places.size + 1))
