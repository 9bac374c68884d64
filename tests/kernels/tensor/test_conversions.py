"""Tensors from other libraries and back: the same lists, the same memory, clear refusals."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    OptionError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles import tree_of
from tests.strategies import lods, tensors

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
FLAT = LoDTensor(ROWS, LoD.from_lengths([[3, 1, 2]]))
DEEP = LoDTensor(ROWS, LoD.from_lengths([[2, 0, 1], [3, 1, 2]], ["article", "sentence"]))
NESTED = [[[0, 1], [2, 3], [4, 5]], [[6, 7]], [[8, 9], [10, 11]]]  # FLAT, by hand
# What Arrow and Awkward have too.
COMMON = tuple(
    np.dtype(name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64"),
    )
)


def same(found: LoDTensor, expected: LoDTensor) -> bool:
    """Return whether everything except the names of levels is equal."""
    return found.identical(LoDTensor(expected.data, expected.lod.with_names(None)))


# -- lists and boxes -------------------------------------------------------------------


@given(lods(min_levels=1))
def test_lists_are_those_of_a_plain_loop(lod: LoD) -> None:
    rows = lod.rows or 0
    expected = tree_of(lod.recursive_sequence_lengths(), rows)
    assert LoDTensor(np.arange(rows), lod).to_list() == expected


@given(tensors(dtypes=COMMON, row_shapes=[(), (3,)]))
def test_lists_of_known_depth_come_back(tensor: LoDTensor) -> None:
    levels = tensor.lod.n_levels
    again = LoDTensor.from_lists(tensor.to_list(), levels=levels, dtype=tensor.dtype)
    assert again.lod == tensor.lod.with_names(None)
    if tensor.rows:
        np.testing.assert_array_equal(again.data, tensor.data)


def test_depth_is_found_and_named() -> None:
    found = LoDTensor.from_lists([[[1, 2], [3]], [], [[4]]], names=["article", "sentence"])
    assert found.recursive_sequence_lengths() == [[2, 0, 1], [2, 1, 1]]
    assert found.lod.names == ("article", "sentence")
    assert LoDTensor.from_lists([[], []]).recursive_sequence_lengths() == [[0, 0]]
    assert LoDTensor.from_lists([], levels=2).recursive_sequence_lengths() == [[], []]
    assert LoDTensor.from_lists([1, 2]).lod.n_levels == 0


_CYCLE: list[Any] = [[]]
_CYCLE[0].append(_CYCLE)


@pytest.mark.parametrize(
    ("values", "levels", "said"),
    [
        ([[1], 2], None, "a list at position 1 of depth 0, found int"),
        ([1, [2]], None, "a list at position 1 of depth 0, beside int"),
        ([[1], [2]], 2, "expected 2 levels of lists, found 1, then int"),
        ([["a", 1]], None, "expected str at position 1 of depth 1, as before, found int"),
        ([[1, "a"]], None, "expected int at position 1 of depth 1, as before, found str"),
        ([[[1, 2], [3]]], 1, "from_lists takes nested lists"),
        ([[1], [{2}]], None, "text, times, decimals or None, found set at position 1 of depth"),
        ([[2, 2**64]], None, "found 18446744073709551616 at position 1 of depth 1"),
        ([[2**63], [-1]], None, "no dtype holds negative numbers and those of uint64"),
        ([np.array([2**63], np.uint64), np.array([-1])], None, "no dtype holds negative numbers"),
        ([np.ma.array([1, 2], mask=[False, True])], None, "masked array, whose mask would be lost"),
        (_CYCLE, None, "a list contains itself"),
        ([[[[[[_CYCLE, _CYCLE]]]]]], None, "a list contains itself"),
        (np.ones(3), None, "found ndarray"),
        ([np.ones((2, 3)), np.ones((2, 4))], None, r"array 1 has rows of shape \(4,\)"),
    ],
)
def test_lists_that_are_no_tensor_say_where(values: Any, levels: int | None, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_lists(values, levels=levels)


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        ([np.array([1]), np.array([1, 300])], "uint8", "uint8: found 300 in row 2"),
        ([np.array([1.0, np.nan])], "int32", "int32: found nan in row 1"),
        ([np.array([[1], [-1]])], "uint64", "uint64: found -1 in row 1"),
        ([np.array([1j])], "float64", "float64: found 1j in row 0"),
        ([[np.int64(300)]], "uint8", "uint8: found 300 in row 0"),
        ([[1.0, 1e6]], "float16", "float16: found 1000000.0 in row 1"),
    ],
)
def test_numbers_out_of_range_of_a_dtype_are_errors(values: Any, dtype: str, said: str) -> None:
    with pytest.raises(InvalidDataError, match=f"cannot be rows of {said}"):
        LoDTensor.from_lists(values, dtype=dtype)


def test_numbers_in_range_of_a_dtype_are_converted() -> None:
    found = LoDTensor.from_lists([[1.7, np.nan, np.inf]], dtype="float16")
    np.testing.assert_array_equal(found.data, np.array([1.7, np.nan, np.inf], np.float16))
    assert LoDTensor.from_arrays([np.array([1.7, -1.7])], dtype="int8").to_list() == [[1, -1]]
    assert LoDTensor.from_arrays([np.zeros((2, 0, 3))], dtype="int8").row_shape == (0, 3)


def test_whole_numbers_that_only_uint64_holds_keep_their_digits() -> None:
    most = 2**64 - 1
    for found in (
        LoDTensor([1, most], [[2]]),
        LoDTensor.from_lists([[1, most]]),
        LoDTensor.from_lists([[1, most]], dtype="uint64"),
        LoDTensor.from_lists([[[1], [most]]], levels=1, dtype="uint64").with_data([1, most]),
        LoDTensor.from_padded([[1, most, 0]], lengths=[2]),
    ):
        assert found.dtype == np.uint64
        assert found.to_list() == [[1, most]]
    with pytest.raises(InvalidDataError, match="no dtype holds negative numbers and those of"):
        LoDTensor([-1, most], [[2]])
    assert LoDTensor.from_lists([[-1, most]], dtype="float64").to_list() == [[-1.0, 2.0**64]]
    assert LoDTensor([-1.0, most], [[2]]).to_list() == [[-1.0, 2.0**64]]


def test_text_of_numpy_is_text() -> None:
    words = np.array(["Grüß", "a", ""])
    expected = LoDTensor.from_lists([words.tolist()])
    assert LoDTensor.from_lists([list(words)]).identical(expected)
    assert LoDTensor.from_lists([["Grüß", *words[1:]]]).identical(expected)
    assert LoDTensor.from_lists([list(np.array([b"a", b"bc"]))]).to_list() == [[b"a", b"bc"]]


def test_numbers_that_the_dtype_does_not_hold_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="cannot be rows of uint8"):
        LoDTensor.from_lists([[1, 300]], dtype="uint8")


def test_arrays_are_joined_and_come_back_as_views() -> None:
    arrays = [ROWS[:3], ROWS[3:4], ROWS[4:]]
    assert same(LoDTensor.from_arrays(arrays), FLAT)
    assert LoDTensor.from_arrays([arrays[:2], [], arrays[2:]]).lod == DEEP.lod.with_names(None)
    for found, expected in zip(FLAT.to_arrays(), arrays, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [len(part) for part in DEEP.to_arrays()] == [2, 0, 1]


def test_a_padded_box_by_lengths_and_by_mask() -> None:
    padded, lengths = FLAT.to_padded(value=-1)
    assert padded[1].tolist() == [[6, 7], [-1, -1], [-1, -1]]
    assert same(LoDTensor.from_padded(padded, lengths=lengths), FLAT)
    mask = np.arange(3) < lengths[:, None]
    assert same(LoDTensor.from_padded(padded, mask=mask), FLAT)
    assert same(LoDTensor.from_padded(padded, mask=mask.astype(np.int64)), FLAT)
    left = np.where(mask[:, ::-1, None], padded[:, ::-1], 0)  # padding in front
    assert same(LoDTensor.from_padded(left, mask=mask[:, ::-1]), lodcli.ops.reverse(FLAT))


def test_a_padded_array_has_the_length_and_the_sequences_of_the_level_asked_for() -> None:
    words = LoDTensor([1, 2, 3, 4], [[2, 1], [1, 2, 1]])
    padded, lengths = words.to_padded(level=0, length=4)
    assert padded.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert lengths.tolist() == [3, 1]
    with pytest.raises(ShapeMismatchError, match="sequence 0 has 3 rows"):
        words.to_padded(level=0, length=2)
    with pytest.raises(SelectionError):
        words.to_padded()  # two levels, and none is named


def test_one_of_lengths_and_mask_is_needed() -> None:
    with pytest.raises(OptionError, match="one of lengths and mask, found 0"):
        LoDTensor.from_padded([[1]])
    with pytest.raises(OptionError, match="one of lengths and mask, found 2"):
        LoDTensor.from_padded([[1]], lengths=[1], mask=[[True]])
    with pytest.raises(InvalidDataError, match=r"mask: expected shape \(1, 2\)"):
        LoDTensor.from_padded([[1, 2]], mask=[[True]])
    with pytest.raises(InvalidDataError, match="mask: expected true and false"):
        LoDTensor.from_padded([[1, 2]], mask=[[3, 1]])


def test_equal_lengths_are_an_array() -> None:
    even = LoDTensor(np.arange(12), [[2, 2], [3, 3, 3, 3]])
    assert even.to_numpy().shape == (2, 2, 3)
    np.testing.assert_array_equal(even.to_numpy(), np.arange(12).reshape(2, 2, 3))
    with pytest.raises(UnsupportedError, match="level 0: item 0 has length 3 and item 1 1"):
        FLAT.to_numpy()


# -- forms of an index -----------------------------------------------------------------


def test_an_index_in_every_form() -> None:
    assert same(LoDTensor.from_lengths(ROWS, [3, 1, 2]), FLAT)
    assert same(LoDTensor.from_lengths(ROWS, [[2, 0, 1], [3, 1, 2]]), DEEP)
    assert same(LoDTensor.from_lengths(ROWS, [[3, 1, 2], [2, 0, 1]], order="fine-to-coarse"), DEEP)
    assert same(LoDTensor.from_offsets(ROWS, np.array([0, 3, 4, 6], np.int32)), FLAT)
    assert same(LoDTensor.from_offsets(ROWS, [[0, 2, 2, 3], [0, 3, 4, 6]]), DEEP)
    assert same(LoDTensor.from_row_splits(ROWS, [0, 3, 4, 6]), FLAT)
    assert same(LoDTensor.from_cu_seqlens(ROWS, np.array([0, 3, 4, 6], np.int32)), FLAT)
    assert same(LoDTensor.from_row_ids(ROWS, [0, 0, 0, 1, 2, 2]), FLAT)
    assert LoDTensor.from_row_ids(ROWS, [1] * 6, count=3).lod == LoD.from_lengths([[0, 6, 0]])
    assert LoDTensor.from_cu_seqlens(ROWS, [0, 6], name="sentence").lod.names == ("sentence",)


def test_an_index_counted_in_rows() -> None:
    two = LoDTensor(ROWS, [[2, 1], [3, 1, 2]])
    for offsets in ([[0, 4, 6], [0, 3, 4, 6]], [[0, 4], [0, 3, 4]]):  # with totals, and without
        assert same(LoDTensor.from_offsets(ROWS, offsets, absolute=True), two)
        found = LoDTensor.from_offsets(ROWS, offsets[::-1], absolute=True, order="fine-to-coarse")
        assert same(found, two)
    assert same(LoDTensor.from_lengths(ROWS, [[4, 2], [3, 1, 2]], absolute=True), two)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([0, 0, 0, 2, 1, 2], "position 4: expected at least 2, found 1"),
        ([0, 0, 0], "one for each of 6 rows, found 3"),
        ([-1, 0, 0, 0, 0, 0], "expected 0 to 2, found -1"),
        ([0, 0, 0, 0, 0, 3], "expected 0 to 2, found 3"),
        ([0.5] * 6, "whole numbers, found 1 dimensions of float64"),
    ],
)
def test_bad_row_ids_say_what_is_wrong(ids: list[float], said: str) -> None:
    with pytest.raises(InvalidDataError, match=f"row_ids.*{said}"):
        LoDTensor.from_row_ids(ROWS, ids, count=3)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([0, 0, 0, 0, 0, 2**60], f"the lengths of {2**60 + 1} sequences do not fit"),
        (np.full(6, 2**63, np.uint64), f"less than 2.*found {2**63}"),
        ([-1, 0, 0, 0, 0, 0], "expected 0 or more, found -1"),
    ],
)
def test_row_ids_without_a_count_say_what_is_wrong(ids: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=f"row_ids: .*{said}"):
        LoDTensor.from_row_ids(ROWS, ids)


def test_an_index_that_does_not_fit_is_refused() -> None:
    for make in (LoDTensor.from_offsets, LoDTensor.from_cu_seqlens, LoDTensor.from_row_splits):
        with pytest.raises(InvalidLoDError, match="number of rows"):
            make(ROWS, [0, 3, 4])
    with pytest.raises(InvalidDataError, match="lengths: expected a list of numbers, found int"):
        LoDTensor.from_lengths(ROWS, 6)


# -- Arrow -----------------------------------------------------------------------------


@given(tensors(dtypes=COMMON))
def test_arrow_has_the_same_lists(tensor: LoDTensor) -> None:
    array = pa.array(tensor)
    array.validate(full=True)
    assert repr(array.to_pylist()) == repr(tensor.to_list())
    assert same(LoDTensor.from_arrow(array), tensor)
    table = pa.table(tensor)  # through the stream, which keeps the names of levels
    assert table.column_names == ["data"]
    assert LoDTensor.from_arrow(table).identical(tensor)


LISTS = [[1, 2], [], [3]]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_view(pa.int32())),
        *(pa.large_list_view(pa.int32()), pa.list_(pa.dictionary(pa.int8(), pa.int32()))),
    ],
    ids=str,
)
def test_every_kind_of_arrow_list(kind: pa.DataType) -> None:
    items = [1, 2, 3]
    if pa.types.is_dictionary(kind.value_type):
        values = pa.array(items, pa.int32()).dictionary_encode()
        array = pa.ListArray.from_arrays([0, 2, 2, 3], values)
    else:
        array = pa.array(LISTS, kind)
    assert LoDTensor.from_arrow(array).to_list() == LISTS
    assert LoDTensor.from_arrow(array[1:]).to_list() == LISTS[1:]
    pieces = pa.chunked_array([array[:1], array[1:]])
    assert LoDTensor.from_arrow(pieces).to_list() == LISTS
    assert LoDTensor.from_arrow(pa.chunked_array([], kind)).to_list() == []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_arrow_text_is_text(kind: pa.DataType) -> None:
    found = LoDTensor.from_arrow(pa.array(["hé", "", "xyz"]).cast(kind)[1:])
    assert found.dtype == np.uint8
    assert found.to_list() == ([b"", b"xyz"] if kind == pa.binary() else ["", "xyz"])


@pytest.mark.parametrize("text", [pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize(
    "lists",
    [pa.list_, pa.large_list, pa.list_view, pa.large_list_view],
    ids=lambda one: one.__name__,
)
def test_text_as_arrows_views_may_have_nulls(text: pa.DataType, lists: Any) -> None:
    values: list[Any] = [None, "", "hé", None, "xyz"]
    if text == pa.binary_view():
        values = [None, b"", b"h\xc3", None, b"xyz"]
    nested: list[Any] = [None, [values, None], [], [[]], None, [values[1:2]]]
    for items, kind in ((values, text), (nested, lists(lists(text)))):
        array = pa.array(items, kind)
        assert LoDTensor.from_arrow(array).to_list() == items
        assert LoDTensor.from_arrow(array[1:]).to_list() == items[1:]
    polars = pytest.importorskip("polars")
    assert LoDTensor.from_arrow(polars.Series(["a", None])).to_list() == ["a", None]


def test_rows_of_one_size_and_levels_of_one_size() -> None:
    pairs = pa.list_(pa.int8(), 2)
    assert LoDTensor.from_arrow(pa.array([[1, 2], [3, 4]], pairs)).data.tolist() == [[1, 2], [3, 4]]
    above = pa.array([[[1], [2, 3]]], pa.list_(pa.list_(pa.int8()), 2))
    assert LoDTensor.from_arrow(above).recursive_sequence_lengths() == [[2], [1, 2]]


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        (
            pa.array([[1, None]], pa.list_(pa.int8(), 2)),
            InvalidDataError,
            "a value in a row is null",
        ),
        (pa.array([{"a": 1, "b": 2}]), InvalidDataError, r"one column, found 2 \(a, b\)"),
        (pa.table({"a": [1], "b": [2]}), InvalidDataError, r"one column, found 2 \(a, b\)"),
        (pa.array([], pa.month_day_nano_interval()), UnsupportedError, "month_day_nano"),
        ([1, 2], InvalidDataError, "found list"),
    ],
)
def test_arrow_values_that_no_tensor_holds(values: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        LoDTensor.from_arrow(values)


@pytest.mark.parametrize("dtype", ["complex64", "bfloat16"])
def test_numbers_that_arrow_lacks_are_refused(dtype: str) -> None:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    with pytest.raises(UnsupportedError, match=f"Arrow has no {dtype}"):
        pa.array(LoDTensor(ROWS[:, 0].astype(kind), [[6]]))


def test_polars_takes_a_tensor_and_gives_it_back() -> None:
    pl = pytest.importorskip("polars")
    column = pl.Series("words", DEEP)
    assert column.to_list() == DEEP.to_list()
    assert same(LoDTensor.from_arrow(column), DEEP)
    frame = pl.DataFrame({"words": FLAT})
    assert frame["words"].to_list() == NESTED
    assert same(LoDTensor.from_arrow(frame), FLAT)


class Chunks:
    """As nanoarrow's Array: several chunks are exported as a stream only."""

    def __init__(self, *parts: list[Any]) -> None:
        self._array = pa.chunked_array(list(parts))

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise ValueError("Can't export ArrowArray with non-contiguous Array")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._array.__arrow_c_stream__(requested_schema)


