"""Copies of sources that are read in order: small ones in memory, others in a container."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.formats.arrays.held import HeldBatches
from lodcli.formats.arrays.in_memory import HeldSource
from lodcli.formats.core.schema import LevelSpec, TensorSpec, rekeyed, schema_of
from lodcli.formats.items import indexed_copy
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def _content() -> dict[str, LoDTensor]:
    lod = LoD.from_lengths([[2, 0, 1], [1, 2, 3]], ["a", "b"])
    words = LoDTensor.from_lists([["x", None], None, ["yy"]])
    return {
        "deep": LoDTensor(np.arange(12, dtype=np.float32).reshape(6, 2), lod),
        "beside": LoDTensor(np.arange(6), lod),
        "above": LoDTensor(np.arange(3), LoD(lod.levels[:1], ["a"])),
        "words": words,
        "flat": LoDTensor(np.array([True, False])),
        "empty": LoDTensor(np.empty((0, 3)), [[]]),
    }


def test_a_copy_in_memory_reads_as_one_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    content = _content()
    schema = schema_of(content)
    first = {name: item[:1] for name, item in content.items() if name != "empty"}
    rest = {name: item[1:] for name, item in content.items() if name != "empty"}
    with indexed_copy.copied(schema, [first, rest]) as held:
        assert isinstance(held, HeldSource)
        monkeypatch.setattr(indexed_copy, "batch_bytes", lambda limit_bytes: 0)
        with indexed_copy.copied(schema, [first, rest]) as stored:
            assert not isinstance(stored, HeldSource)
            assert rekeyed(held.schema) == rekeyed(stored.schema)
            found = stored.read()
            for name, item in held.read().items():
                assert item.identical(found[name])
                assert item.identical(content[name])
            for name in ("deep", "above", "words"):
                one, two = (source.slice(name, (slice(0, 2),)) for source in (held, stored))
                assert one.identical(two)
    assert held.lods["deep"] is held.lods["beside"]
    assert held.lods["above"].levels[0] is held.lods["deep"].levels[0]


def test_batches_that_do_not_fit_the_schema_are_not_held() -> None:
    level = LevelSpec("0", None, None)
    schema = tuple(TensorSpec(name, np.dtype(np.int64), (), (level,)) for name in "ab")
    batch = {"a": LoDTensor([1, 2], [[2]]), "b": LoDTensor([1, 2], [[1, 1]])}
    with pytest.raises(ShapeMismatchError, match="shared with tensor a"):
        HeldBatches(schema).add(batch)
