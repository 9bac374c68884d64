"""LoDTensor: rows and index never out of step, views, NumPy functions."""

from __future__ import annotations

import copy
import pickle
import warnings
import weakref
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    SelectionError,
    ShapeMismatchError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.oracles import gathered, rows_of, tree_of
from tests.strategies import BFLOAT16, DTYPES, FLOATS, tensors

LOD = LoD.from_lengths([[3, 1, 2]])


def reshape_in_place(array: Any, shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        # Newer NumPys warn of it, and still do it.
        warnings.simplefilter("ignore", DeprecationWarning)
        array.shape = shape


def words() -> LoDTensor:
    return LoDTensor(np.arange(6.0), LOD)


def test_shape_dtype_and_size_are_the_datas() -> None:
    frames = LoDTensor(np.zeros((6, 4, 3), np.float32), LOD)
    assert (frames.rows, len(frames), frames.row_shape) == (6, 3, (4, 3))
    assert (str(frames.dtype), frames.nbytes) == ("float32", 6 * 4 * 3 * 4)
    assert repr(frames).startswith("LoDTensor(6 x 4 x 3 float32, LoD.from_lengths([[3, 1, 2]])")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_type_is_data(dtype: np.dtype[Any]) -> None:
    assert LoDTensor(np.zeros(6, dtype), LOD).dtype == dtype


@pytest.mark.parametrize(
    "data",
    [
        np.array(["a"]),
        np.array([b"a"]),
        np.array([None]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([1], "timedelta64[s]"),
        np.zeros(1, "V8"),
        np.zeros(1, np.longdouble),
        np.zeros(1, ml_dtypes.float8_e5m2),
        np.zeros(1, [("x", np.int64)]),
        np.array(["a"], np.dtypes.StringDType()),
    ],
    ids=lambda data: str(data.dtype),
)
def test_anything_but_numbers_is_refused(data: Any) -> None:
    with pytest.raises(
        InvalidDataError, match="data must be numbers or booleans of at most 64 bits, found"
    ):
        LoDTensor(data)


def test_bytes_in_another_order_are_turned_round() -> None:
    found = LoDTensor(np.array([1, 256, -2], ">i4"), [[2, 1]])
    assert found.dtype.isnative
    assert found.data.tolist() == [1, 256, -2]


def test_a_single_value_has_no_rows() -> None:
    with pytest.raises(InvalidDataError, match="needs a row axis"):
        LoDTensor(np.float64(1))


# -- never out of step: what went wrong in Paddle --------------------------------------


def test_lengths_given_to_the_constructor_are_checked_against_the_rows() -> None:
    with pytest.raises(InvalidLoDError, match="expected 5, found 6") as caught:
        LoDTensor(np.zeros(5), [[3, 1, 2]])
    assert (caught.value.level, caught.value.position) == (0, 3)
    with pytest.raises(InvalidLoDError, match="level 1, position 2"):
        LoDTensor(np.zeros(5), [[2], [3, 3]])


@pytest.mark.parametrize("levels", [[[0, 3, 5]], [[0, 1, 2], [0, 3, 5]]])
def test_offsets_given_as_lengths_are_recognized(levels: list[list[int]]) -> None:
    hint = "; the lengths seem to be offsets$"
    with pytest.raises(InvalidLoDError, match=hint):
        LoDTensor(np.zeros(5), levels)
    with pytest.raises(InvalidLoDError, match=hint):
        LoDTensor.from_lengths(np.zeros(5), levels)
    with pytest.raises(InvalidLoDError, match=hint):
        LoDTensor(np.zeros(5)).set_recursive_sequence_lengths(levels)


@pytest.mark.parametrize("lengths", [[], [5, 1], [0, 5, 1], [0, 0, 6]])
def test_other_lengths_are_not_taken_for_offsets(lengths: list[int]) -> None:
    with pytest.raises(InvalidLoDError, match=r"number of rows \(expected 5, found \d\)$"):
        LoDTensor(np.zeros(5), [lengths])


def test_the_data_cannot_be_replaced_under_the_index() -> None:
    tensor = words()
    with pytest.raises(AttributeError):
        tensor.data = np.zeros(2)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        tensor.lod = LoD()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        tensor.rows = 2  # type: ignore[misc]


@pytest.mark.parametrize("get", [lambda tensor: tensor.data, np.asarray], ids=["data", "asarray"])
def test_reshaping_what_was_handed_out_leaves_the_tensor_alone(
    get: Callable[[LoDTensor], Any],
) -> None:
    tensor = LoDTensor(np.arange(6.0))
    reshape_in_place(get(tensor), (2, 3))
    assert tensor.data.shape == (6,)
    with pytest.raises(ValueError, match="resize"):
        get(tensor).resize(2)


def test_resizing_or_reshaping_the_callers_array_leaves_the_tensor_alone() -> None:
    mine = np.arange(6.0)
    tensor = LoDTensor(mine, LOD)
    reshape_in_place(mine, (2, 3))
    with pytest.raises(ValueError, match="referenc"):
        mine.resize(2)
    assert tensor.data.tolist() == [0, 1, 2, 3, 4, 5]


def test_other_rows_must_fit_the_index() -> None:
    tensor = words()
    assert tensor.with_data(np.zeros((6, 2))).lod is tensor.lod
    with pytest.raises(InvalidLoDError, match="expected 4, found 6"):
        tensor.with_data(np.zeros(4))


def test_a_refused_index_leaves_the_old_one() -> None:
    tensor = words()
    for wrong in ([[3, 1]], [[2], [3, 4]], [[3, -1, 4]]):
        with pytest.raises(InvalidLoDError):
            tensor.set_recursive_sequence_lengths(wrong)
        assert tensor.lod is LOD
    tensor.set_recursive_sequence_lengths([[1, 2], [2, 0, 4]])
    assert tensor.recursive_sequence_lengths() == [[1, 2], [2, 0, 4]]
    assert LOD.recursive_sequence_lengths() == [[3, 1, 2]]


def test_slicing_keeps_the_index_of_what_is_kept() -> None:
    assert words()[1:3].recursive_sequence_lengths() == [[1, 2]]
    assert words()[-1].data.tolist() == [4, 5]


def test_tensors_segmented_differently_do_not_add() -> None:
    with pytest.raises(ShapeMismatchError, match=r"add: .*item 0 has length 3 against 2"):
        words() + LoDTensor(np.arange(6.0), [[2, 2, 2]])
    with pytest.raises(ShapeMismatchError, match="1 level against 0"):
        words() + LoDTensor(np.arange(6.0))
    with pytest.raises(ShapeMismatchError, match="6 rows against 1"):
        LoDTensor(np.zeros((6, 1))) + LoDTensor(np.zeros((1, 1)))


# -- views and copies ------------------------------------------------------------------


def test_a_tensor_is_a_view_of_the_callers_array() -> None:
    mine = np.arange(6.0)
    tensor = LoDTensor(mine, LOD)
    tensor[2].data[0] = 40
    assert mine.tolist() == [0, 1, 2, 3, 40, 5]


def test_read_only_stays_read_only() -> None:
    mine = np.arange(6.0)
    mine.flags.writeable = False
    assert not LoDTensor(mine, LOD)[0].data.flags.writeable


@given(tensors(any_bits=True))
def test_a_copy_is_identical_and_apart(tensor: LoDTensor) -> None:
    own = tensor.copy()
    assert own.identical(tensor)
    assert own.lod is tensor.lod
    assert own.data.flags.c_contiguous
    assert own.data.flags.writeable
    assert not np.shares_memory(own.data, tensor.data)
    for again in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert again.identical(tensor)


def test_identical_sees_every_difference() -> None:
    one = LoDTensor(np.array([0.0, np.nan]), LoD([[0, 1, 2]]))
    assert one.identical(LoDTensor(np.array([0.0, np.nan]), LoD([[0, 1, 2]])))
    for other in (
        LoDTensor(np.array([-0.0, np.nan]), one.lod),
        LoDTensor(np.array([0.0, np.nan], np.float32), one.lod),
        LoDTensor(np.array([[0.0], [np.nan]]), one.lod),
        LoDTensor(np.array([0.0, np.nan]), LoD([[0, 2]])),
        LoDTensor(np.array([0.0, np.nan]), one.lod.with_names(["word"])),
    ):
        assert not one.identical(other)


@given(tensors(any_bits=True))
def test_iterating_yields_the_outermost_items(tensor: LoDTensor) -> None:
    tree = tree_of(tensor.recursive_sequence_lengths(), tensor.rows)
    items = list(tensor)
    assert len(items) == len(tensor) == len(tree)
    for item, expected in zip(items, tree, strict=True):
        rows = item.data if isinstance(item, LoDTensor) else item
        assert rows.tobytes() == gathered(tensor.data, rows_of(expected)).tobytes()
    assert [np.shape(item) for item in reversed(tensor)] == [np.shape(item) for item in items[::-1]]


def test_a_single_number_is_itself_and_no_slice_of_a_file() -> None:
    assert words()[2, 1] == words()[2][1] == words()[2][-1] == 5
    with pytest.raises(SelectionError, match="0:1"):
        words().select(0, 0)
    assert words()[0, 0:1].data.tolist() == [0]
    assert LoDTensor(np.zeros((6, 2)), LOD)[0, 0].data.shape == (2,)


@given(st.lists(tensors(FLOATS[:1], [(2,)], 2, 2), min_size=1, max_size=4))
def test_concatenated_tensors_hold_all_items_in_order(parts: list[LoDTensor]) -> None:
    whole = LoDTensor.concatenate(parts)
    items = [item for part in parts for item in part]
    assert len(whole) == len(items)
    for found, item in zip(whole, items, strict=True):
        assert found.data.tobytes() == item.data.tobytes()
        assert found.lod.same_levels(item.lod)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (LoDTensor(np.zeros((6, 2)), LOD), r"row_shape of part 0 is \(\), of part 1 \(2,\)"),
        (LoDTensor(np.zeros(6, np.float32), LOD), "dtype of part 0 is float64, of part 1 float32"),
        (LoDTensor(np.zeros(6)), "part 0 has 1 levels, part 1 has 0"),
    ],
)
def test_tensors_that_do_not_fit_do_not_concatenate(other: LoDTensor, message: str) -> None:
    with pytest.raises(ShapeMismatchError, match=message):
        LoDTensor.concatenate([words(), other])
    with pytest.raises(ShapeMismatchError, match="nothing to concatenate"):
        LoDTensor.concatenate([])


