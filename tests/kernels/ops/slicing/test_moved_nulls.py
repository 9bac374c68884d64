"""Ops that move the items of sequences keep nulls, as Python's lists do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from random import Random
from typing import Any, Literal

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.ops.joining.windows import sequence_windows
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.ops.slicing.truncate import sequence_truncate
from lodcli.kernels.tensor.lod_tensor import LoDTensor

SEEDS = range(60)


def nested(rng: Random, depth: int) -> Any:
    """Return lists of this depth; some of them, and some of their values, are None."""
    if rng.random() < 0.2:
        return None
    return [nested(rng, depth - 1) for _ in range(rng.randrange(4))] if depth else rng.randrange(9)


def at(level: int, change: Callable[[list[Any]], Any], value: Any) -> Any:
    """Return nested lists with all lists of a level changed."""
    if value is None:
        return None
    return change(value) if level == 0 else [at(level - 1, change, one) for one in value]


def turned(value: Any) -> Any:
    return [turned(one) for one in reversed(value)] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", SEEDS)
def test_moved_items_keep_their_nulls(seed: int) -> None:
    rng = Random(seed)
    depth = rng.randrange(1, 4)
    values = [nested(rng, depth) for _ in range(rng.randrange(5))]
    tensor, level, count = LoDTensor.from_lists(values, levels=depth), rng.randrange(depth), 2
    lengths = tensor.lod.lengths(level)
    offset = np.array([rng.randrange(length + 1) for length in lengths.tolist()], np.int64)
    starts = iter(offset.tolist())

    def rest(part: Any) -> Any:
        start = next(starts)
        return None if part is None else part[start:]

    def cut(value: Any, above: int) -> Any:
        if not above:
            return rest(value)
        return None if value is None else [cut(one, above - 1) for one in value]

    for found, wanted in (
        (sequence_truncate(tensor, count, level=level), at_all(level, lambda x: x[:2], values)),
        (sequence_reverse(tensor, level=level), at_all(level, turned, values)),
        (
            sequence_reverse(tensor, level=level, items=True),
            at_all(level, lambda x: x[::-1], values),
        ),
        (
            sequence_slice(tensor, offset, lengths - offset, level=level),
            [cut(one, level) for one in values],
        ),
    ):
        assert found.identical(LoDTensor.from_lists(wanted, levels=depth, dtype=found.dtype))


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_keep_the_nulls_of_their_items(seed: int) -> None:
    rng = Random(seed)
    depth = rng.randrange(1, 4)
    values = [nested(rng, depth) for _ in range(rng.randrange(5))]
    tensor, level = LoDTensor.from_lists(values, levels=depth), rng.randrange(depth)

    def windows(part: list[Any]) -> list[Any]:
        return [part[start : start + 2] for start in range(len(part) - 1)]

    def grown(part: list[Any]) -> list[Any]:
        return [part[max(0, stop - 3) : stop] for stop in range(1, len(part) + 1)]

    for found, wanted in (
        (sequence_windows(tensor, 2, level=level), at_all(level, windows, values)),
        (sequence_windows(tensor, 3, head="keep", level=level), at_all(level, grown, values)),
    ):
        assert found.identical(LoDTensor.from_lists(wanted, levels=depth + 1, dtype=found.dtype))


DAY = date(2024, 5, 1)


def wide(tensor: LoDTensor) -> LoDTensor:
    rows = np.stack([tensor.values, -tensor.values], axis=1)
    return LoDTensor(rows, tensor.lod, nulls=tensor.nulls)


@pytest.mark.parametrize(
    ("values", "change"),
    [
        ([["a", None, "", "bcd", "e"], None, [], [None], ["fg"]], None),
        ([[DAY, None, DAY, None, None], None, [], [None], [DAY]], None),
        ([[b"a", None, b""], None, [b"bc"] * 4], None),
        ([[True, None, False], None, [True] * 4], None),
        ([[1, None, 3], None, [], [None], [5, 6, 7, 8, 9]], wide),
    ],
    ids=["text", "dates", "bytes", "booleans", "pairs"],
)
@pytest.mark.parametrize(("length", "stride"), [(2, 1), (2, 2), (3, 2), (1, 3), (4, 3)])
@pytest.mark.parametrize("tail", ["drop", "keep"])
def test_windows_of_any_values_keep_nulls(
    values: list[Any],
    change: Callable[[LoDTensor], LoDTensor] | None,
    length: int,
    stride: int,
    tail: Literal["drop", "keep"],
) -> None:
    def windows(part: list[Any]) -> list[Any]:
        found, start = list[Any](), 0
        while start + length <= len(part):
            found.append(part[start : start + length])
            start += stride
        left = start < len(part) and (not found or start + length - stride < len(part))
        return [*found, part[start:]] if tail == "keep" and left else found

    tensor = LoDTensor.from_lists(values)
    cut = LoDTensor.from_lists([None if one is None else windows(one) for one in values])
    if change is not None:
        tensor, cut = change(tensor), change(cut)
    found = sequence_windows(tensor, length, stride=stride, tail=tail, level=0, name="window")
    names = (None, "window", *tensor.lod.names[1:])
    wanted = LoDTensor(cut.values, cut.lod.with_names(names), cut.marks, cut.nulls)
    assert found.identical(wanted)


def at_all(level: int, change: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
    return [at(level, change, one) for one in values]


def test_nulls_are_not_written_to_a_given_array() -> None:
    tensor = LoDTensor.from_lists([[1, None]])
    with pytest.raises(UnsupportedError, match="row <0,1> is null"):
        sequence_reverse(tensor, out=np.empty(2, np.int64))
