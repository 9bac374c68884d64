"""Comparisons of `lod filter` and `lod apply` with a number, against fractions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.expression import TensorExpression
from lodcli.commands.choose.expression import Expression
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WHOLE = [0, 1, 2, -1, 127, 128, -129, 255, 256, 257, 2049, 65504, 65519, 65520, 70000, -70000]
WHOLE += [2**24 + 1, -(2**24) - 1, 2**31, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63]
NUMBERS: list[int | float] = [*WHOLE, 2**64 - 1, 2.5, -0.5, 0.1, 127.5, 255.5, 65519.9, 70000.0]
NUMBERS += [-70000.0, 1e39, -1e300, 2.0**53, 1.8446744073709552e19, -9.3e18]
DTYPES = ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


def values_of(dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return all numbers that the dtype holds, and their neighbours."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [number + step for number in WHOLE for step in (-1, 0, 1)]
        held = [one for one in (*near, info.min, info.max) if info.min <= one <= info.max]
        return np.array(held, dtype)
    with np.errstate(all="ignore"):
        near_floats = np.array([*map(float, NUMBERS), np.inf, -np.inf, np.nan]).astype(dtype)
        ends = [np.nextafter(near_floats, dtype.type(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([near_floats, *ends])


def exact(value: Any) -> Fraction | float:
    """Return a number as a fraction, and nan and infinity as they are."""
    if isinstance(value, int | np.integer | np.bool_):
        return Fraction(int(value))
    return Fraction(float(value)) if np.isfinite(value) else float(value)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sign", COMPARISONS)
def test_a_comparison_with_a_number_is_exact(name: str, sign: str) -> None:
    dtype = dtype_of_rows(name)
    data = values_of(dtype)
    tensor = LoDTensor(data)
    for number in NUMBERS:
        right = exact(number)
        if isinstance(number, float) and dtype.kind in "fV":
            with np.errstate(all="ignore"):
                near = np.asarray(number).astype(dtype)
            right = exact(near) if np.isfinite(near) else right  # 0.1 is that of the dtype
        wanted = [COMPARISONS[sign](exact(value), right) for value in data]
        mirrored = [COMPARISONS[sign](right, exact(value)) for value in data]
        for text, expected in ((f"x {sign} {number}", wanted), (f"{number} {sign} x", mirrored)):
            found = Expression(text).values({"x": (LoD(), data)}, len(data)).data
            assert found.tolist() == expected, text
            assert TensorExpression(text).of({"x": tensor}).data.tolist() == expected, text
        if sign == "==":
            text = f"x in ({number},)"
            assert TensorExpression(text).of({"x": tensor}).data.tolist() == wanted, text


@pytest.mark.parametrize("floats", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("whole", ["int16", "uint32", "int64", "uint64"])
def test_a_comparison_of_whole_numbers_with_floats_is_exact(whole: str, floats: str) -> None:
    x, y = (values_of(dtype_of_rows(name)) for name in (whole, floats))
    x, y = x.repeat(len(y)), np.tile(y, len(x))
    for sign, compare in COMPARISONS.items():
        wanted = [compare(exact(a), exact(b)) for a, b in zip(x, y, strict=True)]
        mirrored = [compare(exact(b), exact(a)) for a, b in zip(x, y, strict=True)]
        for text, expected in ((f"x {sign} y", wanted), (f"y {sign} x", mirrored)):
            given = {"x": (LoD(), x), "y": (LoD(), y)}
            assert Expression(text).values(given, len(x)).data.tolist() == expected, text
            tensors = {"x": LoDTensor(x), "y": LoDTensor(y)}
            assert TensorExpression(text).of(tensors).data.tolist() == expected, text


def test_exact_comparisons_keep_nulls_and_are_broadcast() -> None:
    ids = LoDTensor.from_lists([[2**53 + 1, None], None, [3]])
    limit = LoDTensor(np.array([2.0**53, 1.0, 3.0]))
    found = TensorExpression("ids > limit").of({"ids": ids, "limit": limit})
    assert found.to_list() == [[True, None], None, [False]]
    rows = LoDTensor(np.array([[2**53 + 1, 2**53]]))
    assert TensorExpression("x == y").of(
        {"x": rows, "y": LoDTensor(np.array([[2.0**53, 2.0**53]]))}
    ).data.tolist() == [[False, True]]
    given = {
        "x": (LoD.from_lengths([[2, 1]]), np.array([2**53 + 1, 5, 7])),
        "y": (LoD(), limit.data[:2]),
    }
    assert Expression("any(x == y)").values(given, 2).data.tolist() == [False, False]
    assert Expression("all(x > y)").values(given, 2).data.tolist() == [False, True]


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_a_number_with_a_point_is_that_of_complex_numbers(name: str) -> None:
    with np.errstate(over="ignore"):
        data = np.array([0.1, 0.1 + 1j, 1e39, np.inf, 2**24 + 1, 2**24], name)
    for text, wanted in (
        ("x == 0.1", [True, *[False] * 5]),
        ("0.1 != x", [False, *[True] * 5]),
        ("x == 1e39", [False, False, name == "complex128", False, False, False]),
        ("x == 16777217", [*[False] * 4, name == "complex128", False]),
    ):
        found = Expression(text).values({"x": (LoD(), data)}, len(data)).data
        assert found.tolist() == wanted, text
        assert TensorExpression(text).of({"x": LoDTensor(data)}).data.tolist() == wanted, text


def test_sums_beyond_64_bits_are_compared_exactly_with_floats() -> None:
    """In `lod filter`, whose whole numbers are wider."""
    u = np.array([2**63, 2**63 + 512, 2**63 + 2048], np.uint64)
    floats = np.array([2.0**64, 2.0**64, 2.0**64 + 4096])
    of_items = {"u": LoDTensor(u), "f": LoDTensor(floats)}
    for text, wanted in {
        "u + u == f": [True, False, True],
        "u + u > f": [False, True, False],
    }.items():
        assert Expression(text).of_batch(of_items, 0, 3).data.tolist() == wanted, text


@pytest.mark.parametrize("name", DTYPES)
def test_a_comparison_with_a_number_beyond_64_bits_is_exact(name: str) -> None:
    dtype = dtype_of_rows(name)
    numbers = [2**64, -(2**63) - 1, 10**29, -(10**30) - 1, int(2.0**100), 2**127 + 1, 10**400]
    values = values_of(dtype)
    if dtype.kind not in "biu":
        with np.errstate(all="ignore"):
            near = np.array([float(one) for one in numbers[:-1]]).astype(dtype)
        values = np.concatenate([values, near, np.nextafter(near, dtype.type(0))])
    tensor = LoDTensor(values)
    for number in numbers:
        for sign, compare in COMPARISONS.items():
            wanted = [compare(exact(one), number) for one in values]
            text = f"x {sign} {number}"
            found = Expression(text).of_batch({"x": tensor}, 0, len(values)).data
            assert found.tolist() == wanted, text
            assert TensorExpression(text).of({"x": tensor}).data.tolist() == wanted, text
            wanted = [compare(number, exact(one)) for one in values]
            text = f"{number} {sign} x"
            assert TensorExpression(text).of({"x": tensor}).data.tolist() == wanted, text


@pytest.mark.parametrize("name", DTYPES)
def test_numbers_beyond_64_bits_may_be_in_a_list(name: str) -> None:
    dtype = dtype_of_rows(name)
    values = np.append(values_of(dtype), np.array([2], dtype))
    if dtype.kind not in "biu":
        with np.errstate(over="ignore"):
            values = np.append(values, np.array([2.0**64, -(2.0**70)]).astype(dtype))
    for numbers in ([2**64, 2], [-(2**70), 10**400], [*range(2**70, 2**70 + 20), 2]):
        wanted = [exact(one) in numbers for one in values]
        text = f"x in ({', '.join(map(str, numbers))})"
        found = Expression(text).of_batch({"x": LoDTensor(values)}, 0, len(values)).data
        assert found.tolist() == wanted, text
        assert TensorExpression(text).of({"x": LoDTensor(values)}).data.tolist() == wanted, text


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "text",
    [
        "(x if x > 0 else 0) == 0.1",
        "(x if x > 0 else None) == 0.1",
        "(0.1 if x > 1 else x) == 0.1",
        "coalesce(x, 0) == 0.1",
        "coalesce(x, y) == 0.1",
        "maximum(x, -1) == 0.1",
        "minimum(x, y, 3) == 0.1",
        "max(x) == 0.1",
    ],
)
def test_a_picked_value_is_compared_like_the_value(name: str, text: str) -> None:
    """Halves too, which `lod filter` computes as float32."""
    dtype = dtype_of_rows(name)
    tensors = {"x": LoDTensor(np.array([0.1, 0.2, -3]).astype(dtype))}
    tensors["y"] = LoDTensor(np.array([7, 8, 9]).astype(dtype))
    wanted = [True, False, False]
    expression = Expression(text)
    expression.check(schema_of(tensors))
    found = expression.of_batch(tensors, 0, 3)
    assert found.data.tolist() == wanted
    if "max(" not in text and not text.startswith("(0.1"):  # which NumPy makes float32
        applied = TensorExpression(text)
        applied.check(schema_of(tensors))
        assert (
            applied.of({name: tensors[name] for name in applied.tensors}).values.tolist() == wanted
        )