# -- NumPy functions -------------------------------------------------------------------


@given(tensors(FLOATS))
def test_elementwise_functions_pass_the_index_object_on(tensor: LoDTensor) -> None:
    for result in (
        np.tanh(tensor),
        tensor * 2,
        1 + tensor,
        -tensor,
        tensor + tensor,
        tensor > 0,
        np.maximum(tensor, 0),
        *np.modf(tensor),
    ):
        assert isinstance(result, LoDTensor)
        assert result.lod is tensor.lod
    np.testing.assert_array_equal((2 * tensor - 1).data, 2 * tensor.data - 1)


def test_an_equal_index_is_as_good_as_the_same() -> None:
    total = words() + LoDTensor(np.ones(6), [[3, 1, 2]])
    assert total.lod is LOD
    assert total.data.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_result_that_no_longer_has_the_rows_is_refused() -> None:
    with pytest.raises(ShapeMismatchError, match=r"add: the result of shape \(6, 6\)"):
        words() + np.zeros((6, 1))
    with pytest.raises(ShapeMismatchError, match=r"shape \(3, 1\)"):
        LoDTensor(np.zeros((1, 1)), [[1]]) + np.zeros((3, 1))


def test_in_place_and_out_write_where_they_should() -> None:
    tensor = words()
    data = tensor.data
    tensor += 1
    assert data.tolist() == [1, 2, 3, 4, 5, 6]
    assert isinstance(tensor, LoDTensor)
    assert tensor.lod is LOD
    out = LoDTensor(np.zeros(6), LOD)
    assert np.negative(tensor, out=out) is out  # type: ignore[call-overload]
    assert out.data.tolist() == [-1, -2, -3, -4, -5, -6]
    with pytest.raises(ShapeMismatchError, match="segmented differently"):
        np.negative(tensor, out=LoDTensor(np.zeros(6), [[6]]))  # type: ignore[call-overload]
    np.add.at(tensor, [0, 0], 10.0)
    assert tensor.data[0] == 21


