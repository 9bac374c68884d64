"""`lod apply` with expressions, numbers and --into; NumPy is the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from tests.lodcli.conftest import Lod, filtered, tensor, tensors, write_jsonl
from tests.slow import one_in

LENGTHS = [3, 1, 4, 2]
RNG = np.random.default_rng(2)
VALUES = [RNG.normal(size=(length, 2)).astype(np.float32) for length in LENGTHS]
WHOLE = [RNG.integers(-9, 9, length) for length in LENGTHS]
LABELS = np.array([2, 0, 1, 5], np.int16)


def content(data: Any, *, nested: bool = False) -> LoDTensor:
    lod = LoD.from_lengths([[2, 2], LENGTHS] if nested else [LENGTHS], [None, "s"][not nested :])
    return LoDTensor(np.concatenate(data), lod)


@pytest.fixture
def values(folder: Path) -> dict[str, LoDTensor]:
    """values.lod.h5: columns, whole numbers, a label and a name for each of four sequences."""
    x = content(VALUES)
    names = LoDTensor(np.frombuffer(b"annbobcideve", np.uint8), LoD.from_lengths([[3] * 4]), TEXT)
    found = {
        "name": names,
        "x": x,
        "w": LoDTensor(np.concatenate(WHOLE), x.lod),
        "label": LoDTensor(LABELS),
    }
    io.write("values.lod.h5", dict(found))
    return found


def softmax(x: Any) -> Any:
    return np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0)


# For each expression, its value for the rows of one sequence.
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "softmax(x * 2 + 1)": lambda x, w, label: softmax(x * np.float32(2) + np.float32(1)),
    "-x / 3 - 1": lambda x, w, label: -x / 3 - 1,
    "w // 3 + w % 4 - +w": lambda x, w, label: w // 3 + w % 4 - w,
    "w ** 2 / 4": lambda x, w, label: w**2 / 4,
    "exp(x) + log1p(abs(x)) * tanh(x)": lambda x, w, label: (
        np.exp(x) + np.log1p(np.abs(x)) * np.tanh(x)
    ),
    "maximum(x, 0) - minimum(x, w)": lambda x, w, label: (
        np.maximum(x, 0) - np.minimum(x, w[:, None])
    ),
    "maximum(x, 0.5, w) + minimum(w, 1, 2, -1)": lambda x, w, label: (
        np.maximum(np.maximum(x, 0.5), w[:, None]) + np.minimum(w, -1)[:, None]
    ),
    "x * w": lambda x, w, label: x * w[:, None],
    "x[1] > 0 and not w == 2": lambda x, w, label: (x[:, 1] > 0) & ~(w == 2),
    "w in (1, -3, 5) or w not in [2]": lambda x, w, label: np.isin(w, [1, -3, 5]) | (w != 2),
    "w * 0 + -9223372036854775808": lambda x, w, label: w * 0 + -(2**63),
    "-2 < w <= 4": lambda x, w, label: (w > -2) & (w <= 4),
    "x - mean(x)": lambda x, w, label: x - x.mean(0, dtype=np.float64),
    "x * label + label": lambda x, w, label: x * label + label,
    "(x - mean(x)) / mean((x - mean(x)) ** 2) ** 0.5": lambda x, w, label: (
        (x - x.mean(0)) / x.std(0) if len(x) > 1 else x * np.nan
    ),
    "cumsum(w)": lambda x, w, label: np.cumsum(w),
    "x[-2] - x[-1]": lambda x, w, label: x[:, 0] - x[:, 1],
    "reverse(x)[0]": lambda x, w, label: x[::-1, 0],
    "tensor('w') * 1.5": lambda x, w, label: w * 1.5,
    "isnan(x / 0) == (x == 0)": lambda x, w, label: np.ones(x.shape, np.bool_),
}
# What they give has one row for each sequence.
POOLED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum(w)": lambda x, w, label: w.sum(),
    "max(x) - min(x)": lambda x, w, label: x.max(0) - x.min(0),
    "sum(w * x[0]) + label": lambda x, w, label: (w * x[:, 0].astype(np.float64)).sum() + label,
    "sum(x, level='s')": lambda x, w, label: x.sum(0),
}


@pytest.mark.parametrize("text", [*EXPRESSIONS, *POOLED])
def test_an_expression_is_that_of_numpy(lod: Lod, values: dict[str, LoDTensor], text: str) -> None:
    done = lod("apply", text, "values.lod.h5", "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    (result,) = tensors("out.lod.h5").values()
    oracle = {**EXPRESSIONS, **POOLED}[text]
    with np.errstate(all="ignore"):
        wanted = [np.asarray(oracle(*three)) for three in zip(VALUES, WHOLE, LABELS, strict=True)]
    if text in POOLED:
        assert result.lod.n_levels == 0
        expected = np.stack(wanted)
    else:
        assert result.lod == values["x"].lod
        expected = np.concatenate(wanted)
    assert result.dtype.kind == expected.dtype.kind
    if expected.dtype.kind == "f":  # float32 sums in another order
        np.testing.assert_allclose(result.data, expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(result.data, expected)


# What the expression is of lists, texts and categories.
OF_ANY_KIND: dict[str, list[Any]] = {
    "length(w)": [3, 0, 1],
    "sum(w) / length(w) - mean(w)": [0.0, None, 0.0],
    "length(name)": [3, 0, 2],
    "any(w > 1)": [True, False, False],
    "all(w > 0)": [False, True, True],
    'name == "ann"': [True, False, False],
    '"b" < name': [False, False, True],
    'name in ("", "ed") and color != "red"': [False, True, False],
    'color in ("red", "blue")': [True, False, True],
    'size > "small"': [False, True, True],
    'tags == "a"': [[True, False], [], [True]],
    'any(tags == "b")': [True, False, False],
    '"a" in tags': [True, False, True],
    "2 in w": [True, False, False],
    'w * (name == "ann")': [[0, 1, 2], [], [0]],
}


@pytest.mark.parametrize("text", OF_ANY_KIND)
def test_texts_categories_and_lengths_are_compared(lod: Lod, folder: Path, text: str) -> None:
    content = {
        "w": LoDTensor.from_lists([[0, 1, 2], [], [1]]),
        "name": LoDTensor.from_lists(["ann", "", "ed"]),
        "tags": LoDTensor.from_lists([["a", "b"], [], ["a"]]),
        "color": LoDTensor([1, 2, 1]).as_categories(["blue", "red", "green"]),
        "size": LoDTensor([0, 2, 1]).as_categories(["small", "medium", "large"], ordered=True),
    }
    io.write("kinds.lod.h5", content)
    done = lod("apply", text, "kinds.lod.h5", "-o", "out.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    found = tensor("out.lod.h5").to_list()
    assert str(found) == str(OF_ANY_KIND[text])  # nan equals nan
    if isinstance(found[0], bool):
        assert lod("filter", "-q", "kinds.lod.h5", text, "-o", "kept.lod.h5").code == 0
        kept = [name for name, one in zip(["ann", "", "ed"], found, strict=True) if one]
        assert tensor("kept.lod.h5", "name").to_list() == kept


# NumPy is the oracle, by item.
BOTH = ["floor(a / 3) + ceil(a)", "exp(b) * log(a * a + 1)", "maximum(a, 2) - minimum(b, 0)"]
BOTH += ["round(b * 3) + sign(a)", "a ** 2 - b ** 3", "isnan(b) + isfinite(b)", "a ** -1"]
PYTHON = {**{name: getattr(np, name) for name in ("floor", "ceil", "exp", "log", "sign")}}
PYTHON |= {**{name: getattr(np, name) for name in ("maximum", "minimum", "isnan", "isfinite")}}


@pytest.mark.parametrize("text", BOTH)
def test_filter_and_apply_have_the_same_functions(lod: Lod, folder: Path, text: str) -> None:
    a, b = np.array([-3.0, 0.5, 2.0, 7.0]), np.array([1.5, np.nan, -2.0, np.inf])
    content = {"a": LoDTensor(a), "b": LoDTensor(b), "n": LoDTensor(np.arange(4))}
    io.write("two.lod.h5", content)
    with np.errstate(all="ignore"):
        wanted = eval(text, {**PYTHON, "round": np.rint, "a": a, "b": b}) * 1.0
    assert lod("apply", f"({text}) * 1.0", "two.lod.h5", "-o", "out.lod.h5").code == 0
    np.testing.assert_array_equal(tensor("out.lod.h5").data, wanted)
    assert filtered(lod, f"{text} > 1", "two.lod.h5", "n") == np.flatnonzero(wanted > 1).tolist()


def test_whole_numbers_have_functions_without_rounding(lod: Lod, folder: Path) -> None:
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 3]
    io.write("large.lod.h5", {"n": LoDTensor(np.array(numbers)), "i": LoDTensor(np.arange(4))})
    for text, kept in {
        "round(n) == 9007199254740993": [0],
        "floor(n) == 9223372036854775807": [2],
        "ceil(-n) > 9223372036854775807": [1],
        "n ** 2 == 9": [3],
        "n ** 0.5 < 2": [3],
        "sign(n) == -1": [1],
    }.items():
        assert filtered(lod, text, "large.lod.h5", "i") == kept, text


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("x - length(2)", 11, "length takes a tensor with a level; this has none"),
        ("x - any(label)", 8, "any takes a tensor with a level; this has none"),
        ("x - all(x, 1)", 4, "all takes one argument, as in all(data)"),
        ("name + x == 'a'", 0, "name is text; an expression computes with numbers"),
        ("max(x, w)", 0, "options by name, as level=0; maximum(x, y) is the greater of two"),
        ("any(x > 1, w)", 0, "any takes one argument, as in any(data); write x or y"),
        ("w + 9223372036854775808", 0, "does not fit int64; lod cast TENSOR=uint64 converts"),
        ("w + (18446744073709551615 - 1)", 0, "18446744073709551614 does not fit int64; lod cast"),
        ("w + maximum(-1, 18446744073709551615)", 0, "18446744073709551615 does not fit int64"),
        (
            "'a' in name",
            7,
            "name is one value for each item; compare it with ==; contains(name, 'a')",
        ),
        ("softmax(x", 7, "was never closed"),
        ("x +", 3, "not understood (invalid syntax)"),
        ("x > 0 and", 9, "not understood (invalid syntax)"),
        ("x * y", 4, "no tensor 'y'; there are: name, x, w, label"),
        ("x + name", 4, "with numbers; lod cast name=float64 makes numbers of texts"),
        ("hour(name)", 5, "with numbers; lod cast 'name=timestamp[s]' makes times of texts"),
        ("hour(name[:19])", 5, "; lod apply 'name[:19]' .. --into NAME writes it, then lod cast"),
        ("hour(coalesce(name, name))", 14, "; lod apply 'coalesce(name, name)' .. --into NAME"),
        ("name[:3] * 2", 0, "then lod cast NAME=float64 makes numbers of texts"),
        ("floor(name, 'PT1H')", 6, "; lod cast 'name=timestamp[s]' makes times of texts"),
        ("floor(name)", 6, "; lod cast name=float64 makes numbers of texts"),
        ("unique(name)", 7, "with numbers; after lod cast name=category, unique takes it"),
        ("n_unique(x)", 0, "no function 'n_unique'; lod apply has length(unique(x))"),
        ("softmax(w) * 2", 0, "expected floating numbers, found int64; --dtype float32"),
        ("sum(w), max(w)", 0, "expected one expression; --then EXPRESSION --into NAME computes"),
        ("w == [1, 3]", 5, "a list cannot be used here; write w in [1, 3]"),
        ("x + sotfmax(x)", 4, "no function 'sotfmax'; did you mean softmax"),
        ("x + concat(x)", 4, "concat needs a whole file or several"),
        ("exp(x, 2)", 0, "exp takes 1 argument, as in exp(data)"),
        ("x - sum(x, lvl=0)", 4, "sum has no option 'lvl'; there are: level"),
        ("sqrt(x) + x", 0, "no function 'sqrt'; write x ** 0.5; the op sqrt is sum(x) / sum("),
        ("sum(2) + x", 4, "sum takes a tensor, this is one number"),
        ("exp(x, out=x)", 0, "exp takes 1 argument, as in exp(data)"),
        ("maximum(x)", 0, "maximum takes several arguments, as in maximum(data, 0)"),
        ("tensor('x', 'w') + 1", 0, "write tensor('NAME')"),
        ("tensor('x', level=0) + 1", 0, "write tensor('NAME')"),
        ("x[2]", 2, "no column 2; rows have shape (2,)"),
        ("x[-3]", 2, "no column -3; rows have shape (2,)"),
        ("x[0, 0]", 2, "no column (0, 0); rows have shape (2,)"),
        ("x + label[0]", 10, "no column 0; rows have shape ()"),
        ("x @ 2", 0, "only + - * / // % and ** can be used here"),
        ("label + 99999", 0, "99999"),
        ("10 ** 400 * x", 0, "the number does not fit 64 bits"),
        ("x.data", 0, "no tensor 'x.data'; there are"),
        ("2 * None", 4, "compare with None as in x is None"),
    ],
)
def test_an_error_shows_the_place(
    lod: Lod, values: dict[str, LoDTensor], text: str, column: int, what: str
) -> None:
    done = lod("apply", text, "values.lod.h5", "-o", "out.lod.h5")
    assert done.code != 0
    first, caret, message = done.stderr.splitlines()
    assert (first, caret) == (f"  {text}", f"  {' ' * column}^")
    assert f"expression, column {column + 1}: " in message
    assert what in message
    assert not Path("out.lod.h5").exists()


def test_dtype_is_no_remedy_for_the_array_of_an_option(
    lod: Lod, values: dict[str, LoDTensor]
) -> None:
    done = lod("apply", "row_conv(x, weight=1)", "values.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert done.stderr.endswith(": expected floating numbers, found int64\n")


def test_a_number_of_too_many_digits_is_no_matter_of_python(lod: Lod, folder: Path) -> None:
    done = lod("apply", f"x > {'9' * 4400}", "values.lod.h5", "-o", "out.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.endswith(": a number has too many digits\n")


def test_an_error_as_json_is_one_line(lod: Lod, values: dict[str, LoDTensor]) -> None:
    done = lod("apply", "x * y", "values.lod.h5", "-o", "out.lod.h5", "--json")
    (line,) = done.stderr.splitlines()
    assert "column 5: no tensor 'y'" in line
    assert json.loads(line)["schema_version"] == 1


def test_the_two_sides_of_an_expression_must_fit(lod: Lod, folder: Path) -> None:
    other = LoDTensor(np.arange(10.0), LoD.from_lengths([[1, 3, 4, 2]]))
    io.write("two.lod.h5", {"w": content(WHOLE), "other": other, "four": LoDTensor(np.arange(4))})
    done = lod("apply", "w + other", "two.lod.h5", "-o", "out.lod.h5")
    assert "the two sides have sequences of different lengths" in done.stderr
    assert lod("apply", "w + four", "two.lod.h5", "-o", "out.lod.h5").code == 0


@pytest.mark.parametrize("number", ["2", "-3", "0.5", "1e2"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_takes_a_number(
    lod: Lod, values: dict[str, LoDTensor], name: str, number: str
) -> None:
    symbol = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[name]
    for tensor_name in ("x", "w"):
        reference = f"values.lod.h5::{tensor_name}"
        assert lod("apply", name, reference, number, "-fo", "out.lod.h5").code == 0
        data = values[tensor_name].data
        python = float(number) if "." in number or "e" in number else int(number)
        wanted = eval(f"data {symbol} number", {"data": data, "number": python})
        np.testing.assert_array_equal(tensor("out.lod.h5").data, wanted)
        assert tensor("out.lod.h5").dtype == wanted.dtype


def test_arithmetic_with_a_number_can_be_chained(lod: Lod, values: dict[str, LoDTensor]) -> None:
    chain = ["--then", "mul", "2", "--then", "sum", "--then", "add", "-1"]
    assert lod("apply", "add", "values.lod.h5::w", "1", *chain, "-o", "out.lod.h5").clean
    wanted = [(one + 1).sum() * 2 - 1 for one in WHOLE]
    assert tensor("out.lod.h5").data.tolist() == wanted


def test_whole_numbers_get_a_remedy_or_a_dtype(lod: Lod, values: dict[str, LoDTensor]) -> None:
    for what in (["softmax", "values.lod.h5::w"], ["softmax(w)", "values.lod.h5"]):
        done = lod("apply", *what, "-o", "out.lod.h5")
        assert done.code == 2
        assert "expected floating numbers, found int64; --dtype float32 converts them first" in (
            done.stderr
        )
    for dtype in ("float32", "float64", "float16"):
        args = ["--dtype", dtype, "-fo", "out.lod.h5"]
        for what in (["softmax", "values.lod.h5::w"], ["softmax(w)", "values.lod.h5"]):
            assert lod("apply", *what, *args).code == 0
            found = tensor("out.lod.h5")
            assert found.dtype == dtype
            wanted = np.concatenate([softmax(one.astype(np.float64)) for one in WHOLE])
            np.testing.assert_allclose(found.data, wanted, rtol=5e-3, atol=1e-3)


ITEMWISE = [
    name
    for name, entry in OPS.items()
    if entry.itemwise and not any(one.required for one in described(entry).options)
]


@pytest.mark.parametrize("source", one_in(3, ["values.lod.h5", "values.lods", "values.parquet"]))
@pytest.mark.parametrize("name", ITEMWISE)
def test_into_keeps_the_other_tensors(
    lod: Lod, values: dict[str, LoDTensor], name: str, source: str
) -> None:
    if source != "values.lod.h5":
        assert lod("convert", "-q", "values.lod.h5", source).code == 0
    column = "x" if name not in ("enumerate", "erase", "ctc_align", "unique") else "w"
    assert lod("apply", name, f"{source}::{column}", "-o", "alone.lod.h5").code == 0
    assert lod("apply", name, f"{source}::{column}", "--into", "result", "-o", "out.lod.h5").clean
    found = tensors("out.lod.h5")
    assert [*found] == ["name", "x", "w", "label", "result"]
    for kept in ("name", "x", "w", "label"):
        before, after = tensor(source, kept), found[kept]
        assert (after.to_list(), after.lod, after.marks) == (
            *(before.to_list(), before.lod, before.marks),
        )
    result, alone = found["result"], tensor("alone.lod.h5")
    assert result.lod == alone.lod
    np.testing.assert_array_equal(result.data, alone.data)
    x = found[column]
    if OPS[name].kept({one.name: one.default for one in described(OPS[name]).options}):
        assert result.lod is x.lod  # stored once


def test_a_name_with_a_minus_is_an_expression(lod: Lod, values: dict[str, LoDTensor]) -> None:
    assert lod("apply", "-label", "values.lod.h5", "-o", "out.lod.h5").clean
    np.testing.assert_array_equal(tensor("out.lod.h5").data, -LABELS)
    assert lod("apply", "--", "-w", "values.lod.h5", "-o", "w.lod.h5").clean
    np.testing.assert_array_equal(tensor("w.lod.h5").data, -values["w"].data)
    done = lod("apply", "-qh")  # options
    assert done.code == 0
    assert "Usage" in done.stdout


@pytest.mark.parametrize("source", ["values.lod.h5", "values.lods", "values.parquet"])
def test_the_result_shares_the_index_of_the_tensor_with_most_levels(
    lod: Lod, values: dict[str, LoDTensor], source: str
) -> None:
    if source != "values.lod.h5":
        assert lod("convert", "-q", "values.lod.h5", source).code == 0
    assert lod("apply", "label * x + w", source, "--into", "y", "-o", "out.lod.h5").clean
    found = tensors("out.lod.h5")
    one, other = found["x"], found["y"]
    assert one.lod is other.lod  # stored once


def test_the_result_replaces_the_first_tensor_of_the_text(
    lod: Lod, values: dict[str, LoDTensor]
) -> None:
    assert lod("apply", "(w + x) * label", "values.lod.h5", "--into", "w", "-o", "out.lod.h5").clean
    assert [*io.read_all("out.lod.h5")] == ["name", "x", "w", "label"]
    assert tensor("out.lod.h5", "w").row_shape == (2,)
    assert lod("apply", "(w + x) * label", "values.lod.h5", "-o", "alone.lod.h5").code == 0
    assert [*io.read_all("alone.lod.h5")] == ["w"]


def test_into_replaces_the_tensor_itself_and_no_other(
    lod: Lod, values: dict[str, LoDTensor]
) -> None:
    args = ("apply", "mean", "values.lod.h5::x", "--into")
    assert lod(*args, "x", "-o", "out.lod.h5").code == 0
    assert [*io.read_all("out.lod.h5")] == ["name", "x", "w", "label"]
    means = [one.mean(0) for one in VALUES]  # float32 sums in another order
    np.testing.assert_allclose(tensor("out.lod.h5", "x").data, means, rtol=1e-5)
    done = lod(*args, "label", "-o", "other.lod.h5")
    assert (done.code, Path("other.lod.h5").exists()) == (2, False)
    assert (
        "--into: a tensor is called label already; give another name, then lod drop OUT label | "
        "lod rename - NAME=label replaces it"
    ) in done.stderr
    assert lod(*args, "k", "-o", "out.lod.h5", "-f").code == 0
    assert lod("drop", "out.lod.h5", "label", "-o", "dropped.lod.h5").code == 0
    assert lod("rename", "dropped.lod.h5", "k=label", "-o", "other.lod.h5").code == 0
    np.testing.assert_allclose(tensor("other.lod.h5", "label").data, means, rtol=1e-5)


def test_into_works_with_ops_of_several_tensors_and_whole_files(
    lod: Lod, values: dict[str, LoDTensor]
) -> None:
    x, out = "values.lod.h5::x", ["-fo", "out.lod.h5"]
    assert lod("apply", "mul", x, x, "--into", "square", *out).code == 0
    np.testing.assert_array_equal(tensor("out.lod.h5", "square").data, values["x"].data ** 2)
    assert [*io.read_all("out.lod.h5")] == ["name", "x", "w", "label", "square"]
    done = lod("apply", "max_index", x, "--into", "y", *out)
    assert done.code == 2
    assert "--into names one result, this op has several: values, rows" in done.stderr
    for name, why in (("", "it is empty"), ("a/b", "it holds '/'")):
        for what in (["mul", x, "2"], ["x * 2", "values.lod.h5"]):
            done = lod("apply", *what, "--into", name, "-o", "no.lod.h5")
            said = f"'--into': {name!r} cannot name a tensor: {why}; see"
            assert (done.code, Path("no.lod.h5").exists(), said in done.stderr) == (2, False, True)


@pytest.mark.parametrize("source", ["clicks.csv", "clicks.jsonl", "clicks.lod.h5"])
def test_from_unsorted_events_to_a_table_with_names(lod: Lod, folder: Path, source: str) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    Path("clicks.csv").write_text("user,value\nbob,1.5\nann,2\nbob,0.5\n")
    if source != "clicks.csv":
        assert lod("convert", "-q", "clicks.csv", source).code == 0
    assert lod("group", source, "--by", "user", "-o", "users.lod.h5").code == 0
    assert lod("apply", "mean(value)", "users.lod.h5", "--into", "mean", "-o", "m.lods").code == 0
    args = ("--into", "weight", "-o", "users.parquet")
    assert lod("apply", "softmax(value)", "m.lods", *args).code == 0
    table = pq.read_table("users.parquet").to_pylist()
    assert [(one["user"], one["value"], one["mean"]) for one in table] == [
        *(("ann", [2.0], 2.0), ("bob", [1.5, 0.5], 1.0)),
    ]
    np.testing.assert_allclose(table[1]["weight"], softmax(np.array([1.5, 0.5])))


def test_batches_of_any_size_give_the_same(
    lod: Lod, values: dict[str, LoDTensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.commands.apply import results

    text = "softmax(x - mean(x)) + w * label"
    assert lod("apply", text, "values.lod.h5", "--into", "y", "-o", "whole.lod.h5").code == 0
    monkeypatch.setattr(results, "COMPUTED_BYTES", 1)
    for source in ("values.lod.h5", "values.lods"):
        lod("convert", "-q", "values.lod.h5", "values.lods", "-f")
        assert lod("apply", text, source, "--into", "y", "-fo", "parts.lod.h5").code == 0
        done = lod("diff", "whole.lod.h5", "parts.lod.h5", "--json")
        assert json.loads(done.stdout)["equal"]


@pytest.mark.parametrize("levels", [True, False])
@pytest.mark.parametrize("text", ["x + y", "x + z - y", "y + x"])
@pytest.mark.parametrize("into", [[], ["--into", "sum"]])
def test_a_tensor_of_other_items_is_named(
    lod: Lod, folder: Path, text: str, into: list[str], levels: bool
) -> None:
    counts = {"x": 2, "y": 5, "z": 2}
    made = {n: LoDTensor.from_lists([[1] if levels else 1] * counts[n]) for n in counts}
    io.write("m.lod.h5", made)
    done = lod("apply", text, "m.lod.h5", *into, "-o", "o.lod.h5")
    assert done.code == 2
    assert done.stderr.endswith("m.lod.h5: y does not share the items of x (level 0)\n")
    assert ("left out" in done.stderr) == bool(into)
    assert not Path("o.lod.h5").exists()
    assert lod("apply", "x + z", "m.lod.h5", "-o", "o.lod.h5").code == 0


def test_the_hint_for_the_op_sqrt_computes_it(lod: Lod, folder: Path) -> None:
    write_jsonl("x.jsonl", [{"x": [1, None, 4, 2]}, {"x": [9]}, {"x": []}])
    hint = lod("apply", "sqrt(x)", "x.jsonl").stderr.split("the op sqrt is ")[1].strip()
    assert lod("apply", hint, "x.jsonl", "-qo", "o.lod.h5").code == 0
    write_jsonl("known.jsonl", [{"x": [1.0, 4.0, 2.0]}, {"x": [9.0]}])
    assert lod("apply", "sqrt", "known.jsonl", "-qo", "w.lod.h5").code == 0
    found = tensor("o.lod.h5").to_list()
    assert found[:2] == pytest.approx(tensor("w.lod.h5").to_list())
    assert np.isnan(found[2])  # by the op, 0
