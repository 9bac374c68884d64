"""`median` and `quantile` in expressions, against NumPy."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.choose.expression import Expression
from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.sorting.quantile import segment_quantile
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from tests.lodcli.conftest import Lod, filtered, tensor, write_jsonl

DTYPES = ["bool", "int8", "uint16", "int64", "uint64", "float16", "bfloat16", "float32", "float64"]
TEXTS = {"median(x)": 0.5, **{f"quantile(x, {q})": float(q) for q in ("0", "0.1", "0.75", "1")}}
NAN = float("nan")


def tensor_of(dtype: np.dtype[Any], width: int = 0) -> LoDTensor:
    """Return sequences of 0 to 40 rows, each with null rows, and null sequences."""
    rng = np.random.default_rng(9)
    lengths = rng.integers(0, 41, 60)
    lengths[:4] = [0, 1, 2, 0]
    shape = (lengths.sum(), width) if width else (lengths.sum(),)
    data = (rng.normal(size=shape) * 9).astype(np.int64).astype(dtype)
    if dtype.kind not in "biu":
        data = (rng.normal(size=shape) * 9).astype(dtype)
        data[rng.random(len(data)) < 0.005] = NAN
        data[rng.random(len(data)) < 0.005] = np.inf
    items = lengths > 0
    items[3] = True
    rows = rng.random(len(data)) < 0.9
    return LoDTensor(data, LoD.from_lengths([lengths]), nulls=Nulls.of([items, rows]))


@np.errstate(invalid="ignore")
def wanted(given: LoDTensor, q: float) -> list[Any]:
    """Return the quantile of each sequence, by NumPy; None of one without values."""
    found: list[Any] = []
    offsets, rows = given.lod.levels[0], given.nulls.rows
    assert rows is not None
    for start, stop in pairwise(offsets):
        values = given.values[start:stop][rows[start:stop]].astype(np.float64)
        found.append(np.quantile(values, q, axis=0) if len(values) else None)
    return found


def is_like(found: Any, expected: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether two quantiles are equal but for rounding to the dtype."""
    if found is None or expected is None:
        return found is None and expected is None
    near = np.asarray(expected).astype(dtype).astype(np.float64)
    tolerance = 1e-2 if dtype.itemsize == 2 else 1e-6 if dtype.itemsize == 4 else 1e-13
    return np.allclose(
        np.asarray(found).astype(np.float64), near, tolerance, tolerance, equal_nan=True
    )


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_quantiles_are_those_of_numpy(text: str, name: str) -> None:
    given = tensor_of(dtype_of_rows(name))
    expression = TensorExpression(text)
    expression.check(schema_of({"x": given}))
    applied = expression.of({"x": given})
    assert applied.dtype == (given.dtype if given.dtype.kind not in "biu" else np.float64)
    assert expression.nulls()
    chosen = Expression(text)
    chosen.check(schema_of({"x": given}))
    values = chosen.of_batch({"x": given}, 0, len(given))
    assert values.valid is not None
    assert applied.nulls.rows is not None
    for place, expected in enumerate(wanted(given, TEXTS[text])):
        if np.isinf(
            given.values[given.lod.levels[0][place] : given.lod.levels[0][place + 1]]
        ).any():
            continue  # NumPy's interpolation with inf is nan: see below
        one = applied.values[place] if applied.nulls.rows[place] else None
        two = values.data[place] if values.valid[place] else None
        assert is_like(one, expected, applied.dtype), place
        assert is_like(two, expected, applied.dtype), place


def test_quantiles_of_arrays_are_those_of_columns_and_in_filter_of_all() -> None:
    given = tensor_of(np.dtype(np.int32), width=3)
    applied = TensorExpression("quantile(x, 0.3)")
    applied.check(schema_of({"x": given}))
    found = applied.of({"x": given})
    for one, expected in zip(found.to_list(), wanted(given, 0.3), strict=True):
        assert is_like(one, expected, np.dtype(np.float64))
    chosen = Expression("quantile(x, 0.3)")
    chosen.check(schema_of({"x": given}))
    values = chosen.of_batch({"x": given}, 0, len(given))
    offsets, rows = given.lod.levels[0], given.nulls.rows
    assert rows is not None
    for place, (start, stop) in enumerate(pairwise(offsets)):
        flat = given.values[start:stop][rows[start:stop]].reshape(-1)
        if flat.size:
            assert values.data[place] == pytest.approx(np.quantile(flat, 0.3))


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [  # by hand: infinity is nearer to no value than another is
        ([1, np.inf], 0.5, np.inf),
        ([-np.inf, 1], 0.75, -np.inf),
        ([-np.inf, np.inf], 0.5, NAN),
        ([np.inf, np.inf, 1], 0.75, np.inf),
        ([1, 2, np.inf], 0.5, 2),
        ([1e308, -1e308], 0.5, 0),
        ([1, NAN, 2], 0, NAN),
        ([7], 0.123, 7),
    ],
)
def test_a_quantile_beside_infinity_is_the_limit(
    values: list[float], fraction: float, expected: float
) -> None:
    found = segment_quantile(np.array(values), np.array([0, len(values)]), fraction)
    np.testing.assert_array_equal(found, [expected])


