"""round(x, DIGITS) in expressions, against Polars, NumPy and decimal."""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np
import pytest

from lodcli.expressions.functions import rounded_to
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, tensor

NUMBERS = [0.125, 0.375, -0.125, 1.005, 2.675, 1e15 + 0.3, 1e300, -1e308, 5e-324, 123.456, 0.0]


@pytest.mark.parametrize("digits", [0, 1, 2, 5, 18])
def test_floats_are_rounded_as_in_polars(lod: Lod, folder: Path, digits: int) -> None:
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(digits)
    drawn = rng.normal(size=2000) * 10.0 ** rng.integers(-3, 8, 2000)
    x = np.concatenate([NUMBERS, drawn, np.round(drawn, digits + 1)])
    io.write("t.lod.h5", {"x": LoDTensor(x), "f": LoDTensor(drawn.astype(np.float32))})
    found = applied(lod, f"round(x, {digits})")
    wanted = polars.Series(x).round(digits, mode="half_to_even").to_numpy()
    with np.errstate(over="ignore"):
        wanted = np.where(np.abs(x * 10.0**digits) < 2.0**52, wanted, x)  # Polars changes these
    assert found == wanted.tolist()
    narrow = polars.Series(drawn.astype(np.float32)).round(digits, mode="half_to_even")
    assert applied(lod, f"round(f, {digits})") == narrow.to_list()
    assert tensor("out.lods").dtype == np.float32


def test_numbers_without_digits_to_round_stay(lod: Lod, folder: Path) -> None:
    whole = np.array([2**53, 2**53 - 1, -(2.0**60), np.inf, -np.inf])
    assert rounded_to(whole, 18).tolist() == whole.tolist()
    numbers = np.array([2**63 - 1, -(2**63), 7])
    halves = LoDTensor(np.array([0.004, 0.006, 6e4], np.float16))
    io.write("t.lod.h5", {"n": LoDTensor(numbers), "h": halves, "b": LoDTensor(numbers > 0)})
    assert applied(lod, "round(n, 2)") == numbers.tolist()
    assert applied(lod, "round(b, 2)") == [1, 0, 1]
    assert applied(lod, "round(h, 2)") == np.array([0, 0.01, 6e4], np.float16).tolist()


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 4])
def test_decimals_are_rounded_exactly(lod: Lod, folder: Path, digits: int) -> None:
    numbers = [Decimal(n) / 1000 for n in (0, 5, 15, 25, 125, 150, 250, -125, -5, 999, 123456)]
    io.write("t.lod.h5", {"p": LoDTensor.from_lists(numbers), "n": LoDTensor(np.arange(11))})
    wanted = [one.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN) for one in numbers]
    assert applied(lod, f"round(p, {digits})") == (wanted if digits < 3 else numbers)
    assert lod("filter", "t.lod.h5", f"round(p, {digits}) == p", "-fo", "kept.lods").clean
    kept = [one for one, other in zip(numbers, wanted, strict=True) if one == other]
    assert tensor("kept.lods", "p").to_list() == kept
    assert applied(lod, f"round(p, {digits}) + n") == [
        one + n for n, one in enumerate(wanted if digits < 3 else numbers)
    ]


ERRORS = {
    "round(x, -2)": "column 10: expected a number of digits from 0 to 18, as in round(x, 2); "
    "round(x / 100) * 100 rounds to hundreds",
    "round(x, 19)": "column 10: expected a number of digits from 0 to 18",
    "round(x, x)": "column 10: expected a number of digits",
    "round(x, 1.5)": "column 10: expected a number of digits",
    "round(x, digits=1)": "column 1: expected a number of digits",
    "round(x, 1, 2)": "column 1: expected a number of digits",
    "round(wait, 1)": "column 1: round is not defined for duration[us]; write wait / 'PT1S'",
    "round(p, -2)": "column 10: expected a number of digits",
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_shows_the_place(lod: Lod, folder: Path, text: str) -> None:
    tensors = {
        "x": LoDTensor(np.array([1.5])),
        "wait": LoDTensor.from_lists([timedelta(seconds=90)]),
        "p": LoDTensor.from_lists([Decimal("1.25")]),
    }
    io.write("t.lod.h5", tensors)
    done = lod("filter", "t.lod.h5", f"{text} == 1", "-o", "out.lods")
    assert done.code == 2
    assert ERRORS[text] in done.stderr
