"""Batches appended in memory, against their concatenation."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.arrays import held
from lodcli.formats.arrays.budget import KEPT_SHARE, keeping
from lodcli.formats.arrays.held import GrowingArray, HeldBatches
from lodcli.formats.arrays.in_memory import HeldSource
from lodcli.formats.core.schema import Batch, rekeyed, schema_of, tensor_of
from lodcli.formats.items import indexed_copy, reordering
from lodcli.formats.items.external_sort import sorted_by
from lodcli.formats.items.indexed_copy import copied
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import sharing
from lodcli.formats.items.taking import part
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import machine
from lodcli.kernels.runtime.memory_budget import within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks
from tests.formats.cases.writing import uncounted
from tests.growth import calls_of

Tensors = dict[str, LoDTensor]


@given(
    lists=st.lists(
        st.none() | st.lists(st.none() | st.text("aé€", max_size=3), max_size=3),
        min_size=1,
        max_size=12,
    ),
    least_bytes=st.sampled_from([1, 40, 1 << 20]),
    data=st.data(),
)
def test_batches_in_memory_are_their_concatenation(
    lists: list[Any], least_bytes: int, data: st.DataObject
) -> None:
    count = len(lists)
    nested = LoDTensor.from_lists([*lists, ["é"]])[:count]
    codes = Marks(unit=Categories(("x", "y")))
    whole = {
        "texts": nested,
        "beside": LoDTensor(np.arange(nested.lod.count(1)), nested.lod.upto(0)),
        "rows": LoDTensor(np.arange(count * 3, dtype=np.float32).reshape(count, 3)),
        "words": LoDTensor(np.arange(count, dtype=np.int8) % 2, None, codes),
        "nothing": LoDTensor(np.zeros((count, 0), np.int16)),
    }
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "_LEAST_BYTES", least_bytes)
        found = HeldBatches(rekeyed(schema_of(whole)))
        for start, stop in zip([0, *cuts], [*cuts, count], strict=True):
            found.add(part(whole, start, stop))
        tensors = found.tensors()
    for name, tensor in whole.items():
        assert tensors[name].identical(tensor), name
        assert not tensors[name].values.flags.writeable
    assert tensors["beside"].lod.levels[0] is tensors["texts"].lod.levels[0]
    assert found.counted() == rekeyed(schema_of(whole))


def test_an_array_that_grows_is_never_copied_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    array = GrowingArray((2,), np.dtype(np.int64))
    placed = calls_of(monkeypatch, GrowingArray, "_place")
    for start in range(0, 1 << 20, 1 << 12):
        array.append(np.arange(start, start + (1 << 12)).reshape(-1, 2))
    found = array.array()
    assert found.ravel().tolist() == list(range(1 << 20))
    assert sum(rows.nbytes for _, rows, _ in placed) == 8 << 20
    with pytest.raises(BufferError):
        array._reserve(1 << 30)


class _Fixed(mmap.mmap):
    """Mapped memory of a system without mremap."""

    def resize(self, newsize: int) -> None:
        raise SystemError("mmap: resizing not available--no mremap()")


def test_an_array_grows_where_mapped_memory_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "mapped_zeros", partial(_Fixed, -1))
    monkeypatch.setattr(machine, "mapped_zeros", partial(_Fixed, -1))
    rows = np.arange(5 << 17)
    array = GrowingArray((), rows.dtype)
    for piece in np.array_split(rows, 7):
        array.append(piece)
    np.testing.assert_array_equal(array.array(), rows)


def test_arrays_held_at_the_same_time_share_the_budget() -> None:
    with within_budget(KEPT_SHARE * 1000), keeping(10) as one, keeping(10) as two:
        assert one.fits(600)
        assert two.fits(400)
        assert not two.fits(1)
        two.release()
        assert two.fits(10)
        assert one.fits(390)
        with keeping(10) as three:
            assert three.fits(10)
            assert not three.fits(1)
    with within_budget(None), keeping(10) as alone:
        assert alone.fits(10)
        assert not alone.fits(1)


def _table(count: int) -> Tensors:
    rng = np.random.default_rng(0)
    lod = LoD.from_lengths([rng.integers(0, 3, count)])
    return {
        "key": LoDTensor(rng.integers(0, count // 4, count)),
        "place": LoDTensor(np.arange(count)),
        "lists": LoDTensor(np.arange(int(lod.levels[0][-1])), lod),
    }


def _batches(whole: Tensors, count: int, step: int) -> Iterator[Tensors]:
    for start in range(0, count, step):
        yield part(whole, start, min(start + step, count))


@pytest.mark.parametrize("in_memory", [True, False])
def test_only_what_exceeds_the_budget_goes_to_a_file(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 400_000
    whole = _table(count)
    schema = uncounted(schema_of(whole))
    order = np.argsort(whole["key"].data, kind="stable")
    written: list[str] = []
    for module, name in ((indexed_copy, "write_batches"), (reordering, "_spooled")):
        original = getattr(module, name)

        def noted(*arguments: Any, original: Any = original, name: str = name) -> Any:
            written.append(name)
            return original(*arguments)

        monkeypatch.setattr(module, name, noted)
    monkeypatch.setattr(reordering, "IN_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(reordering, "BUCKET_BYTES", 1 << 20)
    with (
        within_budget((256 if in_memory else 16) << 20),
        copied(schema, _batches(whole, count, 10_000)) as source,
    ):
        assert isinstance(source, HeldSource) == in_memory
        items = Items(source, sharing(source.schema))
        found = list(reordered(items, order))
    assert written == ([] if in_memory else ["write_batches", "_spooled"])
    assert len(found) > 1
    for name, tensor in whole.items():
        expected = tensor[order]
        assert LoDTensor.concatenate([one[name] for one in found]).identical(expected), name


def test_a_sort_writes_nothing_if_items_fit_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 400_000
    whole = _table(count)
    schema = uncounted(schema_of(whole))
    order = np.argsort(whole["key"].data, kind="stable")
    written = calls_of(monkeypatch, os, "pwrite")
    for budget, some in ((256 << 20, False), (16 << 20, True)):
        written.clear()
        with within_budget(budget):
            found = list(sorted_by(schema, _batches(whole, count, 10_000), ["key"]))
        assert bool(written) == some
        for name, tensor in whole.items():
            expected = tensor[order]
            assert LoDTensor.concatenate([one[name] for one in found]).identical(expected), name


def test_a_large_item_is_not_copied_to_memory_that_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.arange(3 << 20)
    whole = {
        "key": LoDTensor(np.array([2, 1, 0])),
        "x": LoDTensor(rows, LoD.from_lengths([[2, len(rows) - 4, 2]])),
    }
    schema = uncounted(schema_of(whole))
    held_bytes: list[int] = []
    add = HeldBatches.add

    def noted(self: HeldBatches, batch: Batch) -> None:
        held_bytes.append(sum(tensor_of(item).nbytes for item in batch.values()))
        add(self, batch)

    monkeypatch.setattr(HeldBatches, "add", noted)
    with within_budget(80 << 20):
        with copied(schema, _batches(whole, 3, 1)) as source:
            assert tensor_of(source.read()["x"]).identical(whole["x"])
        found = list(sorted_by(schema, _batches(whole, 3, 1), ["key"]))
    assert max(held_bytes) < 1000
    order = np.array([2, 1, 0])
    for name, tensor in whole.items():
        joined = LoDTensor.concatenate([one[name] for one in found])
        assert joined.identical(tensor[order]), name


def test_counts_other_than_announced_are_an_error() -> None:
    schema = schema_of({"x": LoDTensor(np.arange(3))})
    with (
        pytest.raises(InvalidDataError, match="expected 3 rows, found 2"),
        copied(schema, [{"x": LoDTensor(np.arange(2))}]),
    ):
        pass
