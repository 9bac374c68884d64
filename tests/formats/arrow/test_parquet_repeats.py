"""Parquet: dictionaries only for columns whose values repeat."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.arrow import writer
from lodcli.formats.core import io
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.opening import content

COUNT = 60_000
RNG = np.random.default_rng(4)


def dictionaries(path: Path) -> dict[str, bool]:
    """Return which columns of a file have a dictionary in its first row group."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {one.path_in_schema: "RLE_DICTIONARY" in one.encodings for one in columns}


@pytest.mark.parametrize(
    ("values", "repeat"),
    [
        (RNG.normal(size=COUNT), False),
        (RNG.normal(size=COUNT).astype(np.float16), True),
        (RNG.permutation(COUNT) // 3, True),
        (RNG.permutation(COUNT) * 3 // 4, False),
        (np.arange(COUNT), False),
        (np.arange(COUNT) // 4, False),
        (np.arange(COUNT) // 8, True),
        (RNG.integers(0, 5000, COUNT // 2).repeat(2), True),
        (RNG.integers(0, 5000, COUNT) / 10, True),
        (np.where(np.arange(COUNT) < 9000, RNG.normal(size=COUNT), 0.5), True),
        (np.zeros(COUNT), True),
        (RNG.normal(size=1), False),
    ],
)
def test_numbers_that_all_differ_have_no_dictionary(
    tmp_path: Path, values: Any, repeat: bool
) -> None:
    lengths = LoD.from_lengths([[values.size // 2, values.size - values.size // 2]])
    for name, tensor in (("flat", LoDTensor(values)), ("list", LoDTensor(values, lengths))):
        path = tmp_path / f"{name}.parquet"
        io.write(path, tensor)
        assert list(dictionaries(path).values()) == [repeat]
        assert content(path)["data"].identical(tensor)


def test_fields_of_records_and_texts_are_distinguished(tmp_path: Path) -> None:
    event = {"k": "same", "x": [0.5, 0.25]}
    rows = [{"id": n, "e": [{**event, "w": f"word {n}"}]} for n in range(3000)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = io.read_all(tmp_path / "r.jsonl")
    io.write(tmp_path / "r.parquet", read)
    assert dictionaries(tmp_path / "r.parquet") == {
        "id": False,
        "e.list.element.k": True,
        "e.list.element.x.list.element": True,
        "e.list.element.w": False,
    }
    assert pq.read_table(tmp_path / "r.parquet").to_pylist() == rows


def in_runs(kind: str, count: int, times: int) -> pa.Array:
    """Return values of which each is there this many times, one after another."""
    numbers = np.arange(count) // times
    if kind == "text":
        words = [f"user {n * 2654435761 % 2**32:07x} {n}" for n in range(numbers[-1] + 1)]
        return pa.array(words).take(pa.array(numbers))
    return pa.array((RNG.normal(size=numbers[-1] + 1) * 2**40).astype(kind)[numbers])


def sizes(folder: Path, columns: pa.Table, compression: str | None) -> tuple[int, int]:
    """Return the sizes of the files x.parquet of lod and y.parquet of pyarrow."""
    ours, theirs = folder / "x.parquet", folder / "y.parquet"
    with Output(ours, overwrite=False, seekable=False) as output:
        writer.write_parquet(output, columns.schema, columns.to_batches(1 << 14), compression)
    pq.write_table(columns, theirs, compression=compression or "none")
    return ours.stat().st_size, theirs.stat().st_size


@pytest.mark.parametrize(
    ("dtype", "distinct", "repeat"),
    [
        ("int32", 100_000, True),
        ("int64", 100_000, True),
        ("float64", 100_000, True),
        ("float64", 200_000, False),
        ("text", 20_000, True),
        ("text", 200_000, False),
    ],
)
def test_files_of_repeated_values_are_as_small_as_those_of_pyarrow(
    tmp_path: Path, dtype: str, distinct: int, repeat: bool
) -> None:
    numbers = RNG.integers(0, distinct, 1_000_000)
    if dtype == "text":
        values = pa.array([f"user {n:07d}" for n in range(distinct)]).take(pa.array(numbers))
    else:
        values = pa.array((RNG.normal(size=distinct) * 2**24).astype(dtype)[numbers])
    ours, theirs = sizes(tmp_path, pa.table({"x": values}), None)
    assert list(dictionaries(tmp_path / "x.parquet").values()) == [repeat]
    assert ours <= 1.05 * theirs


def test_values_drawn_from_many_have_no_dictionary_that_pyarrow_gives_up(tmp_path: Path) -> None:
    # 153,000 different ones, each there 1.9 times on average, but some more often.
    path = tmp_path / "x.parquet"
    io.write(path, LoDTensor(np.random.default_rng(1).integers(0, 200_000, 290_000)))
    assert dictionaries(path) == {"data": False}


@pytest.mark.parametrize("distinct", [150_000, 160_000])
def test_values_have_a_dictionary_that_pyarrow_gives_up_late(tmp_path: Path, distinct: int) -> None:
    # 1.00 and 1.07 MB of different ones; pyarrow gives up at 1.05.
    path = tmp_path / "x.parquet"
    io.write(path, LoDTensor(np.random.default_rng(0).integers(0, distinct, 290_000)))
    assert dictionaries(path) == {"data": True}
    assert path.stat().st_size < 1_300_000  # without a dictionary 1,340,000


@pytest.mark.parametrize(("dtype", "times"), [("float64", 8), ("float64", 16), ("text", 8)])
def test_files_of_values_that_repeat_side_by_side_are_as_small(
    tmp_path: Path, dtype: str, times: int
) -> None:
    values = in_runs(dtype, 1_600_000, times)
    ours, theirs = sizes(tmp_path, pa.table({"x": values}), "snappy")
    assert list(dictionaries(tmp_path / "x.parquet").values()) == [True]
    assert ours <= 1.05 * theirs


@pytest.mark.parametrize("times", [2, 4])
@pytest.mark.parametrize("compression", ["snappy", "zstd"])
@pytest.mark.parametrize("kind", ["int64", "float64", "text"])
def test_files_of_short_runs_are_as_small_without_dictionaries(
    tmp_path: Path, kind: str, compression: str, times: int
) -> None:
    values = in_runs(kind, 200_000, times)
    ours, theirs = sizes(tmp_path, pa.table({"x": values}), compression)
    assert dictionaries(tmp_path / "x.parquet") == {"x": False}
    assert dictionaries(tmp_path / "y.parquet") == {"x": True}
    assert ours < 1.01 * theirs


@pytest.mark.parametrize("leading", ["nulls", "runs"])
@pytest.mark.parametrize("kind", ["float64", "text"])
def test_first_values_unlike_others_do_not_decide_on_a_dictionary(
    tmp_path: Path, kind: str, leading: str
) -> None:
    head, distinct = (20_000, 3500) if leading == "nulls" else (3500 * 6, 30_000)
    places = RNG.integers(0, distinct, 240_000)
    places[:head] = np.arange(head) // 6
    words = RNG.integers(0, 256, (distinct, 8), np.uint8).view(np.float64)[:, 0]
    if kind == "text":
        words = np.array([f"user {n * 2654435761 % 2**32:08x}" for n in range(distinct)])
    mask = (np.arange(places.size) < head) & (leading == "nulls")
    columns = pa.table({"x": pa.array(words[places], mask=mask)})
    with Output(tmp_path / "x.parquet", overwrite=False, seekable=False) as output:
        writer.write_parquet(output, columns.schema, columns.to_batches(), "snappy")
    assert dictionaries(tmp_path / "x.parquet") == {"x": True}


def test_times_that_all_differ_have_no_dictionary(tmp_path: Path) -> None:
    times = LoDTensor(np.arange(COUNT) * 7, marks=Marks(unit=Times("timestamp", "us")))
    io.write(tmp_path / "t.parquet", {"t": times, "b": LoDTensor(np.arange(COUNT) % 2 == 0)})
    assert not dictionaries(tmp_path / "t.parquet")["t"]


@pytest.mark.parametrize("nulls", [0.05, 0.6, 0.999])
def test_nulls_are_no_values_that_repeat(tmp_path: Path, nulls: float) -> None:
    rng = np.random.default_rng(1)
    mask = rng.random(400_000) >= nulls
    valid = Nulls.of([mask])
    rows = rng.normal(size=400_000).astype(np.float32) * mask
    few = np.arange(400_000) % 50 * mask
    tensors = {"x": LoDTensor(rows, nulls=valid), "few": LoDTensor(few, nulls=valid)}
    io.write(tmp_path / "x.parquet", tensors)
    assert dictionaries(tmp_path / "x.parquet") == {"x": False, "few": True}


def test_a_file_without_records_is_written(tmp_path: Path) -> None:
    io.write(tmp_path / "e.parquet", LoDTensor(np.zeros(0), LoD.from_lengths([[]])))
    assert content(tmp_path / "e.parquet")["data"].rows == 0


def test_row_groups_are_given_up_once_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 1 << 13)
    made: list[weakref.ref[pa.RecordBatch]] = []
    alive = []

    def records() -> Iterator[pa.RecordBatch]:
        for _ in range(12):
            alive.append(sum(each() is not None for each in made))
            batch = pa.record_batch({"x": pa.array(RNG.normal(size=512))})
            made.append(weakref.ref(batch))
            yield batch

    schema = pa.schema({"x": pa.float64()})
    with Output(tmp_path / "x.parquet", overwrite=False, seekable=False) as output:
        writer.write_parquet(output, schema, records(), None)
    assert pq.ParquetFile(tmp_path / "x.parquet").metadata.num_row_groups == 6
    assert max(alive) <= 2  # those of a row group
