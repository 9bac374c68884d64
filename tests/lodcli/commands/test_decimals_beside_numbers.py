"""Decimals beside whole numbers of all widths, conditions and numbers, against fractions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.choose.expression import Expression
from lodcli.expressions.parsing import ExpressionError
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks
from tests.lodcli.conftest import Lod

D = Decimal
WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SCALES = {"p": 2, "q": 0, "r": 3}
ROWS = 12


def columns() -> dict[str, LoDTensor]:
    """Return decimals of each scale, and numbers of each dtype, with its ends."""
    rng = np.random.default_rng(5)
    found = {}
    for name, scale in SCALES.items():
        unit = Decimals(9, scale)
        digits = rng.integers(-(10**4), 10**4, ROWS)
        found[name] = LoDTensor(digits, marks=Marks(unit=unit))
    for name in WHOLE:
        dtype = np.dtype(name)
        values = rng.integers(0, 2 if name == "bool" else 120, ROWS).astype(dtype)
        if dtype.itemsize < 8 and name != "bool":
            values[:2] = np.iinfo(dtype).max, np.iinfo(dtype).min
        if dtype.kind == "i":
            values[2:6] *= -1
        found[name] = LoDTensor(values)
    found["int64"].data[:2] = 2**62, -(2**61)
    return found


COLUMNS = columns()
SCHEMA = schema_of(COLUMNS)
EXACT = {
    name: [Fraction(int(one)) / 10 ** SCALES.get(name, 0) for one in tensor.data]
    for name, tensor in COLUMNS.items()
}


@dataclass(frozen=True)
class Part:
    """A part of an expression.

    Attributes:
        text: as it is written.
        values: of each row.
        scale: the digits after the point; None of whole numbers and conditions.
        others: those of which a choice picked none, but whose digits are computed.
        fits: whether the digits of all that it is computed from fit 64 bits.
    """

    text: str
    values: list[Fraction]
    scale: int | None
    others: tuple[Fraction, ...] = ()
    fits: bool = True


def made(
    text: str, function: Callable[..., Any], parts: list[Part], scale: int | None, joint: int
) -> Part:
    """Return a function of parts, of which `joint` digits after the point are computed."""
    values = [Fraction(function(*row)) for row in zip(*(one.values for one in parts), strict=True)]
    given = [value for one in parts for value in (*one.values, *one.others)]
    held = all(abs(value) * 10**joint < 2**63 for value in (*given, *values))
    others = tuple(given) if text.startswith((*PICKS,)) else ()
    return Part(text, values, scale, others, held and all(one.fits for one in parts))


def number(text: str) -> Part:
    return Part(text, [Fraction(text)] * ROWS, None)


def column(name: str) -> Part:
    return Part(name, EXACT[name], SCALES.get(name))


leaves = st.sampled_from([*map(column, WHOLE), *map(number, ("3", "-2", "3.0", "200", "70000"))])
leaves |= st.just(Part("True", [Fraction(1)] * ROWS, None))
decimals = st.sampled_from([column(name) for name in SCALES])
# Numbers are decimals with the digits that they need.
fractions = st.sampled_from([Part(one, [Fraction(one)] * ROWS, 1) for one in ("0.5", "2.50")])
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
DIVISIONS = {"//": lambda a, b: Fraction(a // b), "%": operator.mod}
PICKS: dict[str, Callable[..., Any]] = {"maximum": max, "minimum": min}


def of_sign(draw: st.DrawFn, one: Part) -> Part:
    """Draw the negative or the absolute values of a part."""
    name = draw(st.sampled_from(("-", "abs")))
    function = operator.neg if name == "-" else abs
    return made(f"{name}({one.text})", function, [one], one.scale, one.scale or 0)


@st.composite
def wholes(draw: st.DrawFn, depth: int) -> Part:
    """Draw whole numbers, also those that a dtype of floats has outside of decimals."""
    kind = draw(st.sampled_from(("leaf", "operator", "division", "minus", "pick", "if", "compare")))
    if not depth or kind == "leaf":
        return draw(leaves)
    one = draw(wholes(depth - 1))
    if kind == "minus":
        return of_sign(draw, one)
    if kind == "division":
        sign = draw(st.sampled_from([*DIVISIONS]))
        other = number(draw(st.sampled_from(("2.0", "3", "-7"))))
        return made(f"({one.text} {sign} {other.text})", DIVISIONS[sign], [one, other], None, 0)
    if kind == "compare":
        left, right = draw(st.sampled_from([*map(column, WHOLE)])), draw(leaves)
        return made(f"({left.text} > {right.text})", operator.gt, [left, right], None, 0)
    return joined(draw, kind, one, draw(wholes(depth - 1)))


@st.composite
def exact(draw: st.DrawFn, depth: int) -> Part:
    """Draw decimals."""
    kind = draw(st.sampled_from(("leaf", "operator", "division", "minus", "pick", "if", "step")))
    if not depth or kind == "leaf":
        return draw(decimals)
    one = draw(exact(depth - 1))
    scale = one.scale or 0
    if kind == "minus":
        return of_sign(draw, one)
    if kind == "step":
        name = draw(st.sampled_from(("floor", "round")))
        step: Callable[..., Any] = round if name == "round" else lambda a: a // 1
        return made(f"{name}({one.text})", step, [one], 0, scale)
    if kind == "division":
        sign = draw(st.sampled_from([*DIVISIONS]))
        other = number(draw(st.sampled_from(("0.3", "3.0", "-7"))))
        joint = max(scale, 1 if other.text == "0.3" else 0)
        text = f"({one.text} {sign} {other.text})"
        return made(text, DIVISIONS[sign], [one, other], joint if sign == "%" else 0, joint)
    two = draw(wholes(depth - 1) | exact(depth - 1) | fractions)
    return joined(draw, kind, *draw(st.permutations((one, two))))


def joined(draw: st.DrawFn, kind: str, one: Part, two: Part) -> Part:
    """Draw a sum, a difference, a product or a choice of two parts."""
    scales = one.scale or 0, two.scale or 0
    scale, has_decimals = max(scales), (one.scale, two.scale) != (None, None)
    if kind == "operator":
        sign = draw(st.sampled_from([*OPERATORS]))
        scale = sum(scales) if sign == "*" else scale
        text, function = f"({one.text} {sign} {two.text})", OPERATORS[sign]
    elif kind == "pick":
        name = draw(st.sampled_from([*PICKS]))
        text, function = f"{name}({one.text}, {two.text})", PICKS[name]
    else:
        asked = column("int8")
        text = f"({one.text} if int8 > 3 else {two.text})"
        found = made(text, lambda a, b, c: a if c > 3 else b, [one, two, asked], None, scale)
        others = (*one.values, *one.others, *two.values, *two.others)
        return replace(found, scale=scale if has_decimals else None, others=others)
    return made(text, function, [one, two], scale if has_decimals else None, scale)


@given(exact(4))
def test_decimals_are_as_exact_as_fractions(part: Part) -> None:
    of_tensors, of_items = TensorExpression(part.text), Expression(part.text)
    failure = ""
    try:
        of_tensors.check(SCHEMA)
        of_items.check(SCHEMA)
        results = [of_tensors.of(COLUMNS).values, of_items.of_batch(COLUMNS, 0, ROWS).data]
    except ExpressionError as error:
        failure, results = str(error), []
    if failure:
        assert "does not fit decimal" in failure, part.text
        assert not part.fits, (part.text, failure)
        return
    unit = of_tensors.marks_of(of_tensors.tree)[1].unit
    assert isinstance(unit, Decimals), part.text
    assert unit.scale == part.scale, part.text
    for found in results:
        assert found.dtype == np.int64, part.text
        assert [Fraction(int(one)) / 10**unit.scale for one in found] == part.values, part.text


LISTS = pa.list_(pa.decimal128(18, 2))


@pytest.fixture
def small(folder: None) -> None:
    pq.write_table(
        pa.table(
            {
                "p": [D("0.10"), D("2.50")],
                "z": pa.array([D(7), D(-3)], pa.decimal128(6, 0)),
                "n": pa.array([300, 3], pa.int16()),
                "q": pa.array([200, 1], pa.uint8()),
                "i": pa.array([5, 2**61], pa.int64()),
                "u": pa.array([9, 1], pa.uint64()),
                "b": [True, False],
                "ns": pa.array([[300, 200], [1]], pa.list_(pa.int16())),
                "wide": pa.array([[2**62], [2**62, 2**62]], pa.list_(pa.int64())),
            }
        ),
        "d.parquet",
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n * 1000 * p", ["30000.00", "7500.00"]),
        ("n * n * p", ["9000.00", "22.50"]),
        ("-q * p", ["-20.00", "-2.50"]),
        ("abs(-q) * p", ["20.00", "2.50"]),
        ("p + n * 3.0", ["900.10", "11.50"]),
        ("p * (n + 1.0)", ["30.10", "10.00"]),
        ("maximum(n * 1.0, p)", ["300.00", "3.00"]),
        ("maximum(n, 2.5) + p", ["300.10", "5.50"]),
        ("p * (n // 2.0)", ["15.00", "2.50"]),
        ("p + (3.0 // 2)", ["1.10", "3.50"]),
        ("minimum(b + 3.0, z % 2)", ["1", "1"]),
        ("p - maximum(u, z)", ["-8.90", "1.50"]),
        ("p + coalesce(u, z)", ["9.10", "3.50"]),
        ("p * True + -True", ["-0.90", "1.50"]),
        ("p * sum(ns * ns)", ["13000.00", "2.50"]),
        ("p + sum(ns * 2.0)", ["1000.10", "4.50"]),
        ("p * any(ns > 200)", ["0.10", "0.00"]),
        ("p * any(ns * 0.5)", ["0.10", "2.50"]),
        ("p * isnan(n * 0.5)", ["0.00", "0.00"]),
        ("p * isfinite(n)", ["0.10", "2.50"]),
        ("p * n" + " * 1" * 1500, ["30.00", "7.50"]),
        ("n" + " + 0" * 2000 + " + p", ["300.10", "5.50"]),
    ],
)
def test_whole_numbers_below_decimals_are_exact(
    lod: Lod, small: None, text: str, wanted: list[str]
) -> None:
    assert lod("apply", text, "d.parquet", "-qo", "o.parquet").clean
    assert pq.read_table("o.parquet").column(0).to_pylist() == [D(one) for one in wanted]
    assert lod("filter", "d.parquet", f"{text} == {wanted[0]}", "-qo", "f.parquet").code == 0
    kept = [one == wanted[0] for one in wanted]
    assert pq.read_table("f.parquet").num_rows == sum(kept)


@pytest.mark.parametrize("text", ["i * 8 * p", "p + sum(wide)", "p * (i + i + i + i)"])
def test_whole_numbers_beyond_64_bits_below_decimals_are_an_error(
    lod: Lod, small: None, text: str
) -> None:
    for line in (["apply", text, "d.parquet"], ["filter", "d.parquet", f"{text} > 0"]):
        done = lod(*line, "-qo", "o.parquet")
        assert done.code == 2
        assert "does not fit decimal" in done.stderr
        assert done.stderr.count("column") == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("p * 0.1234567890123456789", "0.1234567890123456789"),
        ("9223372036854775808 + p", "9223372036854775808"),
        ("coalesce(p, -0.1234567890123456789)", "-0.1234567890123456789"),
        ("minimum(p, 9223372036854775808 * 2)", "9223372036854775808 * 2"),
    ],
)
def test_numbers_beyond_64_bits_beside_decimals_are_an_error(
    lod: Lod, small: None, text: str, number: str
) -> None:
    for line in (["apply", text, "d.parquet"], ["filter", "d.parquet", f"{text} > 0"]):
        done = lod(*line, "-qo", "o.parquet")
        assert done.code == 2
        assert f"{number}: the number does not fit a decimal, whose digits have" in done.stderr
        assert "lod cast p=float64" in done.stderr
    assert lod("apply", "p * 1e30 + 1e-30", "d.parquet", "-qo", "o.parquet").clean
    assert pq.read_table("o.parquet").column(0).type == pa.float64()


def test_columns_beyond_64_bits_are_compared_with_decimals(lod: Lod, folder: None) -> None:
    u = pa.array([2**64 - 1, 1], pa.uint64())
    pq.write_table(pa.table({"p": [D("2.50"), D("2.50")], "u": u}), "d.parquet")
    for text in ("u > p", "maximum(u, 1) > p", "coalesce(u, 0) > p"):
        assert lod("apply", text, "d.parquet", "-qfo", "o.parquet").clean, text
        assert pq.read_table("o.parquet").column(0).to_pylist() == [True, False], text


@pytest.mark.parametrize("text", ["sum(ps)", "cumsum(ps)", "diff(ps)"])
def test_sums_overflow_by_themselves_and_not_by_the_batch(
    lod: Lod, folder: None, text: str
) -> None:
    great = D("50000000000000.00")
    lists = pa.array([[great]] * 2000 + [[great, -great] * 1000], LISTS)
    pq.write_table(pa.table({"ps": lists}), "d.parquet")
    assert lod("apply", text, "d.parquet", "-qo", "o.parquet").clean
    found = pq.read_table("o.parquet").column(0).to_pylist()
    first = {"sum(ps)": great, "cumsum(ps)": [great], "diff(ps)": []}
    assert found[:2000] == [first[text]] * 2000
    last = {"sum(ps)": D("0.00"), "cumsum(ps)": D("0.00"), "diff(ps)": -2 * great}
    assert (found[-1] if text == "sum(ps)" else found[-1][-1]) == last[text]


def test_sums_of_a_filter_overflow_by_themselves(lod: Lod, folder: None) -> None:
    great = D("50000000000000.00")
    lists = pa.array([[great, -great] * 1000, [great]], LISTS)
    pq.write_table(pa.table({"ps": lists}), "d.parquet")
    assert lod("filter", "d.parquet", f"sum(ps) == {great}", "-qo", "o.parquet").code == 0
    assert pq.read_table("o.parquet").num_rows == 1


@pytest.mark.parametrize("text", ["cumsum(ps)", "sum(ps)", "diff(ps)"])
def test_overflows_of_sums_are_errors_with_one_column(lod: Lod, folder: None, text: str) -> None:
    great = D("90000000000000000.00") / 2
    lists = pa.array([[-great, great, great, great]], pa.list_(pa.decimal128(19, 2)))
    pq.write_table(pa.table({"ps": lists}), "d.parquet")
    text = text.replace("ps", "ps * 2" if "diff" in text else "ps + ps")
    done = lod("apply", text, "d.parquet", "-qo", "o.parquet")
    assert done.code == 2
    assert "does not fit decimal" in done.stderr
    assert done.stderr.count("column") == 1


@pytest.mark.parametrize("op", ["sum", "max", "first"])
@pytest.mark.parametrize("value", ["1", "0.5"])
def test_a_pad_value_counts_as_the_decimals(lod: Lod, folder: None, op: str, value: str) -> None:
    lists = pa.array([[D("7.10"), D("0.20")], []], LISTS)
    pq.write_table(pa.table({"ps": lists}), "d.parquet")
    for line in ([f"{op}(ps, pad_value={value})"], [op, "--pad-value", value]):
        assert lod("apply", line[0], "d.parquet", *line[1:], "-qfo", "o.parquet").clean, line
        assert pq.read_table("o.parquet").column(0).to_pylist()[1] == D(value)
    done = lod("apply", f"{op}(ps, pad_value=0.125)", "d.parquet", "-qfo", "o.parquet")
    assert done.code == 2
    assert "0.125 is not a decimal" in done.stderr