def test_an_array_of_several_chunks_is_read_as_a_stream() -> None:
    assert LoDTensor.from_arrow(Chunks([[1], []], [[2, 3]])).to_list() == [[1], [], [2, 3]]


@pytest.mark.parametrize("make", [range, deque, bytearray])
def test_other_sequences_than_lists_are_not_taken_as_rows(make: Callable[[Any], Any]) -> None:
    item = make(3) if make is range else make([0, 1, 2])
    with pytest.raises(InvalidDataError, match=f"lists at depth 0, found {make.__name__}; list"):
        LoDTensor.from_lists([item, item])
    assert LoDTensor.from_lists([list(item)]).to_list() == [[0, 1, 2]]


def test_lists_in_a_column_of_pandas_are_given_as_a_list() -> None:
    column = pytest.importorskip("pandas").Series([[1, 2], [3]])
    with pytest.raises(InvalidDataError, match=r"found Series; its to_list\(\) makes one"):
        LoDTensor.from_lists(column)
    assert LoDTensor.from_lists(column.to_list()).to_list() == [[1, 2], [3]]
    if not hasattr(column, "__arrow_c_stream__"):  # before pandas 3
        with pytest.raises(InvalidDataError, match=r"found Series; pyarrow\.array makes one"):
            LoDTensor.from_arrow(column)
    assert LoDTensor.from_arrow(pa.array(column)).to_list() == [[1, 2], [3]]