def test_one_row_for_each_sequence_is_combined_by_ops() -> None:
    tensor = LoDTensor(np.arange(6.0), [[2, 1], [2, 0, 4]])
    means = lodcli.ops.mean(tensor)
    with pytest.raises(ShapeMismatchError, match=r"2 levels against 1; lodcli\.ops\.sub\(x, y\)"):
        tensor - means
    assert lodcli.ops.sub(tensor, means).data.tolist() == [-0.5, 0.5, -1.5, -0.5, 0.5, 1.5]
    for names, combine in (
        ("x, y", lambda: means * tensor),  # the operands in their order
        ("y, x", lambda: np.maximum(tensor, means)),
    ):
        said = rf"; lodcli\.ops\.expand_as\({names}, level=-1\)"
        with pytest.raises(ShapeMismatchError, match=said):
            combine()
    rows = lodcli.ops.expand_as(means, tensor, level=-1)
    assert np.maximum(tensor, rows).data.tolist() == [0.5, 1, 3.5, 3.5, 4, 5]
    for other in (LoDTensor(np.ones(2)), LoDTensor(np.ones(3), [[1, 2]])):
        with pytest.raises(ShapeMismatchError, match=r"against [0-9]+$"):
            tensor + other


def test_where_may_be_a_tensor_of_the_same_index() -> None:
    tensor, out = words(), LoDTensor(np.zeros(6), LOD)
    np.multiply(tensor, 10, out=out, where=tensor > 3)  # type: ignore[call-overload]
    assert out.data.tolist() == [0, 0, 0, 0, 40, 50]
    other = LoDTensor(np.ones(6, np.bool_), [[6]])
    with pytest.raises(ShapeMismatchError, match="segmented differently"):
        np.multiply(tensor, 10, out=out, where=other)  # type: ignore[call-overload]


