"""What other libraries make of a tensor: the right thing, or an error that says what to call."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core.schema import StoredArray
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import (
    InvalidDataError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.elementwise.elementwise import sequence_add, sequence_div, sequence_sub
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Marks, Times
from lodcli.kernels.tensor.tensor_array import TensorArray

LOD = LoD.from_lengths([[2, 0, 1], [2, 0, 1]])
ROWS = np.arange(6.0).reshape(3, 2)
FLAT, WIDE = LoDTensor(ROWS[:, 0], LOD), LoDTensor(ROWS, LOD)
PLAIN, BOX = LoDTensor(ROWS[:, 0]), LoDTensor(ROWS)
TENSORS = {"flat": FLAT, "wide": WIDE, "plain": PLAIN, "box": BOX}
# The same as nested lists, by hand.
LISTS: dict[str, Any] = {
    "flat": [[[0.0, 2.0], []], [], [[4.0]]],
    "wide": [[[[0.0, 1.0], [2.0, 3.0]], []], [], [[[4.0, 5.0]]]],
    "plain": [0.0, 2.0, 4.0],
    "box": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
}


def nested(value: Any) -> Any:
    """Return nested lists of numbers, only by iteration."""
    return [nested(part) for part in value] if hasattr(value, "__iter__") else float(value)


def by_index(value: Any) -> Any:
    """Return the same by length and index, the protocol of sequences."""
    if not hasattr(value, "__len__"):
        return float(value)
    return [by_index(value[place]) for place in range(len(value))]


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_is_the_sequence_of_its_items(kind: str) -> None:
    tensor, expected = TENSORS[kind], LISTS[kind]
    assert nested(tensor) == by_index(tensor) == expected
    assert nested(list(reversed(tensor))) == expected[::-1]
    assert nested([*tensor]) == expected
    assert json.loads(json.dumps(tensor, default=list)) == expected


@pytest.mark.parametrize("kind", TENSORS)
def test_a_copy_is_the_same_tensor(kind: str) -> None:
    tensor = TENSORS[kind]
    for again in (pickle.loads(pickle.dumps(tensor)), copy.copy(tensor), copy.deepcopy(tensor)):
        assert again.identical(tensor)


def test_values_are_looked_for() -> None:
    assert 4.0 in PLAIN
    assert 4.0 in BOX
    assert 7.0 not in PLAIN
    assert FLAT.data.flat[0] in FLAT


# -- NumPy's functions -----------------------------------------------------------------

# With levels: what keeps the rows keeps the index.
KEPT: Mapping[str, Callable[[Any], Any]] = {
    "where": lambda x: np.where(x > 1, x, 0),
    "clip": lambda x: np.clip(x, 1, 2),
    "expand_dims": lambda x: np.expand_dims(x, (-1, -2)),
    "round": lambda x: np.round(x, 1),
    "isclose": lambda x: np.isclose(x, 2 * x),
    "nan_to_num": np.nan_to_num,
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, 3.0),
    "copy": np.copy,
    "real": np.real,
    "imag": np.imag,
    "astype": lambda x: np.astype(x, np.float32) if hasattr(np, "astype") else np.copy(x),
    "isin": lambda x: np.isin(x, [1, 2]),
    "digitize": lambda x: np.digitize(x, [1, 2]),
    "interp": lambda x: np.interp(x, [0, 10], [5, 6]),
}
KEPT_OF_WIDE: Mapping[str, Callable[[Any], Any]] = {
    "sum over features": lambda x: np.sum(x, axis=1),
    "one feature": lambda x: np.take(x, 0, axis=1),
    "features in another order": lambda x: np.take(x, [1, 0, 1], axis=-1),
    "features repeated": lambda x: np.repeat(x, 2, axis=1),
    "features left out": lambda x: np.delete(x, 0, 1),
    "an axis removed": lambda x: np.squeeze(np.expand_dims(x, 1), 1),
    "mean over features": lambda x: np.mean(x, -1),
    "max over features": lambda x: np.maximum.reduce(x, axis=1),
    "argmax over features": lambda x: np.argmax(x, axis=1),
    "running sum over features": lambda x: np.add.accumulate(x, axis=1),
    "matrix": lambda x: x @ np.ones((2, 5)),
    "vector": lambda x: x @ np.ones(2),
    "kept dimension": lambda x: np.sum(x, axis=1, keepdims=True),
    "sort": np.sort,
    "argsort": lambda x: np.argsort(x, axis=1),
    "partition": lambda x: np.partition(x, 0),
    "cumsum": lambda x: np.cumsum(x, axis=-1),
    "diff": np.diff,
    "flip": lambda x: np.flip(x, axis=1),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "quantile": lambda x: np.quantile(x, 0.5, axis=1),
    "average": lambda x: np.average(x, axis=1, weights=[1, 3]),
    "dot": lambda x: np.dot(x, np.ones((2, 5))),
    "concatenate features": lambda x: np.concatenate([x, x], axis=1),
    "concatenate with an array": lambda x: np.concatenate([x, np.ones((len(ROWS), 1))], axis=-1),
    "stack": lambda x: np.stack([x, x], axis=1),
    "stack last": lambda x: np.stack([x, x], axis=-1),
}
# What leaves no rows leaves nothing for an index to describe.
REDUCED: Mapping[str, Callable[[Any], Any]] = {
    "sum": np.sum,
    "sum over rows": lambda x: np.sum(x, axis=0),
    "mean": np.mean,
    "std over rows": lambda x: np.std(x, axis=0),
    "add.reduce": np.add.reduce,
    "any": np.any,
    "median": np.median,
    "count_nonzero": np.count_nonzero,
    "argmax": np.argmax,
    "allclose": lambda x: np.allclose(x, x),
    "array_equal": lambda x: np.array_equal(x, x),
    "percentile": lambda x: np.percentile(x, 50),
    "quantiles over rows": lambda x: np.quantile(x, [0.1, 0.5], axis=0),
    "norm": lambda x: np.linalg.norm(x),
    "shape": np.shape,
    "size": np.size,
    "product with rows": lambda x: np.ones(3) @ x,
}
DROPPED: Mapping[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array": np.array,
    "array of two": lambda x: np.array([x, x]),
    "from_dlpack": np.from_dlpack,
    "stack": lambda x: np.stack([x, x]),
    "vstack": lambda x: np.vstack([x, x]),
    "concatenate with an array": lambda x: np.concatenate([x, x.data]),
    "concatenate out": lambda x: np.concatenate([x, x], dtype=np.float32),
    "cumsum": np.cumsum,
    "accumulate": np.add.accumulate,
    "reduceat": lambda x: np.add.reduceat(x, [0, 1]),
    "outer": lambda x: np.add.outer(x, x),
    "unique": np.unique,
    "ravel": np.ravel,
    "reshape": lambda x: np.reshape(x, -1),
    "flip": np.flip,
    "roll": lambda x: np.roll(x, 1),
    "take": lambda x: np.take(x, [0, 1]),
    "take rows": lambda x: np.take(x, [0, 1, 2], axis=0),
    "expand_dims": lambda x: np.expand_dims(x, -1 - x.data.ndim),
    "squeeze": np.squeeze,
    "where": np.where,
    "split": lambda x: np.split(x, 1),
    "repeat": lambda x: np.repeat(x, 2),
    "tile": lambda x: np.tile(x, 2),
    "pad": lambda x: np.pad(x, 1),
    "dot": lambda x: np.dot(np.ones((3, 3)), x),
    "isin": lambda x: np.isin(np.arange(3), x),
    "einsum": lambda x: np.einsum("...->...", x),
    "vecdot": lambda x: np.vecdot(x, x),
    "sum as method": lambda x: np.asarray([x]).sum(),
    "fft": lambda x: np.fft.fft(x),
    "savetxt": lambda x: np.savetxt("/dev/null", x),
    "assert_array_equal": lambda x: np.testing.assert_array_equal(x, x),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("kind", TENSORS)
def test_functions_that_keep_the_rows_keep_the_index(name: str, kind: str) -> None:
    tensor = TENSORS[kind]
    found = KEPT[name](tensor)
    assert isinstance(found, LoDTensor)
    assert found.lod is tensor.lod
    np.testing.assert_array_equal(found.data, KEPT[name](tensor.data))


@pytest.mark.parametrize("name", KEPT_OF_WIDE)
def test_reducing_features_keeps_the_index(name: str) -> None:
    found = KEPT_OF_WIDE[name](WIDE)
    assert isinstance(found, LoDTensor)
    assert found.lod is LOD
    np.testing.assert_array_equal(found.data, KEPT_OF_WIDE[name](ROWS))


@pytest.mark.parametrize(
    ("value", "absent"),
    [
        (datetime(2020, 1, 1, 12), datetime(2020, 1, 1, 12, 0, 0, 1)),
        (date(2020, 1, 1), datetime(2020, 1, 1)),
        (timedelta(1), timedelta(0, 0, 1)),
        (Decimal("1.25"), Decimal("1.255")),
        (np.datetime64("2020-01-01T12", "ns"), np.timedelta64(1, "ns")),
    ],
)
def test_objects_are_found_among_values_with_a_unit_but_not_compared(
    value: Any, absent: Any
) -> None:
    tensor = LoDTensor.from_lists([[value], []])
    assert value in tensor
    assert absent not in tensor
    for other in (value, [value], np.array([value])):
        for compute in (operator.eq, operator.ne, operator.lt, operator.add, np.isin):
            with pytest.raises(UnsupportedError, match=r"count the unit of .*found .*as_numbers"):
                compute(tensor, other)
    assert (tensor == None).to_list() == [[False], []]  # noqa: E711
    with pytest.raises(UnsupportedError, match=r"where: expected numbers that count the unit of"):
        np.where(tensor.with_data(np.array([True])), tensor, value)


def test_times_are_found_as_text() -> None:
    tensor = LoDTensor.from_lists([[datetime(2020, 1, 1, 12)], []])
    assert "2020-01-01T12:00" in tensor
    for text in ("2020-01-01", "12", "", "noon"):
        assert text not in tensor


def test_numbers_differ_from_every_word() -> None:
    numbers = LoDTensor([1, 2, 3], [[2, 1]])
    for word in ("a", b"a", ["1", "2", "3"], np.array("1"), np.datetime64("2020", "D")):
        assert (numbers == word).to_list() == [[False, False], [False]]
        assert (numbers != word).to_list() == [[True, True], [True]]
    assert (numbers == "a").lod is numbers.lod
    with pytest.raises(UnsupportedError, match="less"):
        numbers < "a"  # noqa: B015
    with pytest.raises(ValueError, match=r"of shape \(3,\), found shape \(2,\)"):
        numbers == ["1", "2"]  # noqa: B015


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (LoDTensor.from_lists(["ab", "c"]), "compare text with str: `word in tensor` finds"),
        (LoDTensor.from_lists([b"ab"]), "compare bytes with str: `word in tensor` finds"),
        (LoDTensor([0, 1]).as_categories(["a", "b"]), r"category .* categories\.index\(word\)"),
    ],
)
def test_words_are_not_compared_with_codes(tensor: LoDTensor, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        tensor == "ab"  # noqa: B015
    with pytest.raises(UnsupportedError, match=said):
        tensor != "ab"  # noqa: B015


CODES = LoDTensor([1, 0, 1], [[2, 1]])


def in_unit(unit: Times | Decimals | Categories) -> LoDTensor:
    return LoDTensor(CODES.data, CODES.lod, Marks(unit=unit))


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (Categories(("no", "yes")), Categories(("yes", "no")), "category 0: 'no' against 'yes'"),
        (Categories(("no", "yes")), Categories(("no", "yes", "x")), r"category\[2\] against cat"),
        (Times("timestamp", "s"), Times("timestamp", "ms"), r"timestamp\[s\] against timestamp"),
        (Times("timestamp", "s"), Times("timestamp", "s", "UTC"), r"\[s\] against .*\[s, UTC\]"),
        (Times("duration", "s"), Times("time", "s"), r"duration\[s\] against time\[s\]"),
        (Decimals(9, 2), Decimals(9, 3), r"decimal\(9, 2\) against decimal\(9, 3\)"),
        (Decimals(9, 0), Categories(("no", "yes")), r"decimal\(9, 0\) against category\[2\]"),
    ],
    ids=str,
)
def test_equal_numbers_of_different_meaning_are_not_called_equal(
    one: Any, two: Any, said: str
) -> None:
    first, second = in_unit(one), in_unit(two)
    for compare in (operator.eq, operator.ne, operator.lt, np.equal, np.array_equal):
        with pytest.raises(ShapeMismatchError, match=f"{said}.*; as_numbers"):
            compare(first, second)
    assert (first == second.as_numbers()).data.all()
    with pytest.raises(ShapeMismatchError, match=f"value: .*{said}"):
        first.copy()[0] = second[0]
    assert first.difference(second) is not None
    with pytest.raises(AssertionError, match=said):
        first.assert_equal(second)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Categories(("no", "yes")), Categories(("no", "yes"), ordered=True)),
        (Times("timestamp", "s", "UTC"), Times("timestamp", "s", "Europe/Zurich")),
        (Decimals(9, 2), Decimals(12, 2)),
    ],
    ids=str,
)
def test_numbers_of_one_meaning_are_compared(one: Any, two: Any) -> None:
    assert (in_unit(one) == in_unit(two)).data.all()
    assert in_unit(one).difference(in_unit(two)) is not None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Times("timestamp", "us"), Times("duration", "ms")),
        (Decimals(9, 2), Decimals(9, 3)),
        (Categories(("no", "yes")), Categories(("yes", "no"))),
    ],
    ids=str,
)
def test_numbers_that_count_other_units_are_not_added(one: Any, two: Any) -> None:
    first, second = in_unit(one), in_unit(two)
    for function in (operator.add, operator.sub, np.maximum, np.divide, sequence_sub, sequence_div):
        with pytest.raises(ShapeMismatchError, match="as_numbers"):
            function(first, second)


def test_a_duration_is_added_to_a_time() -> None:
    time, wait = in_unit(Times("timestamp", "us", "UTC")), in_unit(Times("duration", "us"))
    assert (time + wait).data.tolist() == sequence_add(time, wait).data.tolist() == [2, 0, 2]


def test_factors_of_matrices_are_segmented_alike() -> None:
    box = LoDTensor(np.ones((3, 2, 2)), [[2, 1]])
    other = LoDTensor(np.ones((3, 2, 2)), [[1, 2]])
    with pytest.raises(ShapeMismatchError, match="item 0 has length 2 against 1"):
        box @ other
    assert (box @ LoDTensor(np.ones((3, 2, 5)), [[2, 1]])).lod is box.lod


def test_factors_whose_axes_come_before_the_rows_are_refused() -> None:
    box = LoDTensor(np.ones((3, 2, 2)), LOD)
    assert (box @ np.ones((3, 2, 5))).lod is LOD
    for product in (
        lambda: WIDE @ np.ones((3, 2, 5)),
        lambda: np.ones((3, 3, 2, 2)) @ box,
        lambda: box @ np.ones((3, 1, 2, 2)),
    ):
        with pytest.raises(UnsupportedError, match=r"np\.matmul"):
            product()


def test_an_average_comes_with_the_sums_of_its_weights() -> None:
    for rows in (WIDE, WIDE[:1]):  # as many rows as there are results, too
        found: Any = np.average(rows, axis=1, weights=[3, 1], returned=True)
        assert [one.lod is rows.lod for one in found] == [True, True]
        assert [one.data.tolist() for one in found] == [
            part.tolist() for part in np.average(rows.data, axis=1, weights=[3, 1], returned=True)
        ]


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("kind", TENSORS)
def test_reducing_rows_gives_plain_results(name: str, kind: str) -> None:
    tensor = TENSORS[kind]
    found = REDUCED[name](tensor)
    assert not isinstance(found, LoDTensor)
    np.testing.assert_array_equal(found, REDUCED[name](tensor.data))


# What goes along the last axis, which is that of rows if each is one number.
ALONG: Mapping[str, Callable[[Any], Any]] = {
    "sort": np.sort,
    "argsort": np.argsort,
    "diff": np.diff,
    "concatenate": lambda x: np.concatenate([x, x.data], axis=-1),
    "quantiles": lambda x: np.quantile(x, [0.1, 0.5], axis=1),
}


@pytest.mark.parametrize("name", sorted(ALONG.keys() - {"quantiles"}))
def test_functions_along_the_rows_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"tensor\.data"):
        ALONG[name](FLAT)


def test_several_quantiles_of_each_row_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.quantile"):
        ALONG["quantiles"](WIDE)


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.parametrize("kind", ["flat", "wide"])
def test_functions_that_would_drop_the_index_are_refused_with_a_remedy(
    name: str, kind: str
) -> None:
    with pytest.raises(UnsupportedError, match=r"tensor\.data"):
        DROPPED[name](TENSORS[kind])


@pytest.mark.parametrize(
    "name", sorted(DROPPED.keys() - {"from_dlpack", "assert_array_equal", "savetxt"})
)
def test_without_levels_there_is_nothing_to_drop(name: str) -> None:
    try:
        expected = DROPPED[name](ROWS)
    except Exception:  # a function that has no answer for such an array
        return
    np.testing.assert_array_equal(DROPPED[name](BOX), expected)


def test_numpys_concatenate_joins_tensors_with_their_levels() -> None:
    for found in (np.concatenate([FLAT, FLAT]), np.concatenate((FLAT, FLAT), axis=0)):
        assert isinstance(found, LoDTensor)
        assert nested(found) == 2 * LISTS["flat"]
    with pytest.raises(ShapeMismatchError, match="row_shape"):
        np.concatenate([FLAT, WIDE])


@pytest.mark.parametrize("values", [["ab", "c"], [[1, None], None]])
def test_numpys_copy_keeps_text_and_nulls(values: list[object]) -> None:
    tensor = LoDTensor.from_lists(values)
    assert np.copy(tensor).identical(tensor)  # type: ignore[attr-defined]
    assert not np.shares_memory(np.copy(tensor).values, tensor.values)  # type: ignore[attr-defined]


def test_a_masked_array_beside_a_tensor_leaves_plain_rows() -> None:
    found = FLAT + np.ma.masked_array(FLAT.data, mask=False)
    assert isinstance(found, LoDTensor)
    assert type(found.data) is np.ndarray


def test_tensors_segmented_differently_do_not_go_into_one_function() -> None:
    other = LoDTensor(FLAT.data, [[1, 1, 1]])
    functions: list[Callable[..., Any]] = [
        np.allclose,
        np.array_equal,
        np.isclose,
        lambda a, b: np.where(a > 0, a, b),
    ]
    for function in functions:
        with pytest.raises(ShapeMismatchError, match=r"levels? against"):
            function(FLAT, other)


def test_properties_of_tensors_do_not_depend_on_their_sequences() -> None:
    part = FLAT[1:]
    assert np.shares_memory(FLAT, part)
    assert np.may_share_memory(FLAT, part)
    assert np.result_type(FLAT, part.astype("int8")) == np.float64


def test_an_operator_whose_left_side_is_a_number_is_as_direct(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes three times as long by way of NumPy's dispatch."""
    monkeypatch.setattr(LoDTensor, "__array_ufunc__", None)
    assert (1 - FLAT).to_list() == [[[1.0, -1.0], []], [], [[-3.0]]]
    assert (2**FLAT).data.tolist() == [1.0, 4.0, 16.0]