def test_the_error_for_what_is_not_a_list_says_how_to_make_one() -> None:
    arrays = np.array([np.arange(2), np.arange(1)], dtype=object)
    rows = r"; an array of rows is given with lengths, LoDTensor\(rows, lengths\)"
    cases: list[tuple[Any, str]] = [(arrays, r"; list\(\) makes one"), (np.ones(2), rows), (3, "")]
    for values, hint in cases:
        with pytest.raises(InvalidDataError, match=f"found {type(values).__name__}{hint}$"):
            LoDTensor.from_arrays(values)
    assert LoDTensor.from_arrays(list(arrays)).to_list() == [[0, 1], [0]]


def test_pandas_takes_a_tensor_through_arrow_and_gives_it_back() -> None:
    pd = pytest.importorskip("pandas")
    words = LoDTensor([1, 2, 3], [[2, 0, 1]])
    frame = pa.table(words).to_pandas(types_mapper=pd.ArrowDtype)
    assert frame["data"].list.len().tolist() == [2, 0, 1]
    assert same(LoDTensor.from_arrow(frame), words)
    if hasattr(pd.DataFrame, "from_arrow"):  # from pandas 3 on
        assert pd.DataFrame.from_arrow(words)["data"].to_list() == words.to_list()


def test_duckdb_takes_a_tensor_and_gives_it_back() -> None:
    duckdb = pytest.importorskip("duckdb")
    words = LoDTensor([1, 2, 3], [[2, 0, 1]])  # noqa: F841 - by its name, in the query
    found = duckdb.sql("select len(data) as n from words")
    assert LoDTensor.from_arrow(found).to_list() == [2, 0, 1]


