"""Long expressions, booleans as numbers, and functions of whole numbers."""

from __future__ import annotations

import ast
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from lodcli.expressions import parsing
from lodcli.expressions.parsing import dotted
from lodcli.expressions.units import joint_unit
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Unit
from tests.lodcli.conftest import Lod, applied, tensor


@pytest.fixture
def columns(folder: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Write 300 columns of four items; return them."""
    rng = np.random.default_rng(3)
    found = {f"x{n}": rng.integers(0, 9, 4) for n in range(300)}
    io.write("c.lod.h5", {name: LoDTensor(one) for name, one in found.items()})
    return found


def test_a_sum_of_many_terms_has_no_depth(
    lod: Lod, columns: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]
) -> None:
    text = " + ".join(columns)
    wanted = sum(columns.values())
    assert lod("apply", text, "c.lod.h5", "-o", "out.lod.h5").code == 0
    np.testing.assert_array_equal(tensor("out.lod.h5").data, wanted)
    middle = int(np.sort(wanted)[2])
    assert lod("filter", "c.lod.h5", f"{text} >= {middle}", "-o", "kept.lod.h5").clean
    kept = tensor("kept.lod.h5", "x7").to_list()
    assert kept == columns["x7"][wanted >= middle].tolist()


def test_coalesce_takes_many_arguments(lod: Lod, folder: Path) -> None:
    lists = {
        f"x{n}": LoDTensor.from_lists([None if i != n else i for i in range(300)])
        for n in range(300)
    }
    io.write("c.lod.h5", lists)
    text = f"coalesce({', '.join(lists)})"
    assert applied(lod, text, "c.lod.h5") == list(range(300))
    assert lod("filter", "c.lod.h5", f"{text} >= 298", "-o", "kept.lod.h5").clean


def test_coalesce_joins_each_unit_once(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(one: Unit | None, other: Unit | None) -> Unit | None:
        calls.append(one)
        return joint_unit(one, other)

    monkeypatch.setattr(parsing, "joint_unit", counted)
    day = [date(2024, 5, 1), None]
    io.write("d.lod.h5", {"d": LoDTensor.from_lists(day), "n": LoDTensor.from_lists([1, None])})
    for name, values in {"d": [*day[:1], date(1970, 1, 1)], "n": [1, 0]}.items():
        last = "'1970-01-01'" if name == "d" else "0"
        text = f"coalesce({f'{name}, ' * 400}{last})"
        assert applied(lod, text, "d.lod.h5") == values
    assert len(calls) < 10 * 400


def test_nested_choices_of_texts_take_linear_time(lod: Lod, folder: Path) -> None:
    io.write("s.lod.h5", {"s": LoDTensor.from_lists(["b", None])})
    text = "s"
    for _ in range(60):  # without memory of the parts, 2 ** 60 steps
        text = f"coalesce({text}, 'a')"
    assert applied(lod, text, "s.lod.h5") == ["b", "a"]
    assert lod("filter", "s.lod.h5", f"{text} == 'a'", "-o", "kept.lod.h5").code == 0
    assert tensor("kept.lod.h5").to_list() == [None]


BOOLS: dict[str, list[float]] = {
    "b + c": [2, 1, 1, 0],
    "b - c": [0, 1, -1, 0],
    "b * c": [1, 0, 0, 0],
    "b + True": [2, 2, 1, 1],
    "(n > 1) + (n > 2) + (n > 3)": [0, 1, 2, 3],
    "(-b)": [-1, -1, 0, 0],
    "b ** c": [1, 1, 0, 1],
    "abs(b) + round(c)": [2, 1, 1, 0],
    "exp(b - b)": [1.0] * 4,
}


@pytest.mark.parametrize("text", BOOLS)
def test_booleans_are_the_numbers_0_and_1_in_both_commands(
    text: str, lod: Lod, folder: Path
) -> None:
    """NumPy's sum of booleans is `or`; Polars counts."""
    content: dict[str, list[int]] = {
        "b": [True, True, False, False],
        "c": [True, False, True, False],
        "n": [1, 2, 3, 4],
    }
    io.write("b.lod.h5", {name: LoDTensor(np.array(one)) for name, one in content.items()})
    assert lod("apply", text, "b.lod.h5", "-o", "out.lod.h5").code == 0
    found = tensor("out.lod.h5")
    assert found.to_list() == BOOLS[text]
    assert found.dtype == ("float64" if text.startswith("exp") else "int64")
    for value in sorted(set(BOOLS[text])):
        assert lod("filter", "b.lod.h5", f"{text} == {value}", "-fo", "kept.lod.h5").code == 0
        wanted = [n for n, one in zip(content["n"], BOOLS[text], strict=True) if one == value]
        assert tensor("kept.lod.h5", "n").to_list() == wanted


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64", "bool"])
def test_functions_of_whole_numbers_are_exact_or_float64(
    lod: Lod, folder: Path, dtype: str
) -> None:
    """NumPy's exp of int8 is float16, and its round of int64 is float64."""
    numbers = np.array([0, 1, 1], dtype) if dtype == "bool" else np.array([0, 3, 100], dtype)
    io.write("n.lod.h5", {"n": LoDTensor(numbers)})
    for name, function in {"exp": np.exp, "log1p": np.log1p, "tanh": np.tanh}.items():
        assert lod("apply", f"{name}(n)", "n.lod.h5", "-fo", "out.lod.h5").code == 0
        found = tensor("out.lod.h5").data
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, function(numbers.astype(np.float64)))
    for name in ("round", "floor", "ceil", "abs"):
        assert lod("apply", f"{name}(n)", "n.lod.h5", "-fo", "out.lod.h5").code == 0
        found = tensor("out.lod.h5").data
        assert found.dtype == ("int64" if dtype == "bool" else dtype)
        np.testing.assert_array_equal(found, numbers.astype(found.dtype))