def test_a_wrong_call_of_an_operator_names_it() -> None:
    with pytest.raises(TypeError, match=r"^LoDTensor\.__pow__\(\) takes 2"):
        pow(FLAT, 2, 5)  # type: ignore[call-overload]


def test_in_place_functions_write_into_the_rows() -> None:
    tensor = FLAT.copy()
    np.add.at(tensor, [0, 0], 10.0)
    assert tensor.data.tolist() == [20, 2, 4]
    out = np.zeros(2)
    assert np.sum(WIDE, axis=0, out=out) is out
    assert out.tolist() == [6, 9]


@pytest.mark.parametrize(
    "value",
    [
        TensorArray(values=[FLAT, FLAT]),
        LOD,
        StoredArray(*TensorArray.unpack(FLAT)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_conversion_of_a_tensor_to_an_array_is_an_error(value: Any) -> None:
    for call in (np.asarray, np.sum, lambda x: np.stack([x, x]), lambda x: x + np.ones(3)):
        with pytest.raises(
            (UnsupportedError, TypeError), match=r"not an array|unsupported operand"
        ):
            call(value)
    with pytest.raises(UnsupportedError, match="use"):
        LoDTensor(value)
    again = pickle.loads(pickle.dumps(value))
    assert repr(again) == repr(value)


# -- other libraries -------------------------------------------------------------------


@pytest.mark.parametrize("kind", TENSORS)
def test_awkward_takes_the_items_of_a_tensor(kind: str) -> None:
    ak = pytest.importorskip("awkward")
    assert ak.to_list(ak.from_iter(TENSORS[kind])) == LISTS[kind]
    steps = TensorArray(values=[TENSORS[kind]] * 2)
    assert ak.to_list(ak.Array(steps)) == [LISTS[kind]] * 2
    if TENSORS[kind].lod.n_levels:
        with pytest.raises(UnsupportedError, match=r"to_awkward\(\)"):
            ak.Array(TENSORS[kind])
    else:
        assert ak.to_list(ak.Array(TENSORS[kind])) == LISTS[kind]


@pytest.mark.parametrize("kind", TENSORS)
def test_torch_takes_rows_without_levels(kind: str) -> None:
    torch = pytest.importorskip("torch")
    for take in (torch.as_tensor, torch.tensor, torch.asarray, torch.from_dlpack):
        if TENSORS[kind].lod.n_levels:
            with pytest.raises(UnsupportedError, match=r"tensor\.data"):
                take(TENSORS[kind])
        else:
            assert take(TENSORS[kind]).tolist() == LISTS[kind]


@pytest.mark.parametrize("kind", TENSORS)
def test_pandas_takes_rows_without_levels(kind: str) -> None:
    pd = pytest.importorskip("pandas")
    for take in (pd.Series, lambda x: pd.DataFrame({"a": x}), lambda x: pd.DataFrame(x)):
        if TENSORS[kind].lod.n_levels:
            with pytest.raises(UnsupportedError, match=r"tensor\.data"):
                take(TENSORS[kind])
        elif kind == "plain":
            assert np.ravel(take(TENSORS[kind]).to_numpy()).tolist() == LISTS[kind]
    items = pd.Series(list(FLAT), dtype=object)  # as pandas has it: one object an item
    assert [nested(item) for item in items] == LISTS["flat"]


OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor"),
    *("lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne"),
)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", sorted(ALL_DTYPES))
@pytest.mark.filterwarnings("ignore")
def test_operators_are_those_of_the_rows(name: str, dtype: str) -> None:
    """Of every dtype, with numbers on both sides and with tensors of the same index."""
    function = getattr(operator, name)
    rows = np.array([[1, 2], [0, 3], [4, 5]]).astype(
        ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    )
    tensor = LoDTensor(rows, [[2, 1]])
    twice = tensor.with_data(rows[::-1].copy())
    plain = rows[::-1].copy()
    pairs: list[tuple[tuple[Any, Any], tuple[Any, Any]]]
    pairs = [((tensor, number), (rows, number)) for number in (2, 1.5, True, 2j, -1, 300)]
    pairs += [((number, tensor), (number, rows)) for number in (2, 1.5, True, 2j, -1, 300)]
    pairs += [((tensor, twice), (rows, plain)), ((tensor, plain), (rows, plain))]
    for ours, theirs in pairs:
        try:
            wanted = function(*theirs)
        except (TypeError, ValueError, OverflowError) as error:
            with pytest.raises(type(error)):
                function(*ours)
            continue
        found = function(*ours)
        assert found.lod is tensor.lod
        assert found.identical(LoDTensor(wanted, tensor.lod))


@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
@pytest.mark.parametrize("dtype", ["int8", "bool", "float32", "complex64"])
def test_operators_of_one_tensor_are_those_of_its_rows(name: str, dtype: str) -> None:
    function = getattr(operator, name)
    tensor = LoDTensor(np.array([1, 0, 3]).astype(dtype), [[2, 1]])
    try:
        wanted = function(tensor.data)
    except TypeError:
        with pytest.raises(TypeError):
            function(tensor)
        return
    assert function(tensor).identical(tensor.with_data(wanted))


@pytest.mark.parametrize(
    "compute", [lambda x: x + 1, lambda x: 1 - x, lambda x: x * x, abs, np.exp]
)
def test_operators_refuse_nulls(compute: Any) -> None:
    with pytest.raises(UnsupportedError, match="null"):
        compute(LoDTensor.from_lists([[1.5, None]]))


def test_operators_take_arrays_of_other_libraries_as_arrays_of_numpy() -> None:
    torch = pytest.importorskip("torch")
    ak, pa = pytest.importorskip("awkward"), pytest.importorskip("pyarrow")
    other = np.array([2.0, 1.0, 4.0])
    for theirs in (torch.from_numpy(other), ak.Array(other), pa.array(other)):
        for compute in (operator.add, operator.gt, operator.eq, np.maximum, np.fmod):
            assert compute(FLAT, theirs).identical(compute(FLAT, other))
        found: Any = np.clip(FLAT, theirs, 3)
        assert found.data.tolist() == np.clip(FLAT.data, other, 3).tolist()
    assert (torch.ones(3) * FLAT).identical(FLAT)
    # A comparison is booleans, which choose rows, and not uint8, which would be positions.
    above = torch.ones(3) < FLAT
    assert FLAT[above].to_list() == [[[2.0], []], [], [[4.0]]]
    halves = torch.ones(3, dtype=torch.bfloat16)
    assert (FLAT.astype("bfloat16") + halves).dtype == ml_dtypes.bfloat16


def test_operators_refuse_tensors_that_autograd_tracks() -> None:
    torch = pytest.importorskip("torch")
    tracked = torch.ones(3, requires_grad=True)
    for left, right in ((FLAT, tracked), (tracked, FLAT)):
        for compute in (operator.mul, np.add):
            with pytest.raises(InvalidDataError, match=r"autograd; give tensor.detach\(\)"):
                compute(left, right)


@pytest.mark.parametrize("function", [np.mean, np.sum, np.maximum.reduce, np.argmax, np.std])
def test_an_axis_that_rows_do_not_have_is_explained(function: Callable[..., Any]) -> None:
    said = r"^np\.\w+: axis 1 is out of bounds .* axis 0 its rows; ops such as lodcli\.ops\.mean "
    with pytest.raises(SelectionError, match=said):
        function(FLAT, axis=1)
    with pytest.raises(SelectionError, match="axis 2 is out of bounds"):
        function(BOX, axis=2)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (np.diff, "diff"),
        (np.cumsum, "cumsum"),
        (np.add.accumulate, "cumsum"),
        (np.flip, "reverse"),
    ],
)
def test_a_function_that_mixes_sequences_is_refused_with_the_op_that_does_not(
    function: Callable[[Any], Any], op: str
) -> None:
    tensor = LoDTensor(np.array([1, 4, 9, 5, 7]), [[3, 2]])
    with pytest.raises(UnsupportedError, match=rf"lodcli\.ops\.{op}\(tensor\)"):
        function(tensor)
    rows = np.concatenate([function(np.array(one)) for one in ([1, 4, 9], [5, 7])])
    assert OPS[op].load()(tensor).data.tolist() == rows.tolist()