# -- Awkward ---------------------------------------------------------------------------


@given(tensors(dtypes=COMMON))
def test_awkward_has_the_same_lists(tensor: LoDTensor) -> None:
    ak = pytest.importorskip("awkward")
    array = tensor.to_awkward()
    assert repr(ak.to_list(array)) == repr(tensor.to_list())
    assert same(LoDTensor.from_awkward(array), tensor)


@pytest.mark.parametrize("values", [[], [[], []], [[], None], [[[], []], []]])
def test_awkward_lists_that_never_held_a_value_have_float64_rows(values: list[Any]) -> None:
    ak = pytest.importorskip("awkward")
    found = LoDTensor.from_awkward(ak.Array(values))
    assert (found.to_list(), found.dtype, found.rows) == (values, np.dtype("float64"), 0)


def test_awkward_lists_of_every_kind() -> None:
    ak = pytest.importorskip("awkward")
    ragged = ak.Array([[1, 2], [], [3]])
    assert LoDTensor.from_awkward(ragged[[2, 0]]).to_list() == [[3], [1, 2]]
    assert LoDTensor.from_awkward(ragged[1:]).to_list() == [[], [3]]
    assert LoDTensor.from_awkward(ak.Array(np.ones((2, 3)))).row_shape == (3,)
    assert LoDTensor.from_awkward(ak.to_regular(ak.Array([[1, 2], [3, 4]]))).row_shape == (2,)
    missing = ak.to_regular(ak.Array([[1, 2], [None, 3]]))
    assert LoDTensor.from_awkward(missing).to_list() == [[1, 2], [None, 3]]
    with pytest.raises(UnsupportedError, match="a RecordArray of Awkward cannot be a tensor"):
        LoDTensor.from_awkward(ak.Array([{"a": 1}]))


