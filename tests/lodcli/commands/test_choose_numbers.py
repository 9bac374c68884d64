"""`lod sort` and `filter`: exact numbers, rounding, overflow, nan and complex numbers."""

from __future__ import annotations

import builtins
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.items.items import Items
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, filtered, tensor

LARGE = [[2**53 + 1], [], [2**53, 1], [-(2**63)]]
# uint64, by item.
UNSIGNED = [0, 1, 2**64 - 1, 2**63]
EXACT: list[tuple[str, list[int]]] = [
    ("max(x) == 9007199254740993", [0]),
    ("first(x) == 9007199254740992", [2]),
    ("last(x) == -9223372036854775808", [3]),
    ("max(-x) > 0", [3]),
    ("max(abs(x)) > 9007199254740992", [0, 3]),
    ("max(x) / 10 == 0.1", []),
    ("u == 18446744073709551615", [2]),
    ("u in (18446744073709551615, 1)", [1, 2]),
    ("(-u) < -1", [2, 3]),
    ("u - tensor('u') == 0", [0, 1, 2, 3]),
    ("u - 2 < 0", [0, 1]),
    ("u % 10 == 5", [2]),
    ("max(-u) == -1", [1]),
]


@pytest.mark.parametrize(("text", "kept"), EXACT, ids=[text for text, _ in EXACT])
def test_whole_numbers_of_64_bits_are_compared_exactly(
    lod: Lod, folder: Path, text: str, kept: list[int]
) -> None:
    items = {"x": LoDTensor.from_lists(LARGE), "u": LoDTensor(np.array(UNSIGNED, np.uint64))}
    io.write("large.lod.h5", {**items, "item": LoDTensor(np.arange(4))})
    assert lod("filter", "large.lod.h5", text, "-qo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "item").data.tolist() == kept


HALF = 2**62
# By item: int64 near the limits, and small whole numbers.
OVERFLOWING: list[tuple[str, list[int]]] = [
    ("i + i > 0", [0, 2]),
    ("i - 2 * i < 0", [0, 2]),
    ("i * i >= 0", [0, 1, 2, 3]),
    ("i * 4 == 0", [3]),
    ("sum(y) == 9223372036854775808", [0]),
    ("sum(y * 3) > 0", [0, 3]),
    ("n // 0 > 5", [0, 2]),
    ("n % 0 == 0", []),
    ("n < 1 // 0", [0, 1, 2, 3]),
    ("n >= 0 % 0", []),
    ("i % n == 0", [0, 1]),
    ("i // -1 == 4611686018427387904", [1]),
    ("-i > 0", [1]),
    ("-(n - 1) > 0", [1, 3]),
]


@pytest.mark.parametrize(("text", "kept"), OVERFLOWING, ids=[text for text, _ in OVERFLOWING])
def test_results_beyond_64_bits_and_of_divisions_by_zero_are_no_other_numbers(
    lod: Lod, folder: Path, text: str, kept: list[int]
) -> None:
    items = {"i": LoDTensor(np.array([HALF, -HALF, 7, 0])), "n": LoDTensor(np.array([1, -1, 2, 0]))}
    items["y"] = LoDTensor.from_lists([[HALF, HALF], [-HALF], [], [2]])
    io.write("large.lod.h5", {**items, "item": LoDTensor(np.arange(4))})
    assert lod("filter", "large.lod.h5", text, "-qo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "item").data.tolist() == kept


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x == 0.1", [1]),
        ("x <= 0.1", [0, 1]),
        ("0.1 < x", [2, 3]),
        ("x in (0.1, 0.3)", [1, 3]),
        ("max(y) == 0.1", [1]),
        ("abs(-x) == 0.1", [0, 1]),
        ("x == 1e300", []),
    ],
)
def test_numbers_are_rounded_to_the_floats_beside_them(
    lod: Lod, folder: Path, dtype: str, text: str, kept: list[int]
) -> None:
    x = LoDTensor(np.array([-0.1, 0.1, 0.2, 0.3]).astype(dtype_of_rows(dtype)))
    items = {"x": x, "y": LoDTensor(x.data, [[1, 1, 1, 1]]), "item": LoDTensor(np.arange(4))}
    io.write("floats.lod.h5", items)
    assert lod("filter", "floats.lod.h5", text, "-qo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "item").data.tolist() == kept
    if "max" not in text:
        assert lod("apply", text, "floats.lod.h5", "-qo", "mask.lod.h5").code == 0
        assert np.flatnonzero(tensor("mask.lod.h5", "x").data).tolist() == kept


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("max(x)", [3, 2, 0, 1]),
        ("-max(x)", [0, 2, 3, 1]),
        ("u", [0, 1, 3, 2]),
        ("-u", [2, 3, 1, 0]),
        ("-first(x)", [0, 2, 3, 1]),
    ],
)
def test_whole_numbers_of_64_bits_are_sorted_exactly(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, key: str, order: list[int]
) -> None:
    # In batches of one item, only some of which have nan.
    monkeypatch.setattr(Items.range, "__defaults__", (1,))
    items = {"x": LoDTensor.from_lists(LARGE), "u": LoDTensor(np.array(UNSIGNED, np.uint64))}
    io.write("large.lod.h5", {**items, "item": LoDTensor(np.arange(4))})
    assert lod("sort", "large.lod.h5", "--by", key, "-qo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "item").data.tolist() == order


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("any(data % 2 == 1)", "column 5: % is not defined for complex128 and int64"),
        ("any(data // 2 == 1)", "column 5: // is not defined for complex128 and int64"),
        ("max(data) == 2", "column 5: complex numbers have no order"),
        ("any(data > 1)", "column 12: complex numbers have no order"),
        ("any(maximum(data, 1) == 1)", "column 5: complex numbers have no order"),
    ],
)
def test_functions_undefined_for_complex_numbers_are_an_error(
    lod: Lod, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "complex.lod.h5"
    io.write(path, LoDTensor(np.array([1j, 2]), [[2]]))
    done = lod("filter", path, text, "-qo", tmp_path / "new.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


# Of lists [5], [], [0] and [7, 1], with the numbers 0 to 3: as SQL does with a null first value.
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("first(x > 1)", [0, 3]),
        ("first(x)", [0, 3]),
        ("not first(x)", [2]),
        ("not not first(x)", [0, 3]),
        ("first(x) and n < 3", [0]),
        ("first(x) or n == 1", [0, 1, 3]),
        ("not (first(x) or n == 2)", []),
        ("mean(x)", [0, 3]),
        ("f", [1]),  # nan, 1.5 and 0
        ("not f", [2, 3]),
    ],
)
def test_nan_is_not_true(text: str, kept: list[int], lod: Lod, folder: Path) -> None:
    x = LoDTensor.from_lists([[5], [], [0], [7, 1]])
    f = LoDTensor(np.array([np.nan, 1.5, 0, 0], np.float32))
    io.write("l.lod.h5", {"x": x, "n": LoDTensor([0, 1, 2, 3]), "f": f})
    assert filtered(lod, text, "l.lod.h5", "n") == kept


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("name", ["any", "all"])
def test_any_and_all_skip_nan_as_polars_skips_nulls(
    name: str, dtype: str, lod: Lod, folder: Path
) -> None:
    rng = np.random.default_rng(3)
    lists = [rng.choice([0, 1, np.nan], size) for size in [0, *rng.integers(1, 5, 200)]]
    x = LoDTensor(np.concatenate(lists).astype(dtype_of_rows(dtype)), [[*map(len, lists)]])
    columns = LoDTensor(np.stack([x.data, x.data[::-1]], axis=1), x.lod)
    io.write("x.lod.h5", {"x": x, "xs": columns, "n": LoDTensor(np.arange(len(lists)))})
    values = [[bool(one) for one in values if one == one] for values in lists]
    wanted = [
        None if len(items) > 0 and not known else getattr(builtins, name)(known)
        for items, known in zip(lists, values, strict=True)
    ]
    assert applied(lod, f"{name}(x)", "x.lod.h5") == wanted
    assert lod("filter", "x.lod.h5", f"{name}(x)", "-o", "o.lod.h5").code == 0
    kept = [number for number, one in enumerate(wanted) if one]
    assert tensor("o.lod.h5", "n").to_list() == kept
    both = [
        getattr(builtins, name)(bool(one) for row in rows for one in row if one == one)
        if np.any(columns.data[start:stop] == columns.data[start:stop]) or start == stop
        else None
        for start, stop in pairwise(columns.lod.levels[0].tolist())
        for rows in [columns.data[start:stop].tolist()]
    ]
    assert lod("filter", "x.lod.h5", f"{name}(xs)", "-fo", "o.lod.h5").code == 0
    kept = [number for number, one in enumerate(both) if one]
    assert tensor("o.lod.h5", "n").to_list() == kept


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "complex64"])
def test_nan_keys_come_last(dtype: str, lod: Lod, tmp_path: Path) -> None:
    values = np.array([2, np.nan, -1, np.inf, np.nan, 0.5]).astype(dtype_of_rows(dtype))
    io.write(tmp_path / "x.lod.h5", {"x": LoDTensor(values), "n": LoDTensor(np.arange(6))})
    for by, numbers in (("x", [2, 5, 0, 3, 1, 4]), ("-x", [3, 0, 5, 2, 1, 4])):
        done = lod("sort", tmp_path / "x.lod.h5", "--by", by, "-o", tmp_path / "o.lod.h5", "-f")
        assert done.code == 0, done.stderr
        assert tensor(tmp_path / "o.lod.h5", "n").to_list() == numbers
