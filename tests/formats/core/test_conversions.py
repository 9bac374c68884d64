"""Every format into every other: what comes out is what went in, or it is refused with a reason.

The tensors have levels that coincide by chance: equal offsets at different depths, equal levels
below different ones, levels that are shared, and no items at all.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Schema, rekeyed
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import (
    KINDS,
    NAMES,
    Content,
    check_same,
    items,
    read_back,
    require,
    written,
)
from tests.sampling import many
from tests.slow import one_in

# For each format, the first of these that it can hold.
DTYPES = ("int64", "float64", "uint16", "uint8")


def tensor(dtype: str, lod: LoD, rows: int = 3) -> LoDTensor:
    count = rows if lod.rows is None else lod.rows
    return LoDTensor(np.arange(1, count + 1).astype(dtype), lod)


def lengths(*levels: list[int]) -> LoD:
    return LoD.from_lengths(levels)


COINCIDING = {
    "two equal levels in one tensor": [lengths([1, 1, 1], [1, 1, 1])],
    "an equal level below another": [lengths([3, 1], [2, 1, 1, 2]), lengths([2, 1, 1, 2])],
    "equal offsets at different depths": [lengths([1, 1], [2, 1]), lengths([2, 1], [1, 1, 1])],
    "equal levels below different ones": [lengths([2, 1], [1, 2, 1]), lengths([1, 2], [1, 2, 1])],
    "levels without items": [lengths([], []), lengths([])],
    "items without rows": [lengths([0, 0]), lengths([2, 0], [0, 0])],
    "no levels": [lengths(), lengths([1, 2])],
}


def content_of(name: str, lods: list[LoD]) -> Content:
    """Return tensors of these indexes, or as much of them as the format holds."""
    kind = table.get(name)
    dtype = next(one for one in DTYPES if one in kind.dtypes)
    most = len(max(lods, key=len)) if kind.max_levels is None else kind.max_levels
    held = [LoD(lod.levels[max(0, len(lod) - most) :]) for lod in lods]
    named = dict(zip(NAMES, held if kind.many else held[:1], strict=False))
    return KINDS[name].made({one: tensor(dtype, lod) for one, lod in named.items()})


@st.composite
def coinciding(draw: st.DrawFn) -> list[LoD]:
    """Draw the indexes of a few tensors, mostly made of the levels of the ones before."""

    def counts(items: int) -> list[int]:
        return draw(st.lists(st.integers(0, 2), min_size=items, max_size=items))

    def new(levels: int, items: int) -> LoD:
        made: list[list[int]] = []
        for _ in range(levels):
            made.append(counts(items))
            items = sum(made[-1])
        return LoD.from_lengths(made)

    found = [new(draw(st.integers(0, 3)), draw(st.integers(0, 3)))]
    for _ in range(draw(st.integers(0, 2))):
        one = draw(st.sampled_from(found))
        how = draw(st.sampled_from(("same", "equal", "above", "below", "other parents", "new")))
        if how == "same":
            found.append(one)
        elif how == "equal":
            found.append(LoD(offsets.copy() for offsets in one.levels))
        elif how == "above" and one.n_levels:
            found.append(one.above(-1))
        elif how == "below" and one.n_levels:
            found.append(one.below(0))
        elif how == "other parents" and one.n_levels:
            parents = draw(st.integers(0, one.count(0)))
            cuts = sorted(draw(st.integers(0, one.count(0))) for _ in range(max(0, parents - 1)))
            first = [0, *cuts, one.count(0)] if parents or one.count(0) else [0]
            found.append(LoD([first, *one.levels]))
        else:
            found.append(new(draw(st.integers(0, 2)), len(one.levels and one.lengths(0))))
    return found


def read_options(name: str, content: Content) -> ReadOptions:
    """Return what must be said to read all of a file at once."""
    first, item = next(iter(content.items()))
    assert isinstance(item, LoDTensor)
    options: dict[str, Any] = KINDS[name].options(first, item)
    if KINDS[name].apart:
        options.pop("field", None)
        if len(content) > 1:
            options.pop("dtype", None)
        if name in ("jsonl", "json") and len(content) > 1:
            options.pop("levels", None)
    return ReadOptions(**options)


def check_converted(one: str, other: str, content: Content) -> None:
    """Write content as `one`, convert that to `other`, and compare what both files hold."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = written(folder, one, content)
        except LodError:
            return
        inside = Path(folder, "out")
        inside.mkdir()
        with lodcli.open(path, format_name=one, options=read_options(one, content)) as source:
            there = dict(source.read())
            check_keys(source.schema)
            target = inside / KINDS[other].path
            options = WriteOptions(**KINDS[other].write(there))
            try:
                io.write_batches(
                    target, source.schema, source.batches(64), format_name=other, options=options
                )
            except LodError as error:
                check_reason(other, error)
                assert not os.listdir(inside)
                return
        if KINDS[other].zero_rows or any(map(items, there.values())):
            check_same(other, there, read_back(target, other, there))


def check_keys(schema: Schema) -> None:
    """Fail if one key stands for levels below different ones."""
    ruled: dict[str, str] = {}
    for spec, other in zip(schema, rekeyed(schema), strict=True):
        for level, rule in zip(spec.levels, other.levels, strict=True):
            assert ruled.setdefault(level.key, rule.key) == rule.key, schema


def check_reason(name: str, error: LodError) -> None:
    """Fail unless the error says what the format cannot hold."""
    reasons = (f"{name} holds", f"{name} needs", f"{name} has no nulls", *KINDS[name].refused)
    assert any(reason in str(error) for reason in reasons), error
    assert len(str(error).splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("one", KINDS)
@settings(max_examples=many(300))
@given(data=st.data())
def test_every_format_is_converted_to_every_other(one: str, data: st.DataObject) -> None:
    require(one)
    content = content_of(one, data.draw(coinciding()))
    other = data.draw(st.sampled_from(sorted(KINDS)))
    require(other)
    check_converted(one, other, content)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("lods", one_in(3, COINCIDING.values()), ids=[*COINCIDING])
def test_coinciding_levels_go_through_a_container(name: str, lods: list[LoD]) -> None:
    require(name)
    check_converted(name, "lod.h5", content_of(name, lods))
    check_converted("lod.stream", name, content_of("lod.stream", lods))