# -- torch -----------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_has_the_same_sequences(torch: Any) -> None:
    jagged = FLAT.to_torch("jagged")
    assert [part.tolist() for part in jagged.unbind()] == NESTED
    assert jagged.to_padded_tensor(0.0).shape == (3, 3, 2)
    assert LoDTensor(ROWS[:0], [[0, 0]]).to_torch().to_padded_tensor(0.0).shape[:2] == (2, 0)
    packed = FLAT.to_torch("packed")
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    ours, counts = FLAT.to_torch("padded")
    assert torch.equal(ours, padded)
    assert counts.tolist() == lengths.tolist() == [3, 1, 2]
    rows, cu_seqlens, longest = FLAT.to_torch("varlen")
    assert rows.tolist() == ROWS.tolist()
    assert (cu_seqlens.dtype, cu_seqlens.tolist(), longest) == (torch.int32, [0, 3, 4, 6], 3)


@pytest.mark.parametrize("lengths", [[3, 1, 2], [3, 2, 1], [1], [2, 2, 2]])
def test_packed_is_what_torch_packs(torch: Any, lengths: list[int]) -> None:
    tensor = LoDTensor(np.arange(sum(lengths) * 2.0).reshape(-1, 2), [lengths])
    parts = [torch.from_numpy(part) for part in tensor.to_arrays()]
    expected = torch.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    found = tensor.to_torch("packed")
    assert torch.equal(found.data, expected.data)
    assert torch.equal(found.batch_sizes, expected.batch_sizes)
    assert same(LoDTensor.from_torch(expected), tensor)
    assert same(LoDTensor.from_torch(found), tensor)


