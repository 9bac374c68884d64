"""Items grouped by keys, against plain dictionaries, with runs and blocks of any size."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.arrays.budget import Kept
from lodcli.formats.core.format import joined
from lodcli.formats.core.schema import schema_of, tensor_of
from lodcli.formats.items import external_sort, grouping, keys
from lodcli.formats.items.grouping import Gap, grouped, grouped_schema
from lodcli.formats.items.keys import check_keys
from lodcli.formats.items.taking import part
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.memory_budget import within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT, Decimals, Marks, Times, Unit
from tests.growth import calls_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lodcli.formats.core.schema import Schema
    from lodcli.formats.items.grouping import Tensors

TEXTS = st.sampled_from(["", "a", "a\0", "a\0\0", "b", "é", "aé", "longer than others"])
FLOATS = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, -1.5, 2.0, 5e-324])
VALUE = st.none() | st.integers(0, 9)
ITEM = st.tuples(
    *(TEXTS, FLOATS, st.integers(-3, 3)),
    st.none() | st.lists(st.none() | st.lists(VALUE)),
)
KEYS = [["text"], ["number"], ["whole"], ["text", "number"], ["whole", "text", "number"]]


def tensors_of(items: list[tuple[str, float, int, Any]]) -> dict[str, LoDTensor]:
    """Return items as tensors: their keys, a sequence of sequences, and the place of each."""
    texts = [item[0].encode() for item in items]
    lists = [item[3] for item in items]
    value = LoDTensor.from_lists(lists, levels=2, dtype=np.int16, names=["visit", "click"])
    pairs = value.values.astype(np.float16).repeat(2).reshape(-1, 2)
    return {
        "text": LoDTensor(
            np.frombuffer(b"".join(texts), np.uint8),
            LoD.from_lengths([list(map(len, texts))]),
            TEXT,
        ),
        "number": LoDTensor(np.array([item[1] for item in items], np.float64)),
        "whole": LoDTensor(np.array([item[2] for item in items], np.int32)),
        "value": value,
        "half": LoDTensor(pairs, value.lod),
        "place": LoDTensor(np.arange(len(items))),
    }


def whole(
    schema: Schema,
    batches: Iterable[Tensors],
    names: Sequence[str],
    keep: external_sort.Keep | None = None,
    **options: Any,
) -> dict[str, LoDTensor]:
    """Return all groups, joined from the batches that they come in."""
    found = grouped(schema, batches, names, keep=keep, **options)
    groups = joined(grouped_schema(schema, names, keep), found)
    return {name: tensor_of(tensor) for name, tensor in groups.items()}


def compared(key: Any) -> Any:
    """Return what a key is compared by: nan is one key, the last."""
    if isinstance(key, float):
        return (math.isnan(key), 0.0 if math.isnan(key) else key)
    return key.encode() if isinstance(key, str) else key


@given(items=st.lists(ITEM, max_size=30), data=st.data())
def test_groups_are_those_of_a_dictionary(items: list[Any], data: st.DataObject) -> None:
    tensors = tensors_of(items)
    names = data.draw(st.sampled_from(KEYS))
    by_key = data.draw(st.booleans())
    places = {"text": 0, "number": 1, "whole": 2}
    expected: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        key = tuple(compared(item[places[name]]) for name in names)
        expected.setdefault(key, []).append(place)
    groups = [expected[key] for key in (sorted(expected) if by_key else expected)]
    borders = sorted(data.draw(st.lists(st.integers(0, len(items)), max_size=6)))
    ends = [0, *borders, len(items)]
    batches = [part(tensors, start, stop) for start, stop in pairwise(ends)]
    schema = schema_of(tensors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "RUN_BYTES", data.draw(st.sampled_from([1, 200, 1 << 20])))
        patch.setattr(external_sort, "BLOCK_BYTES", data.draw(st.sampled_from([1, 90])))
        patch.setattr(external_sort, "MOST_RUNS", data.draw(st.sampled_from([2, 3, 128])))
        patch.setattr(external_sort, "BATCH_BYTES", data.draw(st.sampled_from([1, 300])))
        patch.setattr(grouping, "BATCH_BYTES", data.draw(st.sampled_from([1, 300])))
        found = whole(schema, batches, names, by_key=by_key)
    result: dict[str, Any] = {
        name: one.to_list() if one.lod.n_levels else one.data.tolist()
        for name, one in found.items()
    }
    assert result["place"] == groups
    assert result["value"] == [[items[place][3] for place in group] for group in groups]
    half, value = found["half"], found["value"]
    assert half.lod == value.lod
    level = names[0] if len(names) == 1 else None
    assert value.lod.names == (level, "visit", "click")
    assert half.data[:, 1].tolist() == value.values.tolist()
    for name in names:
        firsts = [items[group[0]][places[name]] for group in groups]
        assert list(map(compared, result[name])) == list(map(compared, firsts))


@pytest.mark.parametrize("dtype", sorted(ALL_DTYPES))
def test_keys_of_every_dtype_are_in_order(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if kind.kind == "b":
        values = np.array([True, False, True])
    elif kind.kind in "iu":
        info = np.iinfo(kind)
        values = np.array([info.max, info.min, 3, info.max - 1, info.max, info.min + 1], kind)
    else:
        values = np.array([2, -0.5, np.inf, 0, -np.inf, 2, -0.5], kind)
    tensors = {"key": LoDTensor(values), "place": LoDTensor(np.arange(values.size))}
    schema = schema_of(tensors)
    if kind.kind == "c":
        with pytest.raises(UnsupportedError, match="key: complex numbers have no order"):
            check_keys(schema, ["key"])
        return
    check_keys(schema, ["key"])
    found = whole(schema, [tensors], ["key"], by_key=True)
    assert found["key"].dtype == kind
    plain = values.tolist()
    assert found["key"].data.tolist() == sorted(set(plain))
    assert found["place"].to_list() == [
        [n for n, v in enumerate(plain) if v == k] for k in sorted(set(plain))
    ]


@pytest.mark.parametrize(
    ("values", "most", "groups"),
    [
        (np.array([5, 1, 2, 9, 8], np.int8), "1", [[1, 2], [5], [8, 9]]),
        (np.array([-128, 127, 126], np.int8), "254.9", [[-128, 126, 127]]),
        (np.array([2**63 - 1, -(2**63)], np.int64), "18446744073709551614", None),
        (np.array([2**63 - 1, -(2**63)], np.int64), "18446744073709551615", []),
        (np.array([2**64 - 1, 2**64 - 2, 0], np.uint64), "1", [[0], [2**64 - 2, 2**64 - 1]]),
        (np.array([0.5, math.inf, 0.0, 2.0, -math.inf]), "1.5", None),
        (np.array([1, 2, 4], np.float16), "1e0", [[1, 2], [4]]),
    ],
)
def test_gaps_of_numbers(values: Any, most: str, groups: list[Any] | None) -> None:
    tensors = {"key": LoDTensor(np.zeros(values.size)), "n": LoDTensor(values)}
    schema = schema_of(tensors)
    found = whole(schema, [tensors], ["key"], by_key=True, gap=Gap.of(schema, "n", most))
    ordered = sorted(values.tolist())
    if groups is None:  # all apart, but those within the gap
        groups = [[n] for n in ordered] if values.dtype.kind == "i" else [
            [-math.inf], [0.0, 0.5, 2.0], [math.inf]
        ]  # fmt: skip
    assert found["n"].to_list() == (groups or [ordered])


def test_gaps_of_decimals_and_dates_are_in_their_units() -> None:
    units: dict[str, Unit] = {"price": Decimals(6, 2), "day": Times("date", "D")}
    marked = {
        name: LoDTensor(np.array([100, 130, 131]), LoD([]), Marks(unit=unit))
        for name, unit in units.items()
    }
    schema = schema_of(marked)
    assert Gap.of(schema, "price", "0.3").most == 30
    assert Gap.of(schema, "day", "P1W").most == 7
    with pytest.raises(SelectionError, match="day: 'PT1H' is not a whole number of the unit D"):
        Gap.of(schema, "day", "PT1H")


def test_a_key_has_one_value_in_each_item() -> None:
    lod = LoD.from_lengths([[1, 2]])
    schema = schema_of({"ids": LoDTensor(np.arange(3), lod), "pairs": LoDTensor(np.zeros((2, 2)))})
    for name, found in (("ids", "1 level"), ("pairs", r"rows of \(2,\)")):
        with pytest.raises(SelectionError, match=f"{name}: a key is one number .* has {found}"):
            check_keys(schema, [name])
    with pytest.raises(SelectionError, match="no tensor named 'x'; there are: ids, pairs"):
        check_keys(schema, ["x"])


@pytest.mark.parametrize("by_key", [True, False])
def test_null_is_a_key_and_the_last(by_key: bool) -> None:
    """Not the zero and the empty text that are stored under a null."""
    numbers = LoDTensor.from_lists([None, 0, 5, None, 0, 0, None])
    words = LoDTensor.from_lists(["", "", "b", None, None, "", ""])
    tensors = {"n": numbers, "w": words, "x": LoDTensor(np.arange(7))}
    schema, names = schema_of(tensors), ["n", "w"]
    batches = [part(tensors, start, min(start + 2, 7)) for start in range(0, 7, 2)]
    found = whole(schema, batches, names, by_key=by_key)
    groups = list(zip(*(found[name].to_list() for name in "nwx"), strict=True))
    by_hand = [
        (0, "", [1, 5]),
        (0, None, [4]),
        (5, "b", [2]),
        (None, "", [0, 6]),
        (None, None, [3]),
    ]
    assert groups == (by_hand if by_key else sorted(by_hand, key=lambda one: one[2]))


@pytest.mark.parametrize(
    ("keep", "kept"), [(None, [[0, 3], [1, 4, 5], [2]]), ("first", [0, 1, 2]), ("last", [2, 3, 5])]
)
def test_groups_in_memory_are_put_in_order_without_a_copy(
    keep: external_sort.Keep | None, kept: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(grouping, "copied")
    items = tensors_of([(text, 0.0, 0, None) for text in ("b", "a", "c", "b", "a", "a")])
    found = whole(schema_of(items), iter([items]), ["text"], by_key=False, keep=keep)
    assert found["place"].to_list() == kept


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_groups_in_memory_are_taken_at_once_in_batches_of_whole_groups(
    in_order: bool, by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(grouping, "joined_items")
    monkeypatch.setattr(external_sort, "BATCH_BYTES", 300)
    numbers = np.array([*[5] * 90, *[1, 1, 1, 2, 2], *range(10, 40)])
    if in_order:
        numbers.sort()
    items = {"key": LoDTensor(numbers), "place": LoDTensor(np.arange(numbers.size))}
    found = list(grouped(schema_of(items), iter([items]), ["key"], by_key=by_key))
    sizes = [len(one["place"].data) for one in found]
    assert len(found) >= 3
    assert all(size <= 18 or len(one["key"]) == 1 for size, one in zip(sizes, found, strict=True))
    groups = {
        int(key): places
        for one in found
        for key, places in zip(one["key"].data, one["place"].to_list(), strict=True)
    }
    expected: dict[int, list[int]] = {}
    for place, key in enumerate(numbers.tolist()):
        expected.setdefault(key, []).append(place)
    assert groups == expected
    assert list(groups) == (sorted(expected) if by_key else list(expected))


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("budget", [1 << 30, 1 << 20])
@pytest.mark.parametrize(("keep", "order"), [(None, "cabd"), ("first", "abcd")])
def test_groups_have_the_order_of_their_schema(
    order: str, keep: external_sort.Keep | None, budget: int, by_key: bool
) -> None:
    items = {name: LoDTensor(np.arange(100_000) % 300) for name in "abcd"}
    schema = schema_of(items)
    assert [spec.name for spec in grouped_schema(schema, "ca", keep)] == list(order)
    with within_budget(budget):
        found = list(grouped(schema, iter([items]), "ca", by_key=by_key, keep=keep))
    assert {"".join(one) for one in found} == {order}


def test_times_are_keys_and_stay_times() -> None:
    marks = Marks(unit=Times("timestamp", "s"))
    tensors = {"at": LoDTensor(np.array([9, 3, 9]), marks=marks), "x": LoDTensor(np.arange(3))}
    schema = schema_of(tensors)
    check_keys(schema, ["at"])
    found = whole(schema, [tensors], ["at"], by_key=True)
    at, x = found["at"], found["x"]
    assert (at.data.tolist(), at.marks, x.to_list()) == ([3, 9], marks, [[1], [0, 2]])


def test_groups_of_a_small_budget_come_in_small_batches() -> None:
    numbers = np.arange(60_000) % 20_000
    batch = {"key": LoDTensor(numbers), "value": LoDTensor(numbers * 2)}
    parts = [part(batch, start, start + 5000) for start in range(0, 60_000, 5000)]
    with within_budget(1 << 20):
        found = list(grouped(schema_of(batch), iter(parts), ["key"], by_key=True))
    assert max(map(external_sort.size_bytes, found)) < 400 << 10
    assert np.concatenate([one["key"].data for one in found]).tolist() == list(range(20_000))
    assert np.concatenate([np.diff(one["value"].lod.levels[0]) for one in found]).tolist() == (
        [3] * 20_000
    )


def test_a_merge_reads_few_large_items_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks hold whole items, so their number says nothing about their size."""
    keys = np.arange(400) % 40
    value = LoDTensor(np.arange(400 * 100), LoD.from_lengths([[100] * 400]))
    batch = {"key": LoDTensor(keys), "value": value}
    held = []

    class Window(external_sort._Window):
        def fill(self) -> bool:
            more = super().fill()
            held.append(external_sort.size_bytes(self._batch))
            return more

    monkeypatch.setattr(external_sort, "_Window", Window)
    for name, size in (("RUN_BYTES", 60_000), ("BLOCK_BYTES", 100), ("BATCH_BYTES", 20_000)):
        monkeypatch.setattr(external_sort, name, size)
    parts = [part(batch, start, start + 20) for start in range(0, 400, 20)]
    found = list(grouped(schema_of(batch), iter(parts), ["key"], by_key=True))
    assert np.concatenate([one["key"].data for one in found]).tolist() == list(range(40))
    assert max(held) < 4000