def test_comparing_gives_a_tensor_that_is_neither_true_nor_false() -> None:
    same = words() == words()
    assert isinstance(same, LoDTensor)
    assert same.data.all()
    with pytest.raises(InvalidDataError, match="truth value of a tensor is ambiguous"):
        bool(words() == words() + 1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(words())


def test_asarray_shares_and_array_copies() -> None:
    tensor = LoDTensor(np.arange(6.0))
    assert np.shares_memory(np.asarray(tensor), tensor.data)
    assert not np.shares_memory(np.array(tensor), tensor.data)
    assert np.asarray(tensor, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, np.float32, copy=False)


def test_bfloat16_computes() -> None:
    tensor = LoDTensor(np.ones(6, BFLOAT16), LOD)
    assert (tensor + tensor).dtype == BFLOAT16


@pytest.mark.parametrize(
    "texts",
    [
        ["car", "bus", "car", ""],
        [["b", "ä"], [], ["b", None], None],
        [[["x"], []], [["y", "x"]]],
        [],
    ],
    ids=repr,
)
def test_texts_become_categories_as_in_arrow(texts: list[Any]) -> None:
    words = LoDTensor.from_lists(texts) if texts else LoDTensor.from_lists(["a"])[:0]
    found = words.as_categories()
    assert found.to_list() == texts
    assert found.lod.n_levels == words.lod.n_levels - 1
    assert found.dtype == np.int64
    assert found.as_text().identical(words)
    column = words.to_arrow()
    while not pa.types.is_large_string(column.type):
        column = column.flatten()
    coded = column.dictionary_encode()
    assert found.categories == tuple(sorted(coded.dictionary.to_pylist()))
    valid = slice(None) if found.nulls.rows is None else found.nulls.rows
    assert [found.categories[code] for code in found.values[valid]] == [
        one for one in coded.to_pylist() if one is not None
    ]


def test_texts_become_the_given_categories() -> None:
    words = LoDTensor.from_lists([["no"], ["yes", "no"]])
    found = words.as_categories(["yes", "no", "maybe"], ordered=True)
    assert found.data.tolist() == [1, 0, 1]
    assert found.marks == Marks(unit=Categories(("yes", "no", "maybe"), True))
    with pytest.raises(InvalidDataError, match=r"^text <1,0>: no category 'yes'; there are: 'no'$"):
        words.as_categories(["no"])
    wrong = words.copy()
    wrong.data[0] = 255
    with pytest.raises(InvalidDataError, match=r"item <0,0>: is not UTF-8 \(byte 0xff"):
        wrong.as_categories()
    for one, said in ((None, "none"), ("no", "one text")):
        with pytest.raises(InvalidDataError, match=f"expected a list of words, found {said}"):
            LoDTensor([0, 1]).as_categories(one)


def test_categories_of_numpy_are_those_of_python() -> None:
    labels = LoDTensor([1, 0]).as_categories(np.array(["no", "yes"]))  # type: ignore[arg-type]
    assert repr(labels) == "LoDTensor(2 category[2], ['yes', 'no'])"


def test_text_and_categories_are_found_by_their_words() -> None:
    texts = LoDTensor.from_lists([["ab", "", None, "ü"], []])
    assert ["ab" in texts, "" in texts, "ü" in texts] == [True] * 3
    assert not any(word in texts for word in ("a", "b", "ba", "abc", b"ab", "\ud800"))
    assert "" not in LoDTensor.from_lists(["a", None])
    data = LoDTensor.from_lists([[b"ab"], [b"c"]])
    assert b"c" in data
    assert "c" not in data
    labels = LoDTensor.from_lists([[1, None], [1]]).as_categories(["no", "yes", "maybe"])
    assert [word in labels for word in ("no", "yes", "none")] == [False, True, False]
    assert "no" not in LoDTensor([1.0, 2.0], [[2]])


def test_lists_and_arrays_are_found_among_the_outermost_items() -> None:
    words = LoDTensor.from_lists([[[1, 2], [3]], [[4, 5]], [[], [6, None]], None, []])
    items: list[Any] = [[[1, 2], [3]], [[4, 5]], np.array([[4, 5]]), [[], [6, None]], []]
    others: list[Any] = [[[1, 2], [4]], [1, 2, 3], [[1, 2, 3]], np.array([4, 5]), [[6, None]], [[]]]
    assert all(item in words for item in items)
    assert not any(item in words for item in others)
    assert ["yes", "no"] in LoDTensor([1, 0], [[2]]).as_categories(["no", "yes"])
    assert ["a", "bc"] in LoDTensor.from_lists([["a", "bc"], ["d"]])


def test_arrays_of_awkward_are_found_as_lists() -> None:
    ak = pytest.importorskip("awkward")
    words = LoDTensor.from_lists([[[1, 2], [3]], [[4, 5]]])
    assert ak.Array([[1, 2], [3]]) in words
    assert ak.Array([[1, 2], [4]]) not in words


def test_codes_without_a_word_are_not_converted() -> None:
    codes = LoDTensor([1, -1, 1], [[2, 1]], Marks(unit=Categories(("no", "yes"))))
    other = Categories(("yes", "no"))
    for convert in (codes.as_text, codes.to_arrow, lambda: codes.recoded(other)):
        with pytest.raises(InvalidDataError, match="item <0,1>: expected the code of one of 2"):
            convert()


def test_bytes_that_are_no_text_are_not_converted() -> None:
    words = LoDTensor.from_lists(["ab", "c"])
    words[1] = 200
    with pytest.raises(InvalidDataError, match=r"item <1>: is not UTF-8 \(byte 0xc8 at"):
        words.to_list()


@pytest.mark.parametrize("value", [None, 1j, 300, "a"])
def test_a_value_of_another_type_is_not_set(value: Any) -> None:
    tensor = LoDTensor(np.zeros(2, np.int8), [[2]])
    with pytest.raises(InvalidDataError, match="value: "):
        tensor[:] = value
    assert tensor.data.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (Decimal("1.25"), Decimal("9.50"), (Decimal("9.501"), "9.50", 1.5, datetime(2020, 1, 1))),
        (datetime(2020, 1, 1), datetime(2021, 2, 3, 4), (Decimal(5), "tomorrow", 0.5)),
        (date(2020, 1, 1), date(2021, 2, 3), (datetime(2020, 1, 1, 12), timedelta(1))),
        ("no", "yes", ("maybe", 2, -1, 0.5, np.array([2]), Decimal(1))),
    ],
)
def test_a_value_with_a_unit_is_set_as_the_number_that_stands_for_it(
    old: Any, new: Any, wrong: tuple[Any, ...]
) -> None:
    tensor = LoDTensor.from_lists([[old, old], [old]])
    if isinstance(old, str):
        tensor = LoDTensor(np.zeros(3, np.int8), [[2, 1]]).as_categories(["no", "yes"])
    for value in wrong:
        with pytest.raises(InvalidDataError):
            tensor[1] = value
    tensor[0] = [new, old]
    tensor[1] = new
    assert tensor.to_list() == [[new, old], [new]]
    tensor[0] = np.array([old, new])
    tensor[1, 0] = tensor.data[0]
    assert tensor.to_list() == [[old, new], [old]]
    tensor[0] = [new, tensor.data[0]]
    assert tensor.to_list() == [[new, old], [old]]
    with pytest.raises(InvalidDataError, match=r"expected whole numbers for a .*, found 0\.5$"):
        tensor[0] = [1, 0.5]


def test_tensors_can_be_referred_to_weakly() -> None:
    tensor = LoDTensor([1, 2], [[2]])
    assert weakref.ref(tensor)() is tensor
    array = TensorArray()
    assert weakref.ref(array)() is array


def test_the_repr_of_categories_shows_some_words() -> None:
    few = Categories(("no", "yes"), ordered=True)
    assert repr(few) == "Categories(words=('no', 'yes'), ordered=True)"
    many = repr(Categories(tuple(map(str, range(5000)))))
    assert many.startswith("Categories(words=('0', '1', ")
    assert many.endswith("'19', .. 4,980 more), ordered=False)")