def test_every_form_of_torch_comes_back(torch: Any) -> None:
    holes = LoDTensor(ROWS, [[3, 0, 1, 2]])
    assert same(LoDTensor.from_torch(holes.to_torch()), holes)
    assert same(LoDTensor.from_torch(holes.to_torch("varlen")), holes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that strided ones are no longer developed
        strided = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
        none = torch.nested.nested_tensor([])
    assert LoDTensor.from_torch(none).to_list() == []
    assert LoDTensor.from_torch(strided).recursive_sequence_lengths() == [[2, 1]]
    rows, start, length = (
        torch.arange(12.0).reshape(2, 6),
        torch.tensor([1, 0]),
        torch.tensor([2, 3]),
    )
    narrow = torch.nested.narrow(rows, 1, start, length, layout=torch.jagged)
    assert LoDTensor.from_torch(narrow).to_list() == [[1, 2], [6, 7, 8]]
    assert LoDTensor.from_torch(torch.ones(2, 3)).row_shape == (3,)


def test_bfloat16_keeps_its_bits_in_torch(torch: Any) -> None:
    import ml_dtypes

    tensor = LoDTensor(ROWS.astype(ml_dtypes.bfloat16), [[3, 1, 2]])
    values = tensor.to_torch()
    assert values.dtype == torch.bfloat16
    assert same(LoDTensor.from_torch(values), tensor)


def test_content_that_torch_cannot_hold_is_an_error(torch: Any) -> None:
    with pytest.raises(UnsupportedError, match="jagged holds 1 level, this tensor has 2"):
        DEEP.to_torch()
    with pytest.raises(UnsupportedError, match="no empty sequence: sequence 1"):
        LoDTensor([1], [[1, 0]]).to_torch("packed")
    with pytest.raises(OptionError, match="layout: expected one of jagged, packed"):
        FLAT.to_torch("nested")  # type: ignore[call-overload]
    with pytest.raises(InvalidDataError, match="detach"):
        LoDTensor.from_torch(torch.ones(2, requires_grad=True))
    with pytest.raises(InvalidDataError, match="found list"):
        LoDTensor.from_torch([1])


# -- memory ----------------------------------------------------------------------------


def of_awkward(found: Any) -> Any:
    return np.asarray(found.layout.content.data)


# Of each conversion: how to take the rows out of what it gives, and whether they are shared. The
# table in docs/api.md says the same.
OUT: dict[str, tuple[Callable[[LoDTensor], Any], bool]] = {
    "to_arrays()": (lambda t: t.to_arrays()[0], True),
    "to_numpy()": (lambda t: t.to_numpy(), True),
    "to_arrow()": (lambda t: t.to_arrow().values.flatten().to_numpy(), True),
    "to_awkward()": (lambda t: of_awkward(t.to_awkward()), True),
    'to_torch("jagged")': (lambda t: t.to_torch().values().numpy(), True),
    'to_torch("varlen")': (lambda t: t.to_torch("varlen").values.numpy(), True),
    'to_torch("padded")': (lambda t: t.to_torch("padded")[0].numpy(), False),
    'to_torch("packed")': (lambda t: t.to_torch("packed").data.numpy(), False),
    "to_padded()": (lambda t: t.to_padded()[0], False),
    "to_list()": (lambda t: np.array(t.to_list()), False),
}


def from_jagged(rows: Any) -> LoDTensor:
    import torch

    offsets = torch.tensor([0, 3, 6])
    nested = torch.nested.nested_tensor_from_jagged(torch.from_numpy(rows), offsets)
    return LoDTensor.from_torch(nested)


def from_packed(rows: Any) -> LoDTensor:
    import torch

    sizes = torch.tensor([2, 2, 2])
    return LoDTensor.from_torch(torch.nn.utils.rnn.PackedSequence(torch.from_numpy(rows), sizes))


def from_awkward(rows: Any) -> LoDTensor:
    import awkward as ak

    content = ak.contents.NumpyArray(rows)
    return LoDTensor.from_awkward(ak.contents.ListOffsetArray(ak.index.Index64([0, 3, 6]), content))


def from_arrow(rows: Any) -> LoDTensor:
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 2)
    return LoDTensor.from_arrow(pa.LargeListArray.from_arrays([0, 3, 6], values))