def test_round_of_a_large_whole_number_is_the_number(lod: Lod, folder: Path) -> None:
    io.write("n.lod.h5", LoDTensor(np.array([2**53 + 1, -(2**63)])))
    assert applied(lod, "round(data)", "n.lod.h5") == [2**53 + 1, -(2**63)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32"])
def test_many_members_are_found_as_by_python(lod: Lod, folder: Path, dtype: str) -> None:
    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 100, 400).astype(dtype)
    words = [f"w{n}" if n % 7 else "" for n in rng.integers(0, 100, 400).tolist()]
    lists = [[one] for one in words]
    content = {"n": LoDTensor(numbers), "w": LoDTensor.from_lists(words)}
    io.write("m.lod.h5", {**content, "l": LoDTensor.from_lists(lists)})
    some: list[int] = [*rng.choice(100, 30, replace=False).tolist(), -1, 300, 2**64 - 1, -(2**63)]
    known = [f"w{n}" for n in range(0, 90, 3)]
    for text, wanted in {
        f"n in {some}": [n in some for n in numbers.tolist()],
        f"n not in {[*some, True]}": [n not in [*some, 1] for n in numbers.tolist()],
        f"w in {known}": [w in known for w in words],
        f"w not in {[*known, '']}": [w not in [*known, ""] for w in words],
        f"any(l in {known})": [w in known for w in words],
    }.items():
        assert applied(lod, text, "m.lod.h5") == wanted
        assert lod("filter", "m.lod.h5", text, "-fo", "out.lod.h5").code == 0
        assert len(tensor("out.lod.h5", "n")) == sum(wanted)


@pytest.mark.parametrize("values", [[[1, 2], []], [["a", "b"], []]])
def test_elements_of_elements_look_at_each_part_once(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, values: list[list[int | str]]
) -> None:
    """They are errors, after as many steps as there are parts."""
    calls = []

    def counted(node: ast.AST) -> str | None:
        calls.append(node)
        return dotted(node)

    monkeypatch.setattr(parsing, "dotted", counted)
    io.write("x.lod.h5", LoDTensor.from_lists(values))
    done = lod("apply", "data" + "[0]" * 1000, "x.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert "is nested too deeply" in done.stderr
    assert len(calls) < 100 * 1000
