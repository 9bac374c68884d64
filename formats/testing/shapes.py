"""Test tensors of every shape that a file may have to hold, by their special property."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - makes NumPy know bfloat16
import numpy as np

from lodcli.formats.core.format import Format
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, Decimals, Marks, Times

Content = dict[str, LoDTensor]

_FIVE = [[2, 0, 1], [1, 0, 2], [2, 1, 0], [1, 1, 2], [0, 3, 1, 2]]


def numbers(lengths: Sequence[Sequence[int]], dtype: Any = "int64", rows: int = 3) -> LoDTensor:
    """Return the numbers 1, 2, .. with these levels; `rows` of them without levels."""
    lod = LoD.from_lengths(lengths)
    count = rows if lod.rows is None else lod.rows
    return LoDTensor(np.arange(1, count + 1).astype(dtype), lod)


def shapes(dtype: Any = "int64") -> dict[str, Content]:
    """Return the test cases for every format; plain numbers have this dtype."""

    def one(tensor: LoDTensor) -> Content:
        return {"data": tensor}

    def of(*lengths: Sequence[int]) -> LoDTensor:
        return numbers(lengths, dtype)

    named = LoD.from_lengths([[1, 2], [2, 1, 1]], ["article", "sentence"])
    shared = LoD.from_lengths([[2, 1], [1, 2, 1]])
    first = LoDTensor(np.arange(1, 5).astype(dtype), shared)
    return {
        "no levels": one(of()),
        "one row": one(numbers([], dtype, 1)),
        "one row in one item": one(of([1])),
        "no rows": one(numbers([], dtype, 0)),
        "no items": one(of([])),
        "no items of two levels": one(of([], [])),
        "one level": one(of([2, 1, 3])),
        "empty items": one(of([0, 2, 0, 1, 0])),
        "nothing but empty items": one(of([0, 0])),
        "two levels": one(of([2, 1], [1, 2, 1])),
        "three levels": one(of([1, 1], [2, 1], [1, 2, 1])),
        "empties at each of two levels": one(of([0, 2, 1], [0, 2, 1])),
        "empties at each of five levels": one(of(*_FIVE)),
        "two equal levels": one(of([1, 1, 1], [1, 1, 1])),
        "names of levels": one(LoDTensor(np.arange(1, 5).astype(dtype), named)),
        "a Unicode name": {"Größe des Œuvre 数": of([2, 1])},
        "several tensors": {"data": of([2, 1]), "b": of([1, 2]), "a c.d": of([0, 1])},
        "one index for two": {"data": first, "b": LoDTensor(first.data[::-1].copy(), shared)},
        "a shared outer level": {
            "data": first,
            "b": LoDTensor(first.data[:3], shared.without_finest()),
        },
        "equal offsets at different depths": {
            "data": of([1, 1], [2, 1]),
            "b": of([2, 1], [1, 1, 1]),
        },
        "equal levels below different ones": {
            "data": of([2, 1], [1, 2, 1]),
            "b": of([1, 2], [1, 2, 1]),
        },
        "numbers and no levels": {"data": of([1, 2, 0]), "b": of()},
        "rows of three": one(
            LoDTensor(np.arange(1, 13).reshape(4, 3).astype(dtype), LoD.from_lengths([[3, 1]]))
        ),
        "rows of 2 x 2": one(LoDTensor(np.arange(1, 13).reshape(3, 2, 2).astype(dtype))),
        **_marked(one),
        **_nulls(one),
    }


def _marked(one: Any) -> dict[str, Content]:
    words = LoDTensor.from_lists(["Grüß Gott", "", "数"])
    letters = LoDTensor.from_lists(["GATTACA", "AC", "T"])
    titles = LoDTensor.from_lists(["first", "second", "third"])
    raw = LoDTensor(np.array([0, 255, 10, 44], np.uint8), LoD.from_lengths([[2, 0, 2]]), BYTES)
    days = LoDTensor(np.array([-1, 0, 20000]), marks=Marks(unit=Times("date", "D")))
    stamps = Marks(unit=Times("timestamp", "ms", "Europe/Zurich"))
    moments = LoDTensor(np.array([1, 2**40, -5]), LoD.from_lengths([[1, 2]]), stamps)
    prices = LoDTensor(np.array([150, -5, 0]), marks=Marks(unit=Decimals(10, 2)))
    labels = LoDTensor(np.array([2, 0, 2])).as_categories(["a", "never", "数"])
    return {
        "text": one(words),
        "letters": one(letters),
        "letters and titles": {"data": letters, "title": titles},
        "names of levels of text": one(
            LoDTensor.from_lists([["a", "b c"], ["d"]], names=("line", "word"))
        ),
        "texts in lists": one(LoDTensor.from_lists([["a b", ""], [], ["ü"]])),
        "no text": one(words[0:0]),
        "text beside numbers": {"data": words, "b": numbers([], "int64")},
        "bytes": one(raw),
        "dates": one(days),
        "moments in lists": one(moments),
        "decimals": one(prices),
        "categories": one(labels),
        "categories in lists": one(
            LoDTensor(np.array([1, 0, 1], np.int8), LoD.from_lengths([[2, 0, 1]])).as_categories(
                ["nein", "jä"], ordered=True
            )
        ),
        "rows of categories": one(LoDTensor(np.array([[0, 1], [1, 1]])).as_categories(["", "b c"])),
    }


def _nulls(one: Any) -> dict[str, Content]:
    return {
        "null numbers": one(LoDTensor.from_lists([1, None, 3])),
        "null numbers in lists": one(LoDTensor.from_lists([[1, None], [], [3]])),
        "null lists": one(LoDTensor.from_lists([[1, 2], None, []])),
        "null categories": one(LoDTensor.from_lists([1, None, 0]).as_categories(["a", "b"])),
        "null text": one(LoDTensor.from_lists(["a", None, ""])),
        "nulls beside numbers": {
            "data": LoDTensor.from_lists([1.5, None, 2.5]),
            "b": numbers([], "int64"),
        },
    }


def by_dtype(kind: Format) -> dict[str, Content]:
    """Return numbers of every dtype that a format holds; integers include their extremes."""
    found: dict[str, Content] = {}
    depth = max(kind.min_levels, 1 if kind.max_levels is None else min(1, kind.max_levels))
    for name in sorted(kind.dtypes):
        dtype = np.dtype(name)
        if dtype.kind in "iu":
            values = np.array([np.iinfo(dtype).min, 0, np.iinfo(dtype).max], dtype)
        else:
            values = np.array([0, 1, 0]).astype(dtype)
        lengths = [[1] * 2] * (depth - 1) + [[2, 1]] if depth else []
        found[f"numbers of {name}"] = {"data": LoDTensor(values, LoD.from_lengths(lengths))}
    return found