def large_items(count: int) -> tuple[dict[str, LoDTensor], list[dict[str, LoDTensor]]]:
    """Return a batch of items of 80 KB with the keys 0 to 9, and batches of one item each."""
    value = LoDTensor(np.arange(count * 10_000), LoD.from_lengths([[10_000] * count]))
    batch = {"key": LoDTensor(np.arange(count) % 10), "value": value}
    return batch, [part(batch, n, n + 1) for n in range(count)]


def test_blocks_of_the_runs_of_a_merge_are_a_quarter_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = []

    def seen(spool: Any, runs: Any, *args: Any, made: Any = external_sort._merged) -> Any:
        merged.append(sum(max(block.size_bytes for block in run) for run in runs))
        return made(spool, runs, *args)

    monkeypatch.setattr(external_sort, "_merged", seen)
    monkeypatch.setattr(external_sort, "BLOCK_BYTES", 1000)
    batch, parts = large_items(40)
    with within_budget(1 << 20):
        found = list(grouped(schema_of(batch), iter(parts), ["key"], by_key=True))
    assert np.concatenate([one["key"].data for one in found]).tolist() == list(range(10))
    firsts = np.concatenate([one["value"].data[::10_000] for one in found])
    assert firsts.tolist() == [10_000 * n for n in np.arange(40).reshape(4, 10).T.ravel()]
    assert len(merged) > 1
    assert max(merged) <= (1 << 20) // 4


