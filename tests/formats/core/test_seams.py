"""Conversion between every pair of formats for every shape: equal content, or an error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Item, Schema, rekeyed, schema_of
from lodcli.formats.testing.shapes import Content, shapes
from lodcli.formats.values.in_words import writes_words
from lodcli.kernels.errors import LodError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, check_same, items, read_back, require, written
from tests.formats.core.test_conversions import check_keys, check_reason, read_options
from tests.sampling import every


def shapes_of(dtype: str) -> dict[str, Content]:
    """Return the shapes whose values are of a dtype."""
    return {
        what: content
        for what, content in shapes(dtype).items()
        if all(item.dtype == dtype and not item.marks for item in content.values())
    }


# Every shape with int64; as a rule a third of them with each other dtype, all in a thorough run.
SHAPES = {f"{what} of int64": content for what, content in shapes("int64").items()} | {
    f"{what} of {dtype}": content
    for first, dtype in enumerate(("uint8", "float64", "uint16"))
    for what, content in list(shapes_of(dtype).items())[first % every(3) :: every(3)]
}
Read = tuple[Schema, list[Batch], dict[str, Item]]


def read_from(name: str, content: Content, folder: Path) -> Read | None:
    """Return a shape as read back from a format; None if the format cannot hold it."""
    folder.mkdir()
    try:
        path = written(str(folder), name, dict(content))
    except LodError:
        assert not os.listdir(folder)
        return None
    held = in_words(name, content)
    with lodcli.open(path, format_name=name, options=read_options(name, held)) as file:
        check_keys(file.schema)
        return file.schema, list(file.batches(64)), dict(file.read())


def in_words(name: str, content: Mapping[str, Item]) -> dict[str, Any]:
    """Return the tensors as given to a format: words as text, if it has text but no categories."""
    if not writes_words(table.get(name), schema_of(content)):
        return dict(content)
    return {
        one: item.as_text() if isinstance(item, LoDTensor) and item.categories else item
        for one, item in content.items()
    }


def signature(found: Read) -> Hashable:
    """Return a value that is equal for tensors that no writer distinguishes."""
    schema, batches, _ = found

    def of(item: Item) -> Hashable:
        assert isinstance(item, LoDTensor)
        masks = tuple(None if mask is None else mask.tobytes() for mask in item.nulls.masks)
        offsets = tuple(level.tobytes() for level in item.lod.levels)
        return offsets, item.lod.names, item.values.tobytes(), masks

    parts = tuple(tuple((name, of(item)) for name, item in one.items()) for one in batches)
    return rekeyed(schema), parts


def said_of_values(other: str, said: str) -> bool:
    """Return whether an error depends on the values, or on the number of items."""
    return any(reason in said for reason in (*KINDS[other].refused, f"{other} holds"))


def check_into(other: str, found: Read, folder: Path) -> bool:
    """Write the tensors in another format, and compare; return whether that can hold them."""
    schema, batches, there = found
    folder.mkdir()
    target = folder / KINDS[other].path
    options = WriteOptions(**KINDS[other].write(there))
    plan = io.planned(target, schema, batches, format_name=other, options=options)
    assert not os.listdir(folder)
    try:
        io.write_batches(target, schema, batches, format_name=other, options=options)
    except LodError as error:
        check_reason(other, error)
        said = str(error).removeprefix(f"{target}: ")
        assert said in plan.refused or (not plan.refused and said_of_values(other, said)), plan
        assert not os.listdir(folder)
        return False
    assert not plan.refused
    there = in_words(other, there)
    if KINDS[other].zero_rows or any(map(items, there.values())):
        check_same(other, there, read_back(target, other, there))
    return True


def check_shape(content: Content, names: list[str], *, first: int) -> dict[str, set[str]]:
    """Convert a shape from each format to others; return what went into which.

    What a container gives goes into every format. What others give otherwise goes into one of
    four in turn, from `first` on; into every one in a thorough run.
    """
    held: dict[str, set[str]] = {}
    seen = set[Hashable]()
    with tempfile.TemporaryDirectory() as folder:
        for one in names:
            found = read_from(one, content, Path(folder, one))
            if found is None:
                continue
            held[one] = set()
            # Most formats give back the same: it is converted once.
            if signature(found) in seen:
                continue
            seen.add(signature(found))
            step = 1 if one == "lod.h5" else every(4)
            for other in names[(first + len(seen)) % step :: step]:
                if check_into(other, found, Path(folder, f"{one} {other}")):
                    held[one].add(other)
    return held


def available() -> list[str]:
    found = []
    for name in KINDS:
        try:
            require(name)
        except pytest.skip.Exception:
            continue
        found.append(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("what", SHAPES)
def test_every_pair_of_formats_holds_a_shape_or_says_why_not(what: str) -> None:
    held = check_shape(SHAPES[what], available(), first=list(SHAPES).index(what))
    assert {"lod.h5", "lod.stream"} <= held["lod.h5"]


QUICK: Mapping[str, Any] = {
    what: content
    for what, content in SHAPES.items()
    if what.startswith(("empties at each of five", "a shared outer", "null ", "moments in"))
    and what.endswith("int64")
}


@pytest.mark.parametrize("what", QUICK)
def test_shapes_go_from_a_container_into_every_format(what: str, tmp_path: Path) -> None:
    found = read_from("lod.h5", QUICK[what], tmp_path / "from")
    assert found is not None
    for other in available():
        check_into(other, found, tmp_path / other)