def test_the_place_of_a_quantile_does_not_depend_on_the_sequences_before() -> None:
    count = 3_000_001
    data = np.arange(count, dtype=np.float64)
    found = segment_quantile(np.append(data, data[:7]), np.array([0, count, count + 7]), 0.1)
    assert found.tolist() == [np.quantile(data, 0.1), np.quantile(data[:7], 0.1)]


def test_quantiles_of_times_and_decimals_are_like_means(lod: Lod, folder: Path) -> None:
    lengths = [[3, 0, 2]]
    days = LoDTensor([1, 9, 3, 7, 8], lengths, Marks(unit=Times("date", "D")))
    waits = LoDTensor([4, 1, 2, 10, 20], lengths, Marks(unit=Times("duration", "ms")))
    prices = LoDTensor([150, 50, 250, 1, 2], lengths, Marks(unit=Decimals(10, 2)))
    io.write("t.lod.h5", {"day": days, "wait": waits, "price": prices})
    for text, expected in {
        "median(day)": [3, None, 7],  # a part of a day is cut
        "median(wait)": [2, None, 15],
        "quantile(wait, 0.25)": [1, None, 12],
        "median(price)": [1.5, None, 0.015],
    }.items():
        assert lod("apply", text, "t.lod.h5", "-fo", "o.lod.h5").code == 0, text
        found = tensor("o.lod.h5")
        rows = found.nulls.rows
        assert rows is not None
        numbers = [
            one if known else None for one, known in zip(found.values.tolist(), rows, strict=True)
        ]
        assert numbers == expected, text
    assert tensor("o.lod.h5").marks.unit is None
    for text, kept in {
        "median(day) == '1970-01-04'": 1,
        "median(wait) > 'PT0.002S'": 1,
        "quantile(price, 1) == 2.5": 1,
        "median(price) is None": 1,
        "median(wait) - median(wait) == 'PT0S'": 2,
    }.items():
        assert lod("filter", "t.lod.h5", text, "-qfo", "f.lod.h5").code == 0
        assert len(tensor("f.lod.h5", "day")) == kept, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "quantile(x)",
            "quantile takes an argument and a number from 0 to 1, as in quantile(x, 0.9)",
        ),
        ("quantile(x, 1.5)", "a number from 0 to 1"),
        ("quantile(x, 3/2)", "a number from 0 to 1"),
        ("quantile(x, 1/0)", "a number from 0 to 1"),
        ("quantile(x, 2**4000/2**4001)", "a number from 0 to 1"),
        ("quantile(x, x/2)", "a number from 0 to 1"),
        ("quantile(x, True)", "a number from 0 to 1"),
        ("quantile(x, x)", "a number from 0 to 1"),
        ("quantile(x, -1)", "a number from 0 to 1"),
        ("quantile(x, q=0.5)", "as in quantile(x, 0.9)"),
        ("median(x, 0.5)", "median takes one argument, as in median(x)"),
        ("median(c)", "no order"),
        ("median(k)", "median is not defined for category"),
        ("percentile(x, 90)", "write quantile(x, 0.9)"),
    ],
)
def test_an_invalid_quantile_is_an_error(lod: Lod, folder: Path, text: str, said: str) -> None:
    words = LoDTensor.from_lists([["a"], ["b"]])
    complexes = LoDTensor([1j, 2j], [[1, 1]])
    io.write("x.lod.h5", {"x": LoDTensor([1, 2], [[1, 1]]), "c": complexes, "k": words})
    assert lod("cast", "x.lod.h5", "k=category", "-qo", "y.lod.h5").code == 0
    for command in (["apply", text, "y.lod.h5"], ["filter", "y.lod.h5", f"{text} > 0"]):
        done = lod(*command, "-qo", "o.lod.h5")
        assert done.code == 2
        assert said in done.stderr


def test_the_fraction_may_be_a_quotient_or_a_power(lod: Lod, folder: Path) -> None:
    write_jsonl("x.jsonl", [{"x": [1, 2, 3, 4, 5]}, {"x": [9, 5]}])
    for written, number in {
        "1/2": 0.5,
        "2**-1": 0.5,
        "1 - 1/4": 0.75,
        "2**-1 * 3 / 2": 0.75,
        "90/100": 0.9,
        "0/3": 0.0,
        "3/3": 1.0,
    }.items():
        assert lod("apply", f"quantile(x, {written})", "x.jsonl", "-qfo", "o.lod.h5").code == 0
        wanted = [np.quantile(one, number) for one in ([1, 2, 3, 4, 5], [9, 5])]
        assert tensor("o.lod.h5").data.tolist() == wanted, written
        text = f"quantile(x, {written}) == {float(wanted[0])!r}"
        assert filtered(lod, text, "x.jsonl", "x") == [[1, 2, 3, 4, 5]], text
