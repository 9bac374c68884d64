"""`lod cast price=decimal(10, 2)`, against Python's decimals and pyarrow."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from shlex import split
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks
from tests.lodcli.conftest import Lod, tensor


def cast(lod: Lod, content: LoDTensor, kind: str, *flags: str) -> tuple[str, list[Any]]:
    io.write("in.lod.h5", {"x": content}, overwrite=True)
    done = lod("cast", "in.lod.h5", f"x={kind}", *flags, "-fo", "out.lod.h5")
    if done.code:
        return done.stderr, []
    return done.stderr, tensor("out.lod.h5", "x").to_list()


def shortest(value: Any) -> Decimal:
    """Return the decimal of the fewest digits that is read as a float; the nearest of these."""
    if value.dtype == np.float64:
        return Decimal(repr(float(value)))
    texts = (f"{Decimal(float(value)):.{digits}e}" for digits in range(10))
    with np.errstate(over="ignore"):
        return Decimal(next(one for one in texts if value.dtype.type(float(one)) == value))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("scale", [-2, 0, 2, 4, 6, 8, 12, 25])
@pytest.mark.parametrize(
    ("dtype", "digits"), [("float16", 5), ("bfloat16", 4), ("float32", 9), ("float64", 17)]
)
def test_a_float_is_the_decimal_of_its_shortest_text(
    lod: Lod, dtype: str, digits: int, scale: int
) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(-(10**digits), 10**digits, 500) // 10 ** rng.integers(0, digits, 500)
    texts = [f"{one}e{-scale}" for one in numbers.tolist()]
    halves = [f"{one}5e{-scale - 1}" for one in numbers.tolist()]
    with np.errstate(over="ignore"):
        values = np.array([float(one) for one in texts + halves])
        values = np.append(values, values / 1e5).astype(dtype_of_rows(dtype))
    values = values[np.isfinite(values) & (abs(values.astype(float)) < 9.0 * 10.0 ** (18 - scale))]
    power = Fraction(10) ** scale
    whole = [Fraction(shortest(one)) * power for one in values]
    # Others are rounded from the exact value, halves to even.
    rounded = [
        int(one) if one.denominator == 1 else round(Fraction(float(value)) * power)
        for one, value in zip(whole, values, strict=True)
    ]
    kind = f"decimal(38, {scale})"
    found = cast(lod, LoDTensor(values), kind, "--dtype-unsafe")
    assert found == ("", [Decimal(one).scaleb(-scale) for one in rounded])
    assert tensor("out.lod.h5", "x").marks.unit == Decimals(38, scale)
    exact = [one.denominator == 1 for one in whole]
    found = cast(lod, LoDTensor(values[exact]), kind)
    wanted = [Decimal(int(one)).scaleb(-scale) for one in whole if one.denominator == 1]
    assert found == ("", wanted)
    for value in values[~np.array(exact)][:1]:
        assert "is not exact in" in cast(lod, LoDTensor(np.array([value])), kind)[0]


@pytest.mark.usefixtures("folder")
def test_the_shortest_text_of_a_float_beyond_64_bits_may_be_within(lod: Lod) -> None:
    values = np.array([2.0**63, -(2.0**63)], np.float32)
    wanted = [Decimal("9.223372e18"), Decimal("-9.223372e18")]
    assert cast(lod, LoDTensor(values), "decimal(38, 0)") == ("", wanted)
    error, _ = cast(lod, LoDTensor(values.astype(float)), "decimal(38, 0)")
    assert "row 0: 9.223372036854776e+18 does not fit decimal(38, 0) and 64 bits" in error


@pytest.mark.usefixtures("folder")
def test_large_floats_too(lod: Lod) -> None:
    values = np.array([90071992547409.93, 1e15 + 0.5, -(2.0**50) - 0.25, 123456789012345.67])
    wanted = [Decimal(repr(one)) for one in values.tolist()]
    assert cast(lod, LoDTensor(values), "decimal(38, 2)", "--dtype-unsafe")[1] == wanted
    assert cast(lod, LoDTensor(values[:2]), "decimal(18, 2)")[1] == wanted[:2]


@pytest.mark.usefixtures("folder")
def test_rounded_floats_are_those_of_python(lod: Lod) -> None:
    values = np.random.default_rng(2).normal(size=2000) * 100
    values[:5] = [0.125, 0.375, 2.675, -0.125, 1e-30]
    found = cast(lod, LoDTensor(values), "decimal(10, 2)", "--dtype-unsafe")
    # Python rounds the exact value of a float, halves to even.
    wanted = [round(Decimal(one), 2) for one in values.tolist()]
    assert found == ("", wanted)
    below = cast(lod, LoDTensor(np.array([368.3351495])), "decimal(9, 6)", "--dtype-unsafe")
    assert below == ("", [Decimal("368.335149")])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([5, -7, 0], "decimal(6, 2)", ["5.00", "-7.00", "0.00"]),
        ([1500, -200], "decimal(6, -2)", ["1500", "-200"]),
        ([Decimal("1.50"), Decimal("-2.25")], "decimal(10, 4)", ["1.5000", "-2.2500"]),
        ([Decimal("1.50"), Decimal("-2.20")], "decimal64(10, 1)", ["1.5", "-2.2"]),
        (["12.5", "-.5", "1e2", "", "+3."], "decimal(6, 2)", ["12.50", "-0.50", "100", None, "3"]),
        ([[1.5, None], None, []], "decimal(4, 1)", [["1.5", None], None, []]),
        ([["1.5", None], None, []], "decimal(4, 1)", [["1.5", None], None, []]),
        ([0.5, None], "decimal(1, 1)", ["0.5", None]),
    ],
)
def test_numbers_decimals_and_texts(
    lod: Lod, values: list[Any], kind: str, wanted: list[Any]
) -> None:
    def decimals(one: Any) -> Any:
        if isinstance(one, list):
            return [decimals(each) for each in one]
        return None if one is None else Decimal(one)

    assert cast(lod, LoDTensor.from_lists(values), kind) == ("", decimals(wanted))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (
            [1.5, 1.255],
            "decimal(6, 2)",
            "x: row 1: 1.255 is not exact in decimal(6, 2); --dtype-un",
        ),
        ([1.5, 99999.5], "decimal(6, 2)", "x: row 1: 99999.5 does not fit decimal(6, 2)"),
        (
            [np.nan],
            "decimal(6, 2)",
            "x: row 0: nan is not a decimal(6, 2); lod apply 'x if x == x else N",
        ),
        ([np.inf], "decimal(6, 2)", "x: row 0: inf does not fit decimal(6, 2)"),
        (
            [1, 10**17],
            "decimal(38, 2)",
            "row 1: 100000000000000000 does not fit decimal(38, 2) and",
        ),
        ([3, 150], "decimal(4, -1)", "x: row 0: 3 is not exact in decimal(4, -1); --dtype-unsafe"),
        ([Decimal("1.55")], "decimal(4, 1)", "x: row 0: 1.55 is not exact in decimal(4, 1); --dty"),
        (["1.5", "1,5"], "decimal(4, 1)", "x: row 1: expected a number, found '1,5'"),
        (["1.5", "nan"], "decimal(4, 1)", "x: row 1: expected a number, found 'nan'"),
        (["1.25"], "decimal(4, 1)", "x: row 0: 1.25 is not exact in decimal(4, 1); --dtype-unsafe"),
        (["1e999999999"], "decimal(4, 1)", "x: row 0: 1e999999999 does not fit decimal(4, 1)"),
        (
            [["1.5"], ["x"]],
            "decimal(4, 1)",
            "x: level 0 item 1, row 0: expected a number, found 'x'",
        ),
        ([True], "decimal(4, 1)", "x: only text, numbers and decimals can be decimal(4, 1), this"),
        ([1.5], "decimal(39, 2)", ""),
        (
            [1.5],
            "decimal32(10, 2)",
            "expected a precision of 1 to 9, found 10; write for example x",
        ),
        ([1.5], "decimal", "TENSOR=text, category, decimal(10, 2)"),
    ],
)
def test_an_invalid_decimal_is_an_error(lod: Lod, values: list[Any], kind: str, said: str) -> None:
    error, _ = cast(lod, LoDTensor.from_lists(values), kind)
    assert said in error
    assert bool(said) == bool(error)
    assert Path("out.lod.h5").exists() == (not said)


@pytest.mark.usefixtures("folder")
def test_rounding_halves_to_even_as_pyarrow_does_not_for_texts(lod: Lod) -> None:
    values = ["0.125", "0.375", "-0.125", "0.1251", "1e-400"]
    found = cast(lod, LoDTensor.from_lists(values), "decimal(6, 2)", "--dtype-unsafe")[1]
    assert found == [Decimal(one).quantize(Decimal("0.01")) for one in values]
    digits = LoDTensor(np.array([125, 375, -125, 126]), marks=Marks(unit=Decimals(6, 3)))
    found = cast(lod, digits, "decimal(6, 2)", "--dtype-unsafe")[1]
    assert found == [Decimal(one) for one in ("0.12", "0.38", "-0.12", "0.13")]


@pytest.mark.usefixtures("folder")
def test_parquet_has_the_type_of_pyarrow(lod: Lod) -> None:
    pq.write_table(pa.table({"price": [12.5, None, 0.1], "n": [1, 2, 3]}), "t.parquet")
    assert lod(
        "cast", "t.parquet", "price=decimal(10,2)", "n=decimal256(50)", "-o", "o.parquet"
    ).clean
    table = pq.read_table("o.parquet")
    wanted = pa.array([12.5, None, 0.1]).cast(pa.decimal128(10, 2))
    assert table["price"].combine_chunks().equals(wanted)
    assert table["n"].to_pylist() == [Decimal(1), Decimal(2), Decimal(3)]


@pytest.mark.usefixtures("folder")
def test_texts_that_arrow_parses_are_those_of_python(lod: Lod) -> None:
    """Arrow parses texts unless one must be rounded: then Python does."""
    rng = np.random.default_rng(5)
    numbers = [Decimal(int(one)).scaleb(-2) for one in rng.integers(-(10**17), 10**17, 300)]
    texts = [*map(str, numbers), "", "-0.5", "+7.", "-92233720368547758.07"]
    wanted = [None if one == "" else Decimal(one) for one in texts]
    assert cast(lod, LoDTensor.from_lists(texts), "decimal(38, 2)") == ("", wanted)
    rounded = cast(lod, LoDTensor.from_lists([*texts, "0.001"]), "decimal(38, 2)", "--dtype-unsafe")
    assert rounded == ("", [*wanted, Decimal(0)])
    error, _ = cast(lod, LoDTensor.from_lists([*texts, "92233720368547758.08"]), "decimal(38, 2)")
    assert "row 304: 92233720368547758.08 does not fit decimal(38, 2) and 64 bits" in error


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        (str(2**128), "decimal(38, 0)", "does not fit decimal(38, 0) and 64 bits"),
        (str(2**128 + 500), "decimal(38, 0)", "does not fit decimal(38, 0) and 64 bits"),
        (f"-{2**192 + 7}.5", "decimal(38, 1)", "does not fit decimal(38, 1) and 64 bits"),
        (str(10**20), "decimal(38, 38)", "does not fit decimal(38, 38) and 64 bits"),
        ("1.e-888", "decimal(4, 1)", "is not exact in decimal(4, 1); --dtype-unsafe rounds it"),
        ("1e-41", "decimal(4, 2)", "is not exact in decimal(4, 2); --dtype-unsafe rounds it"),
        ("1E-61", "decimal(4, 2)", "is not exact in decimal(4, 2); --dtype-unsafe rounds it"),
        ("1e3", "decimal(6, 2)", Decimal(1000)),
        (f"{'0' * 40}1.5", "decimal(4, 1)", Decimal("1.5")),
        (f"1.5{'0' * 40}", "decimal(4, 1)", Decimal("1.5")),
    ],
)
def test_texts_that_arrow_would_wrap_around(
    lod: Lod, text: str, kind: str, wanted: str | Decimal
) -> None:
    """Arrow computes them in 128 bits, without an error."""
    error, found = cast(lod, LoDTensor.from_lists(["0", text]), kind)
    if isinstance(wanted, Decimal):
        assert (error, found) == ("", [Decimal(0), wanted])
    else:
        assert f"x: row 1: {text[:40]} {wanted}" in error


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("scale", [-1, -2, -3, -5, -10, -18, -19, -20, 0, 1])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_whole_numbers_of_any_width_are_rounded(lod: Lod, dtype: str, scale: int) -> None:
    info = np.iinfo(dtype)
    span = range(-150, 150) if info.bits == 8 else (25, 50, 75, 150, 500, 25000, 15 * 10**9)
    numbers = [info.min, info.max, *(one for one in span if info.min <= one <= info.max)]
    numbers = [one for one in numbers if abs(one) * 10.0**scale < 2**63]
    values = np.array(numbers, dtype)
    wanted = [round(Fraction(one) * Fraction(10) ** scale) for one in numbers]
    kind = f"decimal(38, {scale})"
    found = cast(lod, LoDTensor(values), kind, "--dtype-unsafe")
    assert found == ("", [Decimal(one).scaleb(-scale) for one in wanted])
    exact = [one % 10 ** max(-scale, 0) == 0 for one in numbers]
    found = cast(lod, LoDTensor(values[exact]), kind)
    assert found == ("", [Decimal(one) for one in values[exact].tolist()])
    for value in values[~np.array(exact)][:1]:
        assert f"{value} is not exact in" in cast(lod, LoDTensor(np.array([value])), kind)[0]


@pytest.mark.usefixtures("folder")
def test_all_digits_of_decimals_can_be_rounded_away(lod: Lod) -> None:
    values = np.array([4 * 10**18, 5 * 10**18, 6 * 10**18, -(2**63) + 1])
    digits = LoDTensor(values, marks=Marks(unit=Decimals(38, 19)))
    found = cast(lod, digits, "decimal(38, 0)", "--dtype-unsafe")[1]
    assert found == [Decimal(one) for one in (0, 0, 1, -1)]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["price", "a-b"])
def test_the_remedy_for_nan_works_and_names_the_tensor(lod: Lod, name: str) -> None:
    io.write("in.lod.h5", {name: LoDTensor(np.array([1.5, np.nan])), "n": LoDTensor(np.arange(2))})
    error = lod("cast", "in.lod.h5", f"{name}=decimal(4, 1)", "-o", "out.lod.h5").stderr
    assert f"{name}: row 1: nan is not a decimal(4, 1); lod apply " in error
    (expression,) = split(error.split("lod apply ")[1].removesuffix(" makes nulls\n"))
    assert lod("apply", expression, "in.lod.h5", "--into", name, "-o", "nulls.lod.h5").code == 0
    assert lod("cast", "nulls.lod.h5", f"{name}=decimal(4, 1)", "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", name).to_list() == [Decimal("1.5"), None]