def test_a_roll_is_refused_with_an_op_that_is_said_to_fill_rows() -> None:
    said = r"use lodcli\.ops\.shift\(tensor\), .* fills rows instead of wrapping around$"
    tensor = LoDTensor(np.array([1, 4, 9, 5, 7]), [[3, 2]])
    with pytest.raises(UnsupportedError, match=said):
        np.roll(tensor, 1)
    assert OPS["shift"].load()(tensor).data.tolist() == [0, 1, 4, 0, 5]


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (lambda x, y: x - y, "lodcli.ops.sub(x, lodcli.LoDTensor(y)) takes one row for each"),
        (lambda x, y: x * list(y), "lodcli.ops.mul(x, lodcli.LoDTensor(y)) takes one row for each"),
        (lambda x, y: y - x, "lodcli.ops.expand_as(lodcli.LoDTensor(y), x, level=-1) repeats"),
        (np.maximum, "lodcli.ops.expand_as(lodcli.LoDTensor(y), x, level=-1) repeats the row of"),
    ],
)
def test_an_array_of_one_row_for_each_sequence_is_refused_with_the_op_that_takes_it(
    function: Callable[[Any, Any], Any], advice: str
) -> None:
    tensor = LoDTensor(np.array([1.0, 4.0, 9.0, 5.0, 7.0]), [[3, 2]])
    with pytest.raises(ShapeMismatchError) as found:
        function(tensor, np.array([1.0, 2.0]))
    assert f": 5 rows against an array of 2; {advice}" in str(found.value)
    with pytest.raises(ValueError, match="an array that broadcasts to"):
        function(tensor, np.arange(3.0))
    pooled = LoDTensor(np.array([1.0, 2.0]))
    assert sequence_sub(tensor, pooled).data.tolist() == [0, 3, 8, 3, 5]
    assert OPS["expand_as"].load()(pooled, tensor, level=-1).data.tolist() == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("library", ["numpy.asarray", "pandas.Series", "torch.tensor"])
def test_an_array_of_one_row_for_each_sequence_is_refused_in_place_and_of_other_libraries(
    library: str,
) -> None:
    module, _, name = library.partition(".")
    means = getattr(pytest.importorskip(module), name)([1.0, 2.0])
    tensor: Any = LoDTensor(np.array([1.0, 4.0, 9.0, 5.0, 7.0]), [[3, 2]])
    said = r"5 rows against an array of 2; lodcli\.ops\.sub\(x, lodcli\.LoDTensor\(y\)\) takes"
    subtract: tuple[Callable[[], Any], ...] = (
        lambda: operator.sub(tensor, means),
        lambda: tensor.__isub__(means),
        lambda: np.subtract(tensor, means, dtype=np.float32),
        lambda: np.subtract(tensor, means, out=tensor.copy()),
    )
    for call in subtract:
        with pytest.raises(ShapeMismatchError, match=said):
            call()
    assert sequence_sub(tensor, LoDTensor(means)).data.tolist() == [0, 3, 8, 3, 5]
