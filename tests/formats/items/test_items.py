"""Items of a file chosen in ranges, picked, and in any order, against plain lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.format import joined
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.schema import Item, schema_of
from lodcli.formats.items import items as items_module
from lodcli.formats.items import reordering
from lodcli.formats.items.indexed_copy import in_place, indexed
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import sharing
from lodcli.formats.items.streaming import item_batches
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.opening import source_of


def content(lengths: list[list[int]]) -> dict[str, LoDTensor]:
    """Two levels of rows, and values of articles, sentences and words beside them."""
    outer = [len(article) for article in lengths]
    inner = [words for article in lengths for words in article]
    lod = LoD.from_lengths([outer, inner], ["article", "sentence"])
    rows, sentences = sum(inner), len(inner)
    return {
        "vectors": LoDTensor(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), lod),
        "tags": LoDTensor(np.arange(rows, dtype=np.int16), lod),
        "marks": LoDTensor(np.arange(sentences) % 2 == 0, lod.above(1)),
        "label": LoDTensor(np.arange(len(lengths), dtype=np.int64)),
    }


def as_lists(tensors: Any) -> dict[str, list[Any]]:
    return {
        name: tensor.to_list() if tensor.lod.n_levels else tensor.data.tolist()
        for name, tensor in tensors.items()
    }


@contextmanager
def open_items(
    tmp_path: Path, tensors: dict[str, LoDTensor], level: int | str = 0
) -> Iterator[Items]:
    path = tmp_path / "content.lod.h5"
    items: dict[str, Item] = dict(tensors)
    io.write(path, items, overwrite=True)
    with source_of(path) as source:
        shared = sharing(source.schema, "vectors", level)
        with indexed(source, shared.names) as found:
            yield Items(found, shared)


def whole(items: Items, chosen: Any, batches: Iterable[dict[str, LoDTensor]]) -> Any:
    """Return batches as lists, after checking that they match the schema."""
    schema = items.counted(chosen)
    found = joined(schema, batches)
    for spec, held in zip(schema, schema_of(found), strict=True):
        assert (spec.rows, spec.level_names) == (held.rows, held.level_names)
        assert [a.items for a in spec.levels] == [a.items for a in held.levels]
    return as_lists(found)


LENGTHS = st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=9)


@given(lengths=LENGTHS, data=st.data())
def test_chosen_items_are_those_of_nested_lists(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], data: st.DataObject
) -> None:
    tensors = content(lengths)
    lists = as_lists(tensors)
    level = data.draw(st.sampled_from(["article", "sentence"]))
    if level == "sentence":
        lists = {
            name: list(chain.from_iterable(lists[name])) for name in ("vectors", "tags", "marks")
        }
    count = len(lists["vectors"])
    order = data.draw(st.permutations(range(count)))[: data.draw(st.integers(0, count))]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, count)] * 2)))
    small = data.draw(st.sampled_from([1, 40, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (items_module, "BATCH_BYTES"),
            (items_module, "NEAR_BYTES"),
            (reordering, "IN_MEMORY_BYTES"),
            (reordering, "BUCKET_BYTES"),
            (reordering, "PASS_BYTES"),
        ):
            patch.setattr(module, name, max(8, small))
        with open_items(tmp_path_factory.mktemp("items"), tensors, level) as items:
            assert items.count == count
            found = whole(items, slice(start, stop), items.range(start, stop, small))
            assert found == {name: values[start:stop] for name, values in lists.items()}
            picked = np.sort(np.array(order, np.int64))
            found = whole(items, picked, items.picked(picked))
            assert found == {name: [v[i] for i in picked] for name, v in lists.items()}
            shuffled = np.array(order, np.int64)
            found = whole(items, shuffled, reordered(items, shuffled))
            assert found == {name: [v[i] for i in order] for name, v in lists.items()}


def test_items_far_apart_come_in_one_batch_with_their_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "NEAR_BYTES", 0)
    lod = LoD.from_lengths([[2, 0, 0, 1, 1, 2], [1, 2, 3, 0, 2, 0]])
    valid = Nulls.of(
        [
            [True, False, True, True, True, True],
            [True, True, True, False, True, True],
            [True, True, True, False, True, True, False, True],
        ]
    )
    data = np.array([1, 2, 3, 0, 5, 6, 0, 8], np.int16)
    tensors = {"vectors": LoDTensor(data, lod, nulls=valid), "label": LoDTensor(np.arange(6))}
    chosen = np.array([0, 2, 3, 5])
    with open_items(tmp_path, tensors) as items:
        (batch,) = items.picked(chosen)
        assert batch.keys() == tensors.keys()
        for name, tensor in tensors.items():
            expected = take_items(tensor, chosen)
            assert batch[name].values.tolist() == expected.values.tolist()
            assert (batch[name].lod, batch[name].nulls) == (expected.lod, expected.nulls)


def test_a_container_is_read_where_it_lies(tmp_path: Path) -> None:
    tensors = content([[2, 1], [], [3]])
    items: dict[str, Item] = dict(tensors)
    for suffix, there in (("lod.h5", True), ("lods", False)):
        io.write(tmp_path / f"content.{suffix}", items)
        with source_of(tmp_path / f"content.{suffix}") as source:
            assert (in_place(source, ["tags"]) is not None) == there
    with (
        source_of(tmp_path / "content.lod.h5", limits=Limits(max_bytes=40)) as source,
        pytest.raises(TooLargeError),
    ):
        in_place(source, ["vectors"])


def test_a_copy_of_what_is_read_in_order_holds_the_same(tmp_path: Path) -> None:
    tensors = content([[2, 1], [], [3]])
    items: dict[str, Item] = dict(tensors)
    io.write(tmp_path / "content.lods", items)
    with source_of(tmp_path / "content.lods") as source:
        shared = sharing(source.schema, "vectors")
        with indexed(source, shared.names) as found:
            chosen = Items(found, shared)
            got = whole(chosen, slice(0, 3), chosen.range(0, 3))
    assert got == {name: as_lists(tensors)[name] for name in shared.names}


def test_items_of_a_stream_are_those_of_the_file(tmp_path: Path) -> None:
    tensors = content([[2, 1], [], [3]])
    del tensors["label"]
    items: dict[str, Item] = dict(tensors)
    io.write(tmp_path / "content.lods", items)
    with source_of(tmp_path / "content.lods") as source:
        shared = sharing(source.schema, None, "sentence")
        found = as_lists(joined(shared.schema, item_batches(source, shared)))
    assert found["tags"] == [[0, 1], [2], [3, 4, 5]]
    assert found["marks"] == [True, False, True]


def test_tensors_share_a_level_by_its_offsets_or_as_its_items() -> None:
    tensors = content([[2, 1], [3]])
    tensors["other"] = LoDTensor(np.arange(3), LoD.from_lengths([[1, 2]]))
    tensors["apart"] = LoDTensor(np.arange(3), LoD.from_lengths([[1, 1, 1]]))
    tensors["names"] = LoDTensor(np.arange(5))
    items: dict[str, Item] = dict(tensors)
    schema = schema_of(items)
    shared = sharing(schema, "tags")
    assert (shared.names, shared.others) == (
        ["vectors", "tags", "marks", "label", "other"],
        ("apart", "names"),
    )
    shared = sharing(schema, None, "sentence")
    assert (shared.names, shared.level) == (["vectors", "tags", "marks"], 1)
    assert sharing(schema, None, None, ("label", "other")).names == [
        *("vectors", "tags", "marks", "label", "other"),
    ]
    assert sharing(schema, None, None, ("apart",)).names == ["apart"]
    with pytest.raises(SelectionError, match="choose one with ::NAME"):
        sharing(schema)
    with pytest.raises(SelectionError, match="no level named 'word'"):
        sharing(schema, "tags", "word")
    with pytest.raises(SelectionError, match="tags: no level 2: there are 2 levels"):
        sharing(schema, "tags", 2)