IN: dict[str, tuple[Callable[[Any], LoDTensor], bool]] = {
    "LoDTensor()": (lambda rows: LoDTensor(rows, [[3, 3]]), True),
    "from_dlpack()": (lambda rows: LoDTensor.from_dlpack(rows, [[3, 3]]), True),
    "from_lengths()": (lambda rows: LoDTensor.from_lengths(rows, [3, 3]), True),
    "from_offsets()": (lambda rows: LoDTensor.from_offsets(rows, [0, 3, 6]), True),
    "from_row_splits()": (lambda rows: LoDTensor.from_row_splits(rows, [0, 3, 6]), True),
    "from_cu_seqlens()": (lambda rows: LoDTensor.from_cu_seqlens(rows, [0, 3, 6]), True),
    "from_row_ids()": (lambda rows: LoDTensor.from_row_ids(rows, [0, 0, 0, 1, 1, 1]), True),
    "from_arrow()": (from_arrow, True),
    "from_awkward()": (from_awkward, True),
    "from_torch() of a nested tensor": (from_jagged, True),
    "from_torch() of a PackedSequence": (from_packed, False),
    "from_padded()": (lambda rows: LoDTensor.from_padded(rows, lengths=[1] * 6), False),
    "from_arrays()": (lambda rows: LoDTensor.from_arrays([rows]), False),
    "from_lists()": (lambda rows: LoDTensor.from_lists(rows.tolist(), levels=1), False),
}


