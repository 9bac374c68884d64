"""Remedies for operands and functions of NumPy that do not fit the rows or levels of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli import InvalidDataError, LoDTensor, ShapeMismatchError, UnsupportedError

RAGGED = [[1, 2], [3]]
PARTS: Any = LoDTensor([1, 2, 3], [[2, 1]])
NUMBERS: Any = LoDTensor([1, 4, 9, 5, 7], [[3, 2]])
X: Any = LoDTensor([1.0, 4.0, 9.0, 5.0, 7.0], [[3, 2]])
XY: Any = LoDTensor(np.arange(10.0).reshape(5, 2), [[3, 2]])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda: X + RAGGED),
        ("allclose", lambda: np.allclose(X, RAGGED)),
        ("clip", lambda: np.clip(X, 2, RAGGED)),
        ("clip", lambda: np.clip(X, 2, a_max=RAGGED)),
        ("isin", lambda: np.isin(X, RAGGED)),
        ("matmul", lambda: RAGGED @ XY),
        ("matmul", lambda: X @ RAGGED),
        ("where", lambda: np.where(X > 2, X, RAGGED)),
    ],
)
def test_lists_of_different_lengths_are_refused_with_what_takes_them(
    name: str, call: Callable[[], Any]
) -> None:
    with pytest.raises(InvalidDataError) as found:
        call()
    said = str(found.value)
    assert said.startswith(f"{name}: no array can be made of this list: ")
    assert "; LoDTensor.from_lists takes nested lists and text" in said


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sum(PARTS), "add: 2 rows against 1; if this is Python's sum(), lodcli.ops.sum("),
        (
            lambda: sorted(PARTS),
            "; if this is Python's min() or sorted(), lodcli.ops.min(tensor) or sort(tensor)",
        ),
        (lambda: min(PARTS), "; if this is Python's min() or sorted(), lodcli.ops.min(tensor) or"),
        (lambda: max(PARTS), "; if this is Python's max(), lodcli.ops.max(tensor) returns the gr"),
    ],
)
def test_functions_of_python_name_the_ops_of_sequences(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidDataError) as found:
        call()
    assert said in str(found.value)


def test_lists_of_different_lengths_are_refused_where_arrays_are_joined() -> None:
    with pytest.raises(InvalidDataError, match=r"; LoDTensor\.from_lists takes nested lists"):
        np.concatenate([XY, RAGGED], axis=1)
    with pytest.raises(InvalidDataError, match=r"concatenate: .* must match exactly"):
        np.concatenate([XY, [[1.0]]], axis=1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: X - [1, 2, 3, 4],
            "subtract: {}(5,), found shape (4,); give a number, or one for {}",
        ),
        (lambda: range(4) + X, "add: {}(5,), found shape (4,); give a number, or one for {}"),
        (lambda: X == [], "equal: {}(5,), found shape (0,); give a number, or one for {}"),
        (
            lambda: np.where(X > 2, X, [1, 2, 3, 4]),
            "where: {}(5,), found shape (4,); give a number, or one for {}",
        ),
        (
            lambda: np.maximum(XY, np.ones((5, 3))),
            "maximum: {}(5, 2), found shape (5, 3); give a number, or an array of shape (2,), "
            "(5, 1) or (5, 2)",
        ),
        (
            lambda: np.add(XY, 1, out=XY.copy(), where=[True, False, True]),
            "add: {}(5, 2), found shape (3,); give a number, or an array of shape (2,), (5, 1) or "
            "(5, 2)",
        ),
        (lambda: XY + np.arange(5.0), "add: {}(5, 2), found shape (5,); reshape it to (5, 1)"),
        (lambda: range(5) + XY, "add: {}(5, 2), found shape (5,); reshape it to (5, 1)"),
    ],
)
def test_an_array_that_does_not_broadcast_is_refused_with_the_shapes_that_do(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ShapeMismatchError) as found:
        call()
    expected = "expected an array that broadcasts to the rows, of shape "
    assert str(found.value) == said.format(expected, "each of the 5 rows")
    assert isinstance(found.value.expected, tuple)
    assert found.value.expected[0] == 5


@pytest.mark.parametrize("product", [np.matmul, np.dot])
def test_a_product_names_the_lengths_that_differ(product: Callable[[Any, Any], Any]) -> None:
    name = product.__name__
    begin = f"{name}: expected a second factor of 2 rows, the length of the last axis of the first"
    for second, end in (
        ([1, 2, 3], "found 3: their shapes are (5, 2) and (3,)"),
        (np.ones((4, 3)), "found 4: their shapes are (5, 2) and (4, 3)"),
        (np.ones((4, 2)), "found 4: their shapes are (5, 2) and (4, 2); its transpose fits"),
    ):
        with pytest.raises(ShapeMismatchError) as found:
            product(XY, second)
        assert str(found.value) == f"{begin}, {end}"
    with pytest.raises(ShapeMismatchError, match=r"their shapes are \(5, 2\) and \(5, 2\)$"):
        product(XY, XY)  # a tensor has no .T
    assert product(XY, np.ones((4, 2)).T).data.tolist() == [[one] * 4 for one in (1, 5, 9, 13, 17)]


def test_the_transpose_of_a_tensor_is_no_remedy() -> None:
    with pytest.raises(ShapeMismatchError, match=r"their shapes are \(3, 2\) and \(5, 2\)$"):
        np.ones((3, 2)) @ XY


@pytest.mark.parametrize(
    "call",
    [
        lambda: NUMBERS**-1,
        lambda: 2 ** (-NUMBERS),
        lambda: NUMBERS ** (-NUMBERS),
        lambda: np.power(NUMBERS, -NUMBERS),
    ],
)
def test_a_negative_power_of_whole_numbers_names_a_dtype(call: Callable[[], Any]) -> None:
    with pytest.raises(
        InvalidDataError, match=r"^power: .*; convert them with astype\('float64'\)"
    ):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: X == ["a", "b"], "equal: expected a value, or one for each row, of "),
        (lambda: X != ["a", "b"], "not_equal: expected a value, or one for each row, of "),
        (lambda: XY @ 3, "matmul: expected two arrays, found a single number; write x * 3"),
        (lambda: 2.5 @ XY, "matmul: expected two arrays, found a single number; write x * 2.5"),
        (
            lambda: XY @ np.float32(0.5),
            "matmul: expected two arrays, found a single number; write x * 0.5",
        ),
        (lambda: np.matmul(3, XY), "matmul: expected two arrays, found a single number;"),
        (lambda: np.stack(axis=1, arrays=[X, [1, 2]]), "stack: all input arrays must have the"),
    ],
)
def test_errors_of_numpy_name_the_function_once(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidDataError) as found:
        call()
    assert str(found.value).startswith(said)


def test_arrays_may_come_after_the_axis() -> None:
    stack: Any = np.stack
    assert stack(axis=1, arrays=[X, X]).data.tolist() == [[one, one] for one in X.data]


def test_other_errors_of_values_name_the_function() -> None:
    with pytest.raises(InvalidDataError, match=r"^percentile: Percentiles must be in the range"):
        np.percentile(X, 200)
    with pytest.raises(InvalidDataError, match=r"^minimum: zero-size array"):
        np.minimum.reduce(LoDTensor(np.zeros(0), [[0]]))


def test_lists_that_fit_give_what_a_loop_gives() -> None:
    wanted = [0, 10, 20, 30, 40]
    for lists in (wanted, tuple(wanted), range(0, 50, 10)):
        assert (X + lists).data.tolist() == [a + b for a, b in zip(X.data, wanted, strict=True)]
    chosen: Any = np.where(X > 4, X, wanted)
    assert chosen.data.tolist() == [a if a > 4 else b for a, b in zip(X.data, wanted, strict=True)]
    assert chosen.lod is X.lod
    product = XY @ [[1, 2], [3, 4]]
    assert product.data.tolist() == [[a + 3 * b, 2 * a + 4 * b] for a, b in XY.data]
    joined: Any = np.concatenate([XY, [[one] for one in wanted]], axis=1)
    assert joined.data.tolist() == [[*row, one] for row, one in zip(XY.data, wanted, strict=True)]
    assert joined.lod is XY.lod


JOINED: Any = ("np.concatenate", lambda: np.concatenate([X, X]))


@pytest.mark.parametrize(
    ("call", "remedy", "kept"),
    [
        (lambda: np.append(X, X), *JOINED),
        (lambda: np.append(X, X, axis=-1), *JOINED),
        (lambda: np.hstack([X, X]), *JOINED),
        (
            lambda: np.hstack([XY, XY]),
            "np.concatenate with axis=1",
            lambda: np.concatenate([XY, XY], axis=1),
        ),
        (lambda: np.vstack([XY, XY]), "np.concatenate", lambda: np.concatenate([XY, XY])),
        (lambda: np.select([X > 4], [X]), "np.where", lambda: np.where(X > 4, X, 0)),
        (lambda: np.savez("x.npz", X), "lodcli.write(path, tensor)", None),
        (lambda: np.savez_compressed("x.npz", X), "lodcli.write(path, tensor)", None),
    ],
)
def test_functions_that_would_drop_levels_name_what_keeps_them(
    call: Callable[[], Any], remedy: str, kept: Callable[[], Any] | None
) -> None:
    with pytest.raises(UnsupportedError) as found:
        call()
    assert str(found.value).endswith(f"tensor.data, or use {remedy}, which keeps them")
    if kept is not None:
        assert kept().lod.n_levels == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: np.append(X, [1, 2]),
        lambda: np.append(XY, XY),
        lambda: np.hstack([X, [1, 2]]),
        lambda: np.vstack([X, X]),
        lambda: np.vstack([XY, [[1, 2]]]),
    ],
)
def test_np_concatenate_is_no_remedy_where_it_differs(call: Callable[[], Any]) -> None:
    with pytest.raises(UnsupportedError) as found:
        call()
    assert "np.concatenate" not in str(found.value)


def test_the_remedy_of_np_take_says_what_differs() -> None:
    with pytest.raises(UnsupportedError, match=r"tensor\[numbers\], .* takes whole items$"):
        np.take(X, [1])
    assert X[[1]].data.tolist() == [5, 7]


@pytest.mark.parametrize(
    "call",
    [
        lambda: LoDTensor([1, 2]) + LoDTensor([1, 2, 3]),
        lambda: LoDTensor([1, 2]) < LoDTensor([1, 2, 3]),
        lambda: sum((LoDTensor([1, 2]), LoDTensor([1, 2, 3]))),
    ],
)
def test_tensors_that_are_no_items_have_no_hint_on_functions_of_python(
    call: Callable[[], Any],
) -> None:
    with pytest.raises(ShapeMismatchError, match=r"2 rows against 3$"):
        call()


TEXTS: Any = LoDTensor.from_lists(["a", "bc"])
OF_LISTS = (
    "{}: expected numbers beside {}, found {}; compute with tensor.to_list(), and make a tensor of "
    "the result with LoDTensor.from_lists"
)
FINDING = "`word in tensor` finds a text, and to_list() returns all"
DAY = np.datetime64("2024-01-01")
JOINED = f"{OF_LISTS}; lod apply 'NAME + \"b\"' joins texts of a file"
ONE = "{}: expected a number beside float64, or one for each row, found {}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: TEXTS + "b", JOINED.format("add", "text", "str")),
        (lambda: "b" + TEXTS, JOINED.format("add", "text", "str")),
        (lambda: np.add(TEXTS, ["b", "c"]), JOINED.format("add", "text", "list")),
        (lambda: TEXTS.__iadd__("b"), JOINED.format("add", "text", "str")),
        (lambda: np.add(TEXTS, "b", out=TEXTS), JOINED.format("add", "text", "str")),
        (lambda: TEXTS < "b", OF_LISTS.format("less", "text", "str")),
        (
            lambda: LoDTensor([0]).as_categories(["a"]) + "b",
            JOINED.format("add", "category", "str"),
        ),
        (lambda: X + "b", ONE.format("add", "str")),
        (lambda: X > b"b", ONE.format("greater", "bytes")),
        (lambda: X + np.array([*"abcde"], np.dtypes.StringDType()), ONE.format("add", "ndarray")),
        (lambda: X + np.array([*"abcde"], object), ONE.format("add", "ndarray")),
        (lambda: np.add.outer(X, "b"), ONE.format("add", "str")),
        (lambda: np.divmod(X, "b"), ONE.format("divmod", "str")),
        (lambda: X < DAY, ONE.format("less", "datetime64")),
        (lambda: np.equal(TEXTS, DAY), f"cannot compare text with datetime64: {FINDING}"),
        (lambda: TEXTS == DAY, f"cannot compare text with datetime64: {FINDING}"),
        (
            lambda: LoDTensor.from_lists([DAY]) - "2024-01-01",
            "subtract: expected numbers that count the unit of date[D], found str; take "
            "as_numbers()",
        ),
    ],
)
def test_a_text_beside_a_tensor_is_refused_with_what_works(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(UnsupportedError) as found:
        call()
    assert str(found.value) == said


@pytest.mark.parametrize(
    "call",
    [
        lambda: TEXTS == "a",
        lambda: np.equal(TEXTS, "a"),
        lambda: np.not_equal(["a", "bc"], TEXTS, out=np.zeros(3, np.bool_)),
    ],
)
def test_texts_are_not_compared(call: Callable[[], Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"cannot compare text with \w+: `word in tensor`"):
        call()


def test_no_number_equals_a_text_and_other_operands_have_the_error_of_python() -> None:
    assert (X == "b").data.tolist() == [False] * 5
    with pytest.raises(TypeError, match="NoneType"):
        X + None
