"""Ops that only move values keep times, decimals and categories; other ops return numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lodcli.kernels.errors import InvalidDataError, LodError, ShapeMismatchError
from lodcli.kernels.ops.ids.edit_distance import sequence_ctc_align
from lodcli.kernels.ops.ids.ids import sequence_erase
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.joining.windows import sequence_interleave, sequence_windows
from lodcli.kernels.ops.pooling.pool import sequence_max
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.ops.slicing.truncate import sequence_truncate
from lodcli.kernels.ops.sorting.sort import (
    sequence_deduplicate,
    sequence_sort,
    sequence_topk,
    sequence_unique,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT, Categories, Decimals, Field, Marks, Times, Unit
from lodcli.kernels.tensor.nulls import Nulls
from tests.kernels.ops.op_arguments import arguments

UNITS: list[Unit] = [
    Times("timestamp", "ms", "UTC"),
    Decimals(10, 2),
    Categories(tuple("abcdefghi"), ordered=True),
]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_the_registry_tells_which_ops_keep_the_unit(name: str, unit: Unit) -> None:
    tensor = LoDTensor(np.array([[1], [5], [3], [3], [0], [2]]), [[2, 1], [1, 2, 3]])
    tensor = LoDTensor(tensor.data, tensor.lod, Marks(unit=unit, attributes='{"a":1}'))
    try:
        given = arguments(name, tensor)
        found = OPS[name].load()(**given)
    except LodError:  # an op of floating-point numbers
        assert not OPS[name].marks
        return
    first = found[0] if isinstance(found, tuple | list) else found
    marks = getattr(getattr(first, "steps", first), "marks", Marks())
    assert marks.unit == (unit if OPS[name].marks else None)


def of_lists(change: Callable[[list[Any]], Iterable[Any]]) -> Callable[[list[Any]], list[Any]]:
    return lambda lists: [list(change(one)) for one in lists]


MOVED: dict[str, tuple[Callable[[LoDTensor], LoDTensor], Callable[[list[Any]], list[Any]]]] = {
    "reverse": (
        lambda x: sequence_reverse(x, level=0, items=True),
        of_lists(reversed),
    ),
    "slice": (
        lambda x: sequence_slice(x, x.lod.lengths(0) // 2, (x.lod.lengths(0) + 1) // 2, level=0),
        of_lists(lambda one: one[len(one) // 2 :]),
    ),
    "truncate": (
        lambda x: sequence_truncate(x, 2, keep="last", level=0),
        of_lists(lambda one: one[-2:]),
    ),
    "windows": (
        lambda x: sequence_windows(x, 2, level=0),
        of_lists(lambda one: [one[i : i + 2] for i in range(len(one) - 1)]),
    ),
}
# Bytes of texts are not sorted or joined as texts are.
OF_VALUES: dict[str, tuple[Callable[[LoDTensor], LoDTensor], Callable[[list[Any]], list[Any]]]] = {
    "concat": (lambda x: sequence_concat([x, x]), of_lists(lambda one: [*one, *one])),
    "deduplicate": (
        lambda x: sequence_deduplicate(x, adjacent=False),
        of_lists(dict.fromkeys),
    ),
    "sort": (sequence_sort, of_lists(sorted)),
    "topk": (
        lambda x: sequence_topk(x, 2)[0],
        of_lists(lambda one: sorted(one, reverse=True)[:2]),
    ),
    "unique": (sequence_unique, of_lists(lambda one: sorted(set(one)))),
}
KINDS = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in ("s", "us")),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us")),
    *(pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal128(18, -2), pa.decimal32(9, 3)),
    *(pa.dictionary(pa.int8(), pa.string(), ordered) for ordered in (False, True)),
    pa.large_string(),
]


def column(kind: Any, rng: Random) -> Any:
    """Return lists of an Arrow type."""
    lengths = [rng.randrange(6) for _ in range(5)]
    numbers = [rng.randrange(12) for _ in range(sum(lengths))]
    rows: Any
    if pa.types.is_decimal(kind):
        rows = LoDTensor(np.array(numbers), marks=Marks(unit=Decimals(kind.precision, kind.scale)))
        rows = rows.to_arrow().cast(kind)
    elif pa.types.is_dictionary(kind):
        codes, words = pa.array(numbers, pa.int8()), pa.array([f"w{n:02}" for n in range(12)])
        rows = pa.DictionaryArray.from_arrays(codes, words, ordered=kind.ordered)
    elif kind == pa.large_string():
        rows = pa.array(["é" * number for number in numbers], kind)
    else:
        days = 86_400_000 if kind == pa.date64() else 1
        rows = pa.array(np.array(numbers, f"i{kind.bit_width // 8}") * days).cast(kind)
    return pa.LargeListArray.from_arrays(np.cumsum([0, *lengths]), rows)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_moved_values_are_those_of_arrow(kind: Any) -> None:
    rng = Random(str(kind))
    for _ in range(5):
        lists = column(kind, rng)
        tensor = LoDTensor.from_arrow(lists)
        for move, expected in (MOVED if tensor.marks.is_text else {**MOVED, **OF_VALUES}).values():
            found = move(tensor).to_arrow()
            inner = found.type
            while pa.types.is_large_list(inner):
                inner = inner.value_type
            assert inner == kind
            assert found.to_pylist() == expected(lists.to_pylist())


@pytest.mark.parametrize("kind", KINDS[:-1], ids=str)
def test_picked_values_are_those_of_arrow_and_null_without_any(kind: Any) -> None:
    picks: dict[str, Any] = {
        "max": max,
        "min": min,
        "first": lambda one: one[0],
        "last": lambda one: one[-1],
    }
    rng = Random(str(kind))
    for _ in range(5):
        lists = column(kind, rng)
        tensor = LoDTensor.from_arrow(lists)
        # Decimals are numbers, which have a zero.
        empty = Decimal(0) if pa.types.is_decimal(kind) else None
        for name, pick in picks.items():
            expected = [pick(one) if one else empty for one in lists.to_pylist()]
            for op in (name, f"{name}_index") if name in ("max", "min") else (name,):
                found = OPS[op].load()(tensor)
                values = (found[0] if isinstance(found, tuple) else found).to_arrow()
                assert values.type == kind
                assert values.to_pylist() == expected


def test_an_empty_sequence_of_times_gives_the_pad_value_in_their_unit() -> None:
    times, prices = (
        LoDTensor([[150], [220]], [[2, 0]], Marks(unit=unit))
        for unit in (Times("timestamp", "s"), Decimals(5, 2))
    )
    assert sequence_max(times, pad_value=0).data.tolist() == [[220], [0]]
    assert sequence_max(times).nulls == Nulls.of([[True, False]])
    assert sequence_max(prices, pad_value=1.5).data.tolist() == [[220], [150]]
    labels = LoDTensor([0], [[1, 0]], Marks(unit=Categories(("no", "yes"))))
    with pytest.raises(InvalidDataError, match="2 is the code of no word of a category"):
        sequence_max(labels, pad_value=2)


def test_ids_of_categories_and_decimals_stay_what_they_are() -> None:
    labels = LoDTensor([0, 1, 1, 0, 2], [[3, 2]]).as_categories(["-", "a", "b"])
    assert sequence_ctc_align(labels).to_list() == [["a"], ["b"]]
    assert sequence_erase(labels, [1]).to_list() == [["-"], ["-", "b"]]
    prices = LoDTensor.from_lists([[Decimal("0.02"), Decimal("2.00")]])
    assert sequence_erase(prices, [2]).to_list() == [[Decimal("0.02")]]
    assert sequence_ctc_align(prices, blank=2).to_list() == [[Decimal("0.02")]]


def test_texts_stay_texts_as_long_as_they_are_whole() -> None:
    words = LoDTensor.from_lists([["hi", "you"], ["é"]])
    joined = sequence_concat([words, words])
    assert joined.marks == TEXT
    assert joined.to_list() == [["hihi", "youyou"], ["éé"]]
    backwards = sequence_reverse(words)
    assert not backwards.marks
    assert backwards.to_list()[1] == [[0xA9, 0xC3]]


def test_nulls_and_units_are_kept_together() -> None:
    lists = pa.array([[1, None, 3], None], pa.list_(pa.timestamp("s")))
    found = sequence_reverse(LoDTensor.from_arrow(lists)).to_arrow()
    assert found.type.value_type == pa.timestamp("s")
    assert found.to_pylist() == [lists[0].as_py()[::-1], None]


def test_values_of_different_units_are_not_joined() -> None:
    parts = [LoDTensor([1, 2], [[2]], Marks(unit=Times("timestamp", unit))) for unit in ("s", "ms")]
    for op in (sequence_concat, sequence_interleave):
        with pytest.raises(ShapeMismatchError, match=r"timestamp\[s\], of part 1 timestamp\[ms\]"):
            op(parts)


def test_columns_of_records_with_other_attributes_are_joined() -> None:
    date = Times("date", "D")
    parts = [
        LoDTensor([number], [[1]], Marks(unit=date, fields=path, attributes=text))
        for number, path, text in (
            (1, (Field("r", 0), Field("a", 0)), '{"of":"a"}'),
            (2, (Field("r", 0), Field("b", 0)), ""),
        )
    ]
    for op in (sequence_concat, sequence_interleave, LoDTensor.concatenate):
        assert op(parts).marks.unit == date
        assert op(parts).data.tolist() == [1, 2]


def test_words_of_joined_categories_are_those_of_all() -> None:
    one, two = (LoDTensor([0, 1], [[2]]).as_categories(list(words)) for words in ("ab", "bc"))
    assert sequence_concat([one, two]).to_list() == [["a", "b", "b", "c"]]
    assert sequence_interleave([one, two]).to_list() == [["a", "b"], ["b", "c"]]


def test_codes_of_joined_categories_become_wide_enough() -> None:
    words = [f"w{number}" for number in range(200)]
    few = LoDTensor(np.array([0, 1], np.int8), [[1, 1]]).as_categories(["no", "yes"])
    many = LoDTensor(np.array([0, 199], np.int16), [[1, 1]]).as_categories(words)
    assert sequence_concat([few, many]).to_list() == [["no", "w0"], ["yes", "w199"]]
    assert sequence_interleave([few, many]).to_list() == [["no"], ["w0"], ["yes"], ["w199"]]
