"""Items in any order: in memory, read where they lie, or by buckets in a temporary file."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.container import checksums
from lodcli.formats.core import io, marks
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.io import write_batches
from lodcli.formats.core.schema import Item
from lodcli.formats.items import items as items_module
from lodcli.formats.items import reordering
from lodcli.formats.items.indexed_copy import indexed
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import sharing
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import machine
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks
from tests.formats.cases.opening import source_of
from tests.growth import peak_bytes_of

WAYS = ("in memory", "in place", "in buckets")
WORDS = Categories(("x", "y"))


def choose(patch: pytest.MonkeyPatch, way: str, small_bytes: int = 0) -> None:
    """Make `reordered` take one way, with many parts."""
    patch.setattr(reordering, "BUCKET_BYTES", 64)
    patch.setattr(reordering, "PASS_BYTES", 64)
    if way != "in memory":
        patch.setattr(reordering, "IN_MEMORY_BYTES", -1)
    patch.setattr(reordering, "SMALL_BYTES", small_bytes)
    patch.setattr(reordering, "LARGE_ITEM_BYTES", 0 if way == "in place" else 1 << 40)


def opened(path: Path) -> Iterator[Items]:
    with source_of(path) as source:
        shared = sharing(source.schema)
        with indexed(source, shared.names) as found:
            yield Items(found, shared)


def content(lengths: list[list[int]]) -> dict[str, Item]:
    """Two levels of rows, halves beside them, and a label an item."""
    inner = [words for article in lengths for words in article]
    lod = LoD.from_lengths([list(map(len, lengths)), inner], ["article", "sentence"])
    rows = np.arange(sum(inner))
    return {
        "vectors": LoDTensor(np.stack([rows, -rows, rows * 7], 1).astype(np.float32), lod),
        "halves": LoDTensor((rows / 2).astype(np.float16), lod),
        "label": LoDTensor(np.arange(len(lengths), dtype=np.int64)),
        "nothing": LoDTensor(np.zeros((len(lengths), 0), np.int8)),
    }


@pytest.mark.slow
@given(
    lengths=st.lists(st.lists(st.integers(0, 6), max_size=3), max_size=9),
    block_bytes=st.sampled_from([1, 12, 30, 256 << 10]),
    small_bytes=st.sampled_from([0, 40]),
    data=st.data(),
)
def test_all_ways_give_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[list[int]],
    block_bytes: int,
    small_bytes: int,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("items") / "content.lod.h5"
    tensors = content(lengths)
    order = data.draw(st.permutations(range(len(lengths))))
    chosen = np.array(order[: data.draw(st.integers(0, len(order)))], np.int64)
    expected = {name: tensor.to_list() for name, tensor in tensors.items()}  # type: ignore[union-attr]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "BLOCK_BYTES", block_bytes)
        io.write(path, tensors)
        for way in WAYS:
            choose(patch, way, small_bytes)
            for items in opened(path):
                if way == "in place":
                    assert reordering._in_place(items) is not None
                found: dict[str, list[Any]] = {name: [] for name in tensors}
                for batch in reordered(items, chosen):
                    for name, tensor in batch.items():
                        found[name] += tensor.to_list()
                for name, values in expected.items():
                    assert found[name] == [values[item] for item in chosen]


@pytest.mark.parametrize("checked", [False, True], ids=["before the check", "after it"])
def test_every_altered_byte_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    path = tmp_path / "content.lod.h5"
    monkeypatch.setattr(checksums, "BLOCK_BYTES", 16)
    choose(monkeypatch, "in place")
    rows = np.arange(40, dtype=np.int16)
    io.write(path, {"data": LoDTensor(rows, LoD.from_lengths([[7, 0, 1, 16, 8, 0, 8]]))})
    good = path.read_bytes()
    first = good.index(rows.tobytes())
    order = np.array([3, 1, 0, 6, 5, 4, 2])
    for place in range(first, first + rows.nbytes):
        path.write_bytes(good)
        for items in opened(path):
            found = reordering._in_place(items) if checked else None
            altered = bytearray(good)
            altered[place] ^= 16
            path.write_bytes(altered)
            with pytest.raises(DamagedFileError, match="was changed" if checked else "altered"):
                found.taken(order) if found else list(reordered(items, order))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("good", "wrong", "marks", "message"),
    [
        (b"abcdefgh", b"abc\xffefgh", Marks("text"), "x: item <0>: is not UTF-8"),
        (b"\0\1\0\1\0\1\0\1", b"\0\1\0\x09\0\1\0\1", Marks(unit=WORDS), "x: .*found 9"),
    ],
    ids=["text", "categories"],
)
def test_wrong_text_and_codes_are_found_when_they_are_written(
    good: bytes,
    wrong: bytes,
    marks: Marks,
    message: str,
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.frombuffer(good, np.uint8)
    index = [[3, 5]] if marks.is_text else None
    path, target = tmp_path / "x.safetensors", tmp_path / "y.lod.h5"
    io.write(path, {"x": LoDTensor(rows, index, marks)})
    stored = path.read_bytes()
    assert stored.count(good) == 1
    path.write_bytes(stored.replace(good, wrong))
    choose(monkeypatch, way, small_bytes=1 << 10 if way == "in place" else 0)
    for items in opened(path):
        assert (reordering._in_place(items) is not None) == (way == "in place")
        order = np.arange(items.count)[::-1]
        with pytest.raises(InvalidDataError, match=message):
            write_batches(target, items.schema, reordered(items, order))
    assert not target.exists()


def test_text_that_was_checked_as_it_was_read_is_not_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As columns of Parquet are, whose reader checks them and which are sorted in memory."""
    path = tmp_path / "words.jsonl"
    path.write_text("".join(f'{{"id":{n},"text":"{n}é"}}\n' for n in range(5)))
    monkeypatch.setattr(reordering, "IN_MEMORY_BYTES", -1)
    order = np.array([3, 0, 4, 1, 2])
    with source_of(path) as source, indexed(source, ["id", "text"]) as found:
        items = Items(found, sharing(found.schema, records=True))
        checked: list[LoD] = []
        monkeypatch.setattr(marks, "check_text", lambda rows, lod, before: checked.append(lod))
        write_batches(tmp_path / "out.jsonl", items.schema, reordered(items, order))
    assert not checked
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert lines == [f'{{"id":{n},"text":"{n}é"}}' for n in order]


