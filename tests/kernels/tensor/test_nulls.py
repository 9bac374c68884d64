"""Tensors with nulls: operations that keep them, and operations that fail."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lodcli
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls, pack, unpack

CASES: dict[str, list[Any]] = {
    "rows": [1, None, 3, None],
    "lists": [[1, None], None, [], [4]],
    "two levels": [[[1.5, None], None], None, [], [[2.5]]],
    "booleans": [[True, None], None, [False]],
    "text": ["a", None, "", "Grüß"],
    "lists of text": [["a", None], None, [], ["b", ""]],
    "bytes": [b"\xff", None, b"", b"x"],
    "the last": [[1, 2], [3, None]],
}
KERNELS = Path(lodcli.__file__).parent / "kernels"
every_case = pytest.mark.parametrize("values", CASES.values(), ids=CASES)


def plain(found: Any) -> Any:
    return found.to_list() if isinstance(found, LoDTensor) else found


def test_a_mask_of_a_level_that_is_not_there_is_refused() -> None:
    nulls = LoDTensor.from_lists([[1, None], None]).nulls
    assert nulls.mask(1) is nulls.mask(-1) is nulls.rows
    for level in (2, 9, -3):
        message = f"no level {level}: there is 1 level; use 0 to 1, where 1 is the rows"
        with pytest.raises(SelectionError, match=message):
            nulls.mask(level)
    deep = LoDTensor.from_lists([[[1, None]]]).nulls
    with pytest.raises(SelectionError, match="there are 2 levels; use 0 to 2, where 2 is the rows"):
        deep.mask(3)
    for one in (nulls, NO_NULLS):
        for name in ("word", True, 1.0):
            with pytest.raises(SelectionError, match=f"is a whole number, not {name!r}"):
                one.mask(name)  # type: ignore[arg-type]


@every_case
def test_lists_come_back(values: list[Any]) -> None:
    tensor = LoDTensor.from_lists(values)
    assert tensor.to_list() == values
    assert "None" in repr(tensor)
    assert "None" in tensor._repr_html_()


@every_case
def test_arrow_and_awkward_hold_the_same(values: list[Any]) -> None:
    ak = pytest.importorskip("awkward")
    tensor = LoDTensor.from_lists(values)
    array = tensor.to_arrow()
    array.validate(full=True)
    assert array.to_pylist() == values
    assert LoDTensor.from_arrow(array).identical(tensor)
    assert LoDTensor.from_arrow(pa.array(values)).to_list() == values
    assert LoDTensor.from_arrow(pa.chunked_array([array[:1], array[1:]])).to_list() == values
    assert tensor.to_awkward().to_list() == values
    assert LoDTensor.from_awkward(ak.Array(values)).to_list() == values
    assert LoDTensor.from_awkward(tensor.to_awkward()).identical(tensor)


def test_rows_of_several_values_are_null_as_a_whole() -> None:
    array = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))
    tensor = LoDTensor.from_arrow(array)
    assert tensor.row_shape == (2,)
    assert tensor.values.tolist() == [[1, 2], [0, 0], [3, 4]]
    assert tensor.to_arrow().to_pylist() == [[1, 2], None, [3, 4]]
    with pytest.raises(InvalidDataError, match="a value in a row is null; only whole rows"):
        LoDTensor.from_arrow(pa.array([[1, None]], pa.list_(pa.int32(), 2)))


@every_case
def test_keys_pick_what_python_picks(values: list[Any]) -> None:
    tensor = LoDTensor.from_lists(values)
    count = len(values)
    for key in (slice(None), slice(1, None), slice(0, 0), slice(None, None, -1), slice(0, 9, 2)):
        assert tensor[key].to_list() == values[key]
    for order in ([], [1, 0, 1], [-1]):
        assert plain(tensor[order]) == [values[item] for item in order]
    mask = np.arange(count) % 2 == 0
    assert tensor[mask].to_list() == values[::2]
    assert take_items(tensor, [1, 1]).to_list() == [values[1]] * 2
    for item in range(count):
        if tensor.marks and tensor.lod.n_levels == 1 and values[item] is not None:
            continue  # an item of one level is its bytes
        assert plain(tensor[item]) == values[item]
    with pytest.raises(SelectionError):
        tensor[[count]]


@pytest.mark.parametrize("level", [0, 1])
def test_null_items_are_none_where_items_of_a_level_are_iterated(level: int) -> None:
    values = CASES["two levels"]
    items = values if level == 0 else [item for one in values if one is not None for item in one]
    found = LoDTensor.from_lists(values).iterate(level)
    assert [None if item is None else item.to_list() for item in found] == items


def test_branches_of_numbers_pick_what_python_picks() -> None:
    values = [[[1, None], None], None, [[3]]]
    tensor = LoDTensor.from_lists(values)
    for key in (np.int64(0), np.int8(1), (2,), (0, 0), (0, np.int32(1)), (0, 0, 0), (0, 0, 1)):
        expected: Any = values
        for number in key if isinstance(key, tuple) else (key,):
            expected = expected[int(number)]
        assert plain(tensor[key]) == expected
    assert tensor[0, 0, 0:2].to_list() == [1, None]
    assert tensor[...].to_list() == tensor[()].to_list() == values
    assert tensor[[0, 1], ...].to_list() == values[:2]
    names = LoDTensor.from_lists(values, names=["a", "b"])
    assert names["b", 1] is None
    assert names["b", 1:3].to_list() == [None, [3]]
    wrong: list[Any] = [None, 1.0, (0, 0, 2), "c", [1.0]]
    for each in wrong:
        with pytest.raises(SelectionError):
            tensor[each]
    for within in ((1, 0), (1, slice(0, 2)), (0, 1, 0)):
        with pytest.raises(SelectionError, match="selects within an item that is null"):
            tensor[within]


def test_none_is_in_a_tensor_with_nulls() -> None:
    assert None in LoDTensor.from_lists([[1, None]])
    assert None in LoDTensor.from_lists([None, "a"])
    assert None not in LoDTensor.from_lists([[1, 2]])


def test_a_null_item_is_none_and_no_view_of_it_exists() -> None:
    tensor = LoDTensor.from_lists(CASES["lists"])
    assert [plain(item) for item in tensor] == CASES["lists"]
    assert tensor[1] is None
    with pytest.raises(SelectionError, match="the item that the branch names is null; a range"):
        tensor.select(1)
    assert tensor.select(slice(1, 2)).to_list() == [None]
    assert tensor.select(0, slice(0, 2)).to_list() == [1, None]
    with pytest.raises(UnsupportedError, match="the selection of such a key has no nulls"):
        tensor[0:2, 0]


@every_case
def test_joined_copied_and_pickled(values: list[Any]) -> None:
    tensor = LoDTensor.from_lists(values)
    assert LoDTensor.concatenate([tensor, tensor[1:]]).to_list() == values + values[1:]
    whole = tensor.fill_nulls(0)
    assert LoDTensor.concatenate([whole, tensor]).to_list() == whole.to_list() + values
    for other in (tensor.copy(), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert other.identical(tensor)
    assert not tensor.identical(whole)
    assert tensor.difference(whole) == "other nulls"


@every_case
def test_filled_and_dropped_as_by_arrow(values: list[Any]) -> None:
    tensor = LoDTensor.from_lists(values)
    dropped = tensor.drop_nulls()
    assert not dropped.nulls

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(one) for one in value if one is not None]
        return value

    assert dropped.to_list() == without(values)
    if not tensor.lod.n_levels:
        array = pa.array(values)
        assert dropped.to_list() == array.drop_null().to_pylist()
        assert tensor.fill_nulls(7).to_list() == pc.fill_null(array, 7).to_pylist()


def test_a_value_that_the_dtype_lacks_fills_nothing() -> None:
    whole = LoDTensor.from_lists([1, None])
    for value in (np.nan, 0.5, "x", 2**70):
        with pytest.raises(InvalidDataError, match="no int64 is"):
            whole.fill_nulls(value)
    for other in ([0, 1], np.zeros((1, 2)), 1j, np.complex64(1)):
        with pytest.raises(InvalidDataError, match=r"no float64 is .*, which nulls are to be"):
            LoDTensor.from_lists([1.5, None]).fill_nulls(other)
    assert LoDTensor.from_lists([1.5, None]).fill_nulls(np.nan).data.tolist()[0] == 1.5
    small = LoDTensor.from_arrow(pa.array([1, None], pa.uint8()))
    with pytest.raises(InvalidDataError, match="no uint8 is 256"):
        small.fill_nulls(256)
    half = LoDTensor.from_lists([1, None], dtype="float16")
    for large in (65520.0, 2**70, -1e300):  # infinite in float16
        with pytest.raises(InvalidDataError, match="no float16 is"):
            half.fill_nulls(large)
    assert half.fill_nulls(-np.inf).to_list() == [1, -np.inf]


@pytest.mark.parametrize(
    ("values", "value", "wanted"),
    [
        ([datetime(2024, 1, 1), None], datetime(2000, 1, 1), datetime(2000, 1, 1)),
        ([datetime(2024, 1, 1), None], date(2000, 1, 1), datetime(2000, 1, 1)),
        ([datetime(2024, 1, 1), None], "2000-01-01T05:00+01:00", datetime(2000, 1, 1, 4)),
        ([datetime(2024, 1, 1), None], np.datetime64("2000-01-01"), datetime(2000, 1, 1)),
        ([datetime(2024, 1, 1, tzinfo=UTC), None], date(2000, 1, 1), datetime(2000, 1, 1)),
        ([date(2024, 1, 1), None], "2000-01-01", date(2000, 1, 1)),
        ([date(2024, 1, 1), None], 0, date(1970, 1, 1)),
        ([timedelta(1), None], np.timedelta64(3, "s"), timedelta(seconds=3)),
        ([time(1), None], "03:30", time(3, 30)),
        ([Decimal("1.50"), None], 2, Decimal("2.00")),
        ([Decimal("1.50"), None], np.float64(0.1), Decimal("0.10")),
        ([Decimal("1.50"), None], Decimal("-9.99"), Decimal("-9.99")),
    ],
)
def test_times_and_decimals_are_filled_with_their_values(
    values: list[Any], value: Any, wanted: Any
) -> None:
    found = LoDTensor.from_lists(values).fill_nulls(value).to_list()[1]
    assert (found.replace(tzinfo=None) if isinstance(found, datetime) else found) == wanted


@pytest.mark.parametrize("value", ["", "?", "Grüße"])
def test_null_texts_are_filled_with_text(value: str) -> None:
    lists: list[Any] = [["a", None, "", None], None, [], [None], ["bc"]]
    texts = LoDTensor.from_lists(lists)
    wanted = [["a", value, "", value], [], [], [value], ["bc"]]
    found = texts.fill_nulls(value)
    assert found.identical(LoDTensor.from_lists(wanted))
    last = texts[3:]  # whose offsets begin within the rows
    assert last.fill_nulls(value).to_list() == [[value], ["bc"]]
    raw = LoDTensor.from_lists([None, b"a", None]).fill_nulls(value.encode())
    assert raw.to_list() == [value.encode(), b"a", value.encode()]
    assert texts.fill_nulls().to_list() == texts.fill_nulls("").to_list()


def test_null_texts_are_not_filled_with_another_kind() -> None:
    wrong = [b"b", 5, 1.5, False, np.nan, None, ["z"], np.array("z"), bytearray(b"z"), "\ud800"]
    pairs: list[tuple[list[Any], Any]] = [
        *((["a", None], one) for one in wrong),
        ([b"a", None], "b"),
    ]
    for texts, value in pairs:
        with pytest.raises(InvalidDataError, match=r"be filled with .* or 0 for|surrogate pair"):
            LoDTensor.from_lists(texts).fill_nulls(value)
    for zero in (0, 0.0, np.float32(0)):
        assert LoDTensor.from_lists(["a", None]).fill_nulls(zero).to_list() == ["a", ""]


def test_categories_are_filled_with_words() -> None:
    labels = LoDTensor.from_lists([1, None]).as_categories(["no", "yes"])
    assert labels.fill_nulls("yes").to_list() == ["yes", "yes"]
    assert labels.fill_nulls(0).to_list() == ["yes", "no"]
    for code in (2, np.int8(-1)):
        with pytest.raises(InvalidDataError, match=f"{code} is the code of no word of a categ"):
            labels.fill_nulls(code)


@pytest.mark.parametrize(
    ("values", "value"),
    [
        ([date(2024, 1, 1), None], datetime(2000, 1, 1)),
        ([datetime(2024, 1, 1), None], datetime(2000, 1, 1, tzinfo=UTC)),
        ([datetime(2024, 1, 1), None], timedelta(1)),
        ([datetime(2024, 1, 1), None], np.datetime64(1, "ns")),
        ([Decimal("1.50"), None], 0.125),
        ([Decimal("1.50"), None], 100),
        ([Decimal("1.50"), None], np.nan),
        pytest.param([timedelta(1), None], f"P{'9' * 5000}D", id="more digits than int() takes"),
    ],
)
def test_another_time_or_decimal_fills_nothing(values: list[Any], value: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"is not a (date|timestamp|decimal)|a duration"):
        LoDTensor.from_lists(values).fill_nulls(value)


def test_masks_must_fit() -> None:
    lod = LoD.from_lengths([[2, 0]])
    with pytest.raises(InvalidDataError, match="expected 2 masks"):
        LoDTensor([1, 2], lod, nulls=Nulls.of([[True, False]]))
    with pytest.raises(InvalidDataError, match="level 0 has 1 items, there are 2"):
        LoDTensor([1, 2], lod, nulls=Nulls.of([[False], None]))
    with pytest.raises(InvalidDataError, match="item 0 of level 0 is null and is not empty"):
        LoDTensor([1, 2], lod, nulls=Nulls.of([[False, True], None]))
    with pytest.raises(InvalidDataError, match="flat array of booleans"):
        Nulls.of([[1, 0]])
    tensor = LoDTensor([1, 2], lod, nulls=Nulls.of([[True, False], [True, False]]))
    assert tensor.to_list() == [[1, None], None]
    assert tensor.values.tolist() == [1, 0]
    assert Nulls.of([[True], None]) is NO_NULLS


def test_masks_without_nulls_are_left_out() -> None:
    assert not Nulls((np.ones(3, bool), None))
    assert Nulls((None, None)) == NO_NULLS
    assert Nulls(([True, False],)) == Nulls.of([[True, False]])  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="flat array of booleans, found 1 dimensions of int"):
        Nulls((np.array([1, 0]),))
    with pytest.raises(InvalidDataError, match="Nulls: masks: expected a sequence"):
        Nulls(5)  # type: ignore[arg-type]


def test_a_mask_may_be_changed_later() -> None:
    mask = np.array([True, False])
    tensor = LoDTensor([1, 0], nulls=Nulls.of([mask]))
    mask[0] = False
    assert tensor.to_list() == [1, None]
    assert tensor.nulls.rows is not None
    with pytest.raises(ValueError, match="read-only"):
        tensor.nulls.rows[1] = True


def test_bits_are_those_of_arrow() -> None:
    mask = np.random.default_rng(0).random(77) < 0.5
    bitmap = pa.array(np.zeros(77), mask=~mask).buffers()[0]
    assert pack(mask).tobytes() == bitmap.to_pybytes()[:10]
    for start, stop in ((0, 77), (3, 3), (7, 9), (8, 64), (61, 77)):
        assert unpack(pack(mask), start, stop).tolist() == mask[start:stop].tolist()


@pytest.mark.parametrize(
    "use",
    [
        lambda tensor: tensor.data,
        lambda tensor: tensor + 1,
        lambda tensor: tensor > 1,
        lambda tensor: np.add(tensor, 1),
        lambda tensor: np.sum(tensor),
        lambda tensor: np.where(tensor, 1, 0),
        lambda tensor: tensor.to_padded(),
        lambda tensor: tensor.to_numpy(),
        lambda tensor: tensor.to_arrays(),
        lambda tensor: tensor.with_data(np.zeros(3)),
        lambda tensor: tensor.set_recursive_sequence_lengths([[3]]),
        lambda tensor: tensor.__setitem__(0, 1),
        lambda tensor: OPS["sum"].load()(tensor),
        lambda tensor: OPS["softmax"].load()(tensor),
        lambda tensor: OPS["cumsum"].load()(tensor),
        lambda tensor: OPS["reverse"].load()(tensor, out=np.empty(3)),
    ],
)
@pytest.mark.parametrize(
    "values",
    [[[1.0, None], [2.0]], [[1.0, 2.0], None, [3.0]]],
    ids=["row", "item"],
)
def test_computing_refuses_nulls_with_a_remedy(use: Any, values: Any) -> None:
    where = "row <0,1>" if None in values[0] else "item of level 0 <1>"
    message = rf"{where} is null; .* has no nulls: .*fill_nulls or drop_nulls"
    with pytest.raises(UnsupportedError, match=message):
        use(LoDTensor.from_lists(values))


def test_ops_reach_rows_only_where_nulls_are_refused() -> None:
    """`data` raises; what stands behind it is for code that knows of nulls."""
    pattern = re.compile(r"\b(tensor|x|y|sequences?|inputs?)\.(values|_data)\b")
    folders = ("ops", "rnn", "torch")
    files = [file for folder in folders for file in (KERNELS / folder).rglob("*.py")]
    assert len(files) > 100
    found = [file.name for file in files if pattern.search(file.read_text("utf-8"))]
    assert found == ["shift.py"]  # it moves nulls with their rows


def test_values_are_found_beside_nulls() -> None:
    tensor = LoDTensor.from_lists([[1, None]])
    assert 1 in tensor
    assert 0 not in tensor  # what lies under a null
