"""Sorted, grouped and exploded tables in Parquet, against polars; in memory and in files."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.arrays import budget
from lodcli.formats.items import external_sort, reordering
from tests.lodcli.conftest import Lod

COUNT = 1500
WORDS = ["", "a", "a\0", "é", "éa", "日本", "🙂", "x" * 40, "zz"]


def made(rng: np.random.Generator) -> pa.Table:
    """Return a table of columns with nulls."""

    def nulls(share: float = 0.1) -> Any:
        return rng.random(COUNT) < share

    def lists(lengths: Any, values: list[Any], missing: Any) -> list[Any]:
        ends = np.cumsum([0, *lengths]).tolist()
        parts = [values[start:stop] for start, stop in pairwise(ends)]
        return [None if gone else part for part, gone in zip(parts, missing, strict=True)]

    def texts(count: int) -> list[str]:
        return [WORDS[n] for n in rng.integers(0, len(WORDS), count)]

    numbers = rng.integers(-50, 50, COUNT)
    none, lengths = nulls(), rng.integers(0, 4, COUNT)
    total = int(lengths.sum())
    return pa.table(
        {
            "place": np.arange(COUNT),
            "whole": pa.array(numbers, mask=nulls()),
            "few": pa.array(rng.integers(0, 3, COUNT).astype(np.int8), mask=nulls(0.01)),
            "float": pa.array(np.round(rng.normal(size=COUNT), 1), mask=nulls()),
            "text": pa.array(texts(COUNT), mask=nulls()),
            "time": pa.array(numbers * 1_000_003, pa.timestamp("us"), mask=nulls()),
            "decimal": pa.array([Decimal(int(n)) / 100 for n in numbers], pa.decimal128(9, 2)),
            "kind": pa.array(texts(COUNT), mask=nulls()).dictionary_encode(),
            "true": pa.array(rng.random(COUNT) < 0.5, mask=nulls()),
            "ids": pa.array(lists(lengths, rng.integers(0, 9, total).tolist(), none)),
            "names": pa.array(lists(lengths, texts(total), none)),
        }
    )


@pytest.fixture(params=["memory", "files"])
def table(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table as a frame of polars, and in t.parquet, of several row groups."""
    pl = pytest.importorskip("polars")
    if request.param == "files":
        monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
        for module, name, size in (
            *((external_sort, "RUN_BYTES", 1 << 14), (external_sort, "BLOCK_BYTES", 1 << 10)),
            *((reordering, "IN_MEMORY_BYTES", 1 << 14), (reordering, "BUCKET_BYTES", 1 << 14)),
        ):
            monkeypatch.setattr(module, name, size)
        monkeypatch.setattr("lodcli.formats.items.indexed_copy.BATCH_BYTES", 1 << 14)
    content = made(np.random.default_rng(7))
    pq.write_table(content, "t.parquet", row_group_size=400)
    return pl.from_arrow(content).with_columns(pl.col("kind").cast(pl.String))


def result(lod: Lod, *args: str) -> list[dict[str, Any]]:
    assert lod(*args, "-q", "-f", "-o", "out.parquet").clean
    found = pq.read_table("out.parquet")
    assert pa.types.is_dictionary(_innermost(found.schema.field("kind").type))
    records: list[dict[str, Any]] = found.to_pylist()
    return records


def _innermost(kind: Any) -> Any:
    return kind.value_type if pa.types.is_large_list(kind) else kind


@pytest.mark.parametrize("by", ["whole", "text", "float", "time", "decimal", "true", "few,text"])
def test_sorted_records_are_those_of_polars(lod: Lod, table: Any, by: str) -> None:
    wanted = table.sort(*by.split(","), nulls_last=True, maintain_order=True)
    assert result(lod, "sort", "t.parquet", "--by", by) == wanted.to_dicts()
    wanted = table.sort(
        *by.split(","), descending=[True] * len(by.split(",")), nulls_last=True, maintain_order=True
    )
    assert result(lod, "sort", "t.parquet", "--by", by, "--reverse") == wanted.to_dicts()


@pytest.mark.parametrize("by", ["whole", "text", "time", "decimal", "few,true"])
def test_groups_and_kept_records_are_those_of_polars(lod: Lod, table: Any, by: str) -> None:
    import polars as pl

    keys = by.split(",")
    for order in ("key", "first"):
        for keep in (None, "first", "last"):
            every = pl.all() if keep is None else getattr(pl.all(), keep)()
            wanted = table.group_by(keys, maintain_order=True).agg(every)
            if order == "key":
                wanted = wanted.sort(*keys, nulls_last=True, maintain_order=True)
            elif keep is not None:  # in the order of the records that are kept
                wanted = wanted.sort("place")
            options = ["--order", order, *(["--keep", keep] if keep else [])]
            found = result(lod, "group", "t.parquet", "--by", by, *options)
            assert [{name: one[name] for name in wanted.columns} for one in found] == (
                wanted.to_dicts()
            ), (order, keep)


def test_exploded_records_are_those_of_polars(lod: Lod, table: Any) -> None:
    import polars as pl

    wanted = table.filter(pl.col("ids").list.len() > 0).explode("ids", "names")
    assert result(lod, "explode", "t.parquet", "ids", "names") == wanted.to_dicts()


def test_joined_records_are_those_of_polars(lod: Lod, table: Any) -> None:
    import polars as pl

    other = pl.DataFrame({"whole": [3, None, -7, 3, 49], "more": ["a", "b", "日", "d", None]})
    other.write_parquet("u.parquet")
    for how in ("inner", "left"):
        wanted = table.join(other, on="whole", how=how, maintain_order="left_right").sort(
            "whole", nulls_last=True, maintain_order=True
        )
        assert result(lod, "join", "t.parquet", "u.parquet", "--on", "whole", "--how", how) == (
            wanted.to_dicts()
        )