def test_memory_holds_the_rows_of_one_tensor_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.write(tmp_path / "x.lod.h5", content([[1], [2, 3]]))
    held: list[weakref.ref[Array]] = []
    read = Items.rows

    def rows(items: Items, name: str) -> Array:
        assert not any(one() is not None for one in held)
        found = read(items, name)
        held.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Items, "rows", rows)
    for items in opened(tmp_path / "x.lod.h5"):
        list(reordered(items, np.array([1, 0])))
    assert len(held) == 4


@pytest.mark.parametrize(
    ("make", "available", "in_place"),
    [
        (lambda: LoDTensor(np.zeros((9, 8)), [[4, 5]]), 1 << 30, True),
        (lambda: LoDTensor(np.zeros((9, 8)), [[4, 5]]), 9 * 64, False),
        (lambda: LoDTensor(np.zeros((9, 8)), [[4, 5]]), None, False),
        (lambda: LoDTensor(np.zeros((9, 8)), [[1] * 9]), 1 << 30, False),
        (lambda: LoDTensor(np.zeros((99, 8), bool), [[49, 50]]), 1 << 30, False),
    ],
    ids=["large items", "too little memory", "unknown memory", "small items", "booleans"],
)
def test_large_items_are_read_in_place_if_memory_is_available(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], LoDTensor],
    available: int | None,
    in_place: bool,
) -> None:
    io.write(tmp_path / "content.lod.h5", {"data": make()})
    choose(monkeypatch, "in place")
    monkeypatch.setattr(reordering, "LARGE_ITEM_BYTES", 200)
    monkeypatch.setattr(machine, "available_bytes", lambda: available)
    for items in opened(tmp_path / "content.lod.h5"):
        assert (reordering._in_place(items) is not None) == in_place
    io.write(tmp_path / "packed.lod.h5", {"data": make()}, compression="deflate")
    for items in opened(tmp_path / "packed.lod.h5"):
        assert reordering._in_place(items) is None


def test_an_order_of_many_small_items_takes_few_bytes_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "BATCH_BYTES", 1 << 16)
    count = 500_000
    io.write(tmp_path / "x.lod.h5", {"x": LoDTensor(np.zeros(count, np.uint8))})
    order = np.arange(count)[::-1].copy()
    for items in opened(tmp_path / "x.lod.h5"):
        assert peak_bytes_of(partial(items.counted, order)) < 4 * count
        assert peak_bytes_of(partial(items.fitting_sizes, order)) < 18 * count
        assert peak_bytes_of(partial(getattr, items, "bytes")) < 25 * count
        assert peak_bytes_of(partial(list, reordered(items, order))) < 40 * count
        picked = items.picked(np.sort(order))
        assert peak_bytes_of(partial(deque, picked, 0)) < 20 * count


def test_the_index_of_items_counts_as_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reordering, "IN_MEMORY_BYTES", 100)
    io.write(tmp_path / "x.lod.h5", {"x": LoDTensor(np.zeros(0, np.uint8), [[0] * 20])})
    for items in opened(tmp_path / "x.lod.h5"):
        assert reordering._parts(items, np.arange(20)) is not None
        assert reordering._parts(items, np.arange(10)) is None