@pytest.mark.parametrize("name", OUT)
def test_exported_arrays_share_memory_as_documented(name: str) -> None:
    for package in ("awkward", "torch"):
        if package in name:
            pytest.importorskip(package)
    rows, (convert, shares) = np.arange(12.0).reshape(6, 2), OUT[name]
    assert np.shares_memory(rows, convert(LoDTensor(rows, [[3, 3]]))) is shares
    assert said_to_share(name) is shares


@pytest.mark.parametrize("name", IN)
def test_imported_arrays_share_memory_as_documented(name: str) -> None:
    for package in ("awkward", "torch"):
        if package in name:
            pytest.importorskip(package)
    rows, (convert, shares) = np.arange(12.0).reshape(6, 2), IN[name]
    assert np.shares_memory(rows, convert(rows).data) is shares
    assert said_to_share(name) is shares


def said_to_share(name: str) -> bool:
    """Return what the table in docs/api.md says of a conversion."""
    from tests.make_stubs import ROOT

    lines = (ROOT / "docs" / "api.md").read_text("utf-8").splitlines()
    called, _, rest = name.partition(" ")
    line = next(
        line for line in lines if line.startswith(f"| `{called}`{' ' + rest if rest else ''} |")
    )
    return {"shared": True, "copied": False}[line.split("|")[2].strip()]


@pytest.mark.parametrize("make", [LoDTensor.from_lengths, lodcli.LoDTensor.from_dlpack])
def test_rows_of_torch_are_taken_where_they_lie(torch: Any, make: Any) -> None:
    rows = torch.ones(6, 2)
    found = make(rows, [[3, 3]])
    rows[0, 0] = 7
    assert found.data[0, 0] == 7


@given(st.sampled_from(["to_arrow", "to_awkward"]))
def test_offsets_are_shared_as_well(name: str) -> None:
    pytest.importorskip("awkward")
    found = getattr(FLAT, name)()
    offsets = found.offsets.to_numpy() if name == "to_arrow" else np.asarray(found.layout.offsets)
    assert np.shares_memory(offsets, FLAT.lod.levels[0])


@pytest.mark.parametrize("kept", [b"{", b"[" * 100_000, b"7", b"9" * 5000])
def test_names_of_levels_that_no_lod_wrote_are_ignored(kept: bytes) -> None:
    lists = pa.list_(pa.int64())
    field = pa.field("x", lists, metadata={"lod.levels": kept})
    table = pa.table([pa.array([[1], [2, 3]], lists)], schema=pa.schema([field]))
    assert LoDTensor.from_arrow(table).lod.names == (None,)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("to_arrow", "2000 levels are too many for lists of Arrow"),
        ("to_awkward", "2000 levels are too many for lists of Awkward"),
        ("to_numpy", "at most 64 axes, this one would have 2001"),
    ],
)
def test_more_levels_than_a_library_takes_are_refused(name: str, told: str) -> None:
    if name == "to_awkward":
        pytest.importorskip("awkward")
    deep = LoDTensor([1, 2], [[1]] * 1999 + [[2]])
    with pytest.raises(UnsupportedError, match=f"{told}.*to_list"):
        getattr(deep, name)()


def test_an_array_of_numpy_has_up_to_64_axes() -> None:
    assert LoDTensor([1, 2], [[1]] * 62 + [[2]]).to_numpy().shape == (*[1] * 63, 2)
    with pytest.raises(UnsupportedError, match="64 levels"):
        LoDTensor([1, 2], [[1]] * 63 + [[2]]).to_numpy()
