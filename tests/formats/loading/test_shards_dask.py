"""Shards of a dataset as delayed values of Dask."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.errors import (
    DamagedFileError,
    OptionError,
    SelectionError,
    TooLargeError,
    UnsupportedError,
)
from lodcli.formats import Limits
from tests.formats.dataset.test_dataset import articles, sharded


@pytest.fixture(scope="module")
def dask() -> Any:
    return pytest.importorskip("dask")


@pytest.fixture
def folder(dask: Any, tmp_path: Path) -> Path:
    return sharded(tmp_path, articles(), shards=4)


def computed(dask: Any, parts: Any) -> list[Any]:
    return list(dask.compute(*parts, scheduler="synchronous"))


def test_the_shards_together_are_the_dataset(dask: Any, folder: Path) -> None:
    shards = lodcli.dask.from_dataset(folder, "tags")
    assert len(shards) == len(shards.names) == 4
    found = computed(dask, shards)
    assert LoDTensor.concatenate(found).identical(articles()["tags"])
    some = computed(dask, [shards[-1], *shards[1:3]])
    for number, one in zip([3, 1, 2], some, strict=True):
        assert one.identical(found[number])
    (first, *_) = computed(dask, lodcli.dask.from_dataset(folder))
    assert list(first) == list(articles())
    assert first["tags"].identical(found[0])


def test_the_repr_counts_the_shards(folder: Path) -> None:
    shards = lodcli.dask.from_dataset(folder)
    assert repr(shards) == f"<DelayedShards {folder}: 4 shards of {', '.join(articles())}>"
    url = "https://me:secret@example.org/words/?signature=1f"
    assert repr(replace(shards, path=url)).startswith("<DelayedShards https://example.org/words/:")
    assert repr(replace(shards, path="a\nb")).startswith(r"<DelayedShards 'a\nb': 4")
    many = replace(shards, schema=(*shards.schema, *shards.schema[:1] * 20))
    assert repr(many).endswith(f" and {len(many.schema) - 6} more>")


def test_options_say_how_shards_are_read(dask: Any, folder: Path) -> None:
    shards = lodcli.dask.from_dataset(folder, "ids", dtype="float32")
    assert [spec.dtype for spec in shards.schema] == [np.float32]
    assert computed(dask, shards)[0].dtype == np.float32
    few = lodcli.dask.from_dataset(folder, "ids", limits=Limits(max_bytes=1))
    with pytest.raises(TooLargeError):
        computed(dask, few)


def test_a_function_is_called_with_each_batch(dask: Any, folder: Path) -> None:
    shards = lodcli.dask.from_dataset(folder, "ids")
    found = computed(dask, shards.map_batches(len, batch_bytes=1))
    whole = computed(dask, shards)
    assert [sum(each) for each in found] == [len(one) for one in whole]
    assert max(map(len, found)) > 1
    everything = lodcli.dask.from_dataset(folder)
    for each in computed(dask, everything.map_batches(list)):
        assert {name for names in each for name in names} == set(articles())


def test_errors_are_raised_before_anything_is_computed(folder: Path) -> None:
    with pytest.raises(SelectionError, match="no tensor named 'no'"):
        lodcli.dask.from_dataset(folder, "no")
    lodcli.write(folder.parent / "one.lod.h5", articles())
    with pytest.raises(UnsupportedError, match=r"expected a dataset, found lod\.h5; `lod shard`"):
        lodcli.dask.from_dataset(folder.parent / "one.lod.h5")
    nothing: Any = None
    with pytest.raises(OptionError, match="expected first the path of a file"):
        lodcli.dask.from_dataset(nothing)
    shards = lodcli.dask.from_dataset(folder, "ids")
    with pytest.raises(SelectionError, match="no shard 4: there are 4"):
        shards[4]
    with pytest.raises(OptionError, match="function: expected a function, found NoneType"):
        shards.map_batches(nothing)
    with pytest.raises(OptionError, match="batch_bytes: expected a whole number from 1, found 0"):
        shards.map_batches(len, batch_bytes=0)
    next(folder.glob("data-00002*")).unlink()
    with pytest.raises(DamagedFileError, match=r"data-00002-of-00004\.lod\.h5: is missing"):
        lodcli.dask.from_dataset(folder)


@pytest.mark.slow
def test_workers_of_a_cluster_read_the_shards(folder: Path) -> None:
    distributed = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        shards = lodcli.dask.from_dataset(folder, "ids")
        found = client.gather(client.compute([*shards]))
        assert LoDTensor.concatenate(found).identical(articles()["ids"])
        sums = client.gather(client.compute(shards.map_batches(lambda ids: int(ids.data.sum()))))
    assert sum(map(sum, sums)) == articles()["ids"].data.sum()