@pytest.mark.parametrize(("count", "stored"), [(30, False), (90, True)])
def test_large_items_stay_in_memory_while_they_take_a_quarter_of_the_budget(
    count: int, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    class Spool(external_sort._Spool):
        def write(self, batches: Any) -> Any:
            runs.append(super().write(batches))
            return runs[-1]

    monkeypatch.setattr(external_sort, "_Spool", Spool)
    monkeypatch.setattr(external_sort, "RUN_BYTES", 50_000)
    batch, parts = large_items(count)
    with within_budget(12_000_000):
        found = list(grouped(schema_of(batch), iter(parts), ["key"], by_key=True))
    assert np.concatenate([one["key"].data for one in found]).tolist() == list(range(10))
    assert sum(one["value"].rows for one in found) == count * 10_000
    assert bool(runs) == stored
    assert len(runs) <= 3  # each as long as memory holds


def test_items_are_merged_in_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs end alike; each pass of the merge sorts a part of all of them, not of one."""
    batch = {"key": LoDTensor(np.random.default_rng(0).permutation(20_000))}
    passes = calls_of(monkeypatch, external_sort.InMemory, "order")
    for name, size in (("RUN_BYTES", 20_000), ("BLOCK_BYTES", 200), ("BATCH_BYTES", 16_000)):
        monkeypatch.setattr(external_sort, name, size)
    parts = [part(batch, start, start + 2500) for start in range(0, 20_000, 2500)]
    found = list(grouped(schema_of(batch), iter(parts), ["key"], by_key=True))
    assert np.concatenate([one["key"].data for one in found]).tolist() == list(range(20_000))
    assert len(passes) < 8 + 40  # 8 runs; all items are 10 times BATCH_BYTES


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_of_many_items_only_those_to_keep_are_stored(
    in_memory: bool, keep: external_sort.Keep, by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = {"key": LoDTensor(6 - np.arange(20_000) % 7), "n": LoDTensor(np.arange(20_000))}
    stored = []
    held = []

    class Held(external_sort._Held):
        def add(self, batch: dict[str, LoDTensor]) -> int:
            added = super().add(batch)
            held.append(self.count)
            return added

    class Spool(external_sort._Spool):
        def _write(self, batch: dict[str, LoDTensor]) -> Any:
            stored.extend(batch["n"].data.tolist())
            return super()._write(batch)

    monkeypatch.setattr(external_sort, "_Spool", Spool)
    monkeypatch.setattr(external_sort, "_Held", Held)
    if not in_memory:
        monkeypatch.setattr(Kept, "fits", lambda self, size_bytes: False)
    for name, size in (("RUN_BYTES", 60_000), ("BLOCK_BYTES", 30), ("BATCH_BYTES", 300)):
        monkeypatch.setattr(external_sort, name, size)
    parts = [part(batch, start, start + 500) for start in range(0, 20_000, 500)]
    found = whole(schema_of(batch), iter(parts), ["key"], by_key=by_key, keep=keep)
    kept = np.arange(7) if keep == "first" else np.arange(20_000 - 7, 20_000)
    kept = kept[np.argsort(6 - kept % 7)] if by_key else kept
    assert np.array_equal(np.asarray(found["n"]), kept)
    assert len(stored) == (0 if in_memory else 7 * len(parts))
    assert max(held) <= (7 if in_memory else 500)


@pytest.mark.parametrize("keep", ["first", "last"])
def test_of_many_groups_each_item_is_sorted_a_few_times(
    keep: external_sort.Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorts = calls_of(monkeypatch, keys, "ordered")
    monkeypatch.setattr(external_sort, "RUN_BYTES", 60_000)
    monkeypatch.setattr(Kept, "fits", lambda self, size_bytes: True)
    names = np.random.default_rng(3).integers(0, 5000, 20_000)
    batch = {"key": LoDTensor(names), "n": LoDTensor(np.arange(20_000))}
    parts = [part(batch, start, start + 500) for start in range(0, 20_000, 500)]
    found = whole(schema_of(batch), iter(parts), ["key"], by_key=True, keep=keep)
    last = {int(name): place for place, name in enumerate(names)}
    first = {int(name): place for place, name in [*enumerate(names)][::-1]}
    expected = first if keep == "first" else last
    assert np.asarray(found["n"]).tolist() == [expected[name] for name in sorted(expected)]
    assert 20_000 <= sum(columns[0].size for (columns,) in sorts) <= 3 * 20_000


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("count", [0, 3])
def test_kept_items_may_be_none(
    count: int, keep: external_sort.Keep, by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_sort, "RUN_BYTES", 1)
    batch = {"key": LoDTensor(np.arange(3)), "n": LoDTensor(np.arange(3))}
    parts = [part(batch, 0, count), part(batch, count, count)]
    found = whole(schema_of(batch), iter(parts), ["key"], by_key=by_key, keep=keep)
    assert np.asarray(found["n"]).tolist() == list(range(count))
