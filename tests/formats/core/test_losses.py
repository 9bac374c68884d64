"""The declared losses of a format are exactly the content that a round trip loses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.losses import losses
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Item, StoredArray, schema_of
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, Content, contents, items, require, written
from tests.sampling import many
from tests.slow import slow

Lost = dict[str, set[str]]


def read_untold(path: Path, name: str, content: Content) -> Mapping[str, Item]:
    """Read a file, given only where its items begin and end."""
    first, item = next(iter(content.items()))
    told = KINDS[name].options(first, item) if isinstance(item, LoDTensor) else {}
    needed = {"end_token"}
    if name in ("csv", "tsv"):
        needed.add("levels")
    if name == "text" and isinstance(item, LoDTensor) and item.lod.n_levels < 3:
        needed.add("levels")
    options = ReadOptions(**{key: value for key, value in told.items() if key in needed})
    with lodcli.open(path, format_name=name, options=options) as source:
        return source.read()


def declared(name: str, content: Content) -> Lost:
    options = WriteOptions(**KINDS[name].write(content))
    found = losses(table.get(name), schema_of(content), options)
    return {loss.what: set(loss.lost) for loss in found}


def observed(name: str, content: Content, found: Mapping[str, Item]) -> Lost:
    """Return what is not in the file as it was."""
    if name == "h5ad":
        found = {one: found[one] for one in content}
    if len(content) == 1 or name in ("paddle", "megatron"):  # by their order
        found = dict(zip(found, found.values(), strict=True))
    names = dict(zip(content, found, strict=True)) if not set(content) <= set(found) else None
    lost: Lost = {what: set() for what in ("tensor names", "level names", "levels")}
    lost |= {"dtypes": set(), "marks": set(), "row shapes": set()}
    for one, item in content.items():
        other = found[names[one] if names else one]
        if names and names[one] != one and len(content) > 1:
            lost["tensor names"].add(one)
        if isinstance(item, StoredArray):
            assert isinstance(other, StoredArray)
            old = (*item.index_map.outer.names, *item.array.steps.lod.names)
            new = (*other.index_map.outer.names, *other.array.steps.lod.names)
            lost["level names"] |= {a for a, b in zip(old, new, strict=True) if a and a != b}
            continue
        assert isinstance(other, LoDTensor)
        depth, visible = item.lod.n_levels, other.lod.n_levels
        lost["levels"] |= {f"level {n} of {one}" for n in range(visible, depth)}
        level_names = other.lod.names[:depth] + (None,) * (depth - visible)
        if name == "megatron":  # which adds documents above the sequences
            level_names = other.lod.names[visible - depth :]
        pairs = zip(item.lod.names, level_names, strict=True)
        lost["level names"] |= {a for a, b in pairs if a and a != b}
        if other.dtype != item.dtype:
            lost["dtypes"].add(f"{item.dtype.name} of {one}")
        if other.marks != item.marks:
            lost["marks"].add(f"{item.marks} of {one}")
        if other.row_shape != item.row_shape:
            lost["row shapes"].add(f"{item.row_shape} of {one}")
    return {what: found for what, found in lost.items() if found}


def small(name: str, content: Content) -> Content:
    """Return the content with numbers that the dtypes assumed by text formats hold."""
    if not KINDS[name].apart:
        return content
    made: Content = {}
    for one, item in content.items():
        assert isinstance(item, LoDTensor)
        # Text that no reader of csv takes for a number.
        data = np.full(item.values.shape, ord("x") if item.marks else 1, item.dtype)
        made[one] = LoDTensor(data, item.lod, item.marks)
    return made


def check(name: str, content: Content) -> None:
    content = small(name, content)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = written(folder, name, content)
        except LodError:
            return
        expected = declared(name, content)
        if len(content) > 1 and not KINDS[name].zero_rows and not all(map(items, content.values())):
            return  # what is there tells of no tensor
        assert observed(name, content, read_untold(path, name, content)) == expected
        if expected:
            other = Path(folder, "strict")
            other.mkdir()
            options = WriteOptions(**KINDS[name].write(content))
            target = other / KINDS[name].path
            with pytest.raises(UnsupportedError, match=f"{name} does not keep these "):
                io.write(target, content, format_name=name, options=options, strict=True)
            assert not os.listdir(other)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(15, share=2))
@given(data=st.data())
def test_exactly_the_declared_losses_are_lost(name: str, data: st.DataObject) -> None:
    require(name)
    check(name, data.draw(contents(name, held=True)))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(150, share=10))
@given(data=st.data())
def test_losses_of_many(name: str, data: st.DataObject) -> None:
    require(name)
    check(name, data.draw(contents(name, held=True)))


@pytest.mark.parametrize("row_shape", [slow(()), slow((1,)), (2, 3)])
@pytest.mark.parametrize("name", KINDS)
def test_losses_of_a_tensor_without_items(name: str, row_shape: tuple[int, ...]) -> None:
    require(name)
    kind = table.get(name)
    dtypes = [one for one in ("int32", "uint16", "uint8") if one in kind.dtypes]
    for depth, dtype in product(range(kind.min_levels, 4), dtypes):
        data = np.empty((0, *row_shape), dtype)
        tensor = LoDTensor(data, LoD.from_lengths([[]] * depth, ("a", "b", "c")[:depth]))
        check(name, KINDS[name].made({"data": tensor}))
