"""arrow, arrow-stream: many small record batches are read together."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.platform import pools
from tests.formats.cases.opening import content, nested, pipe
from tests.formats.cases.tables import written_by_pyarrow
from tests.growth import lines_of

SUFFIXES = pytest.mark.parametrize("suffix", [".arrow", ".arrows"])


@SUFFIXES
def test_a_small_record_batch_takes_little_work(suffix: str, tmp_path: Path) -> None:
    def read(path: Path) -> None:
        with lodcli.open(path) as file:
            list(file.batches())

    table = pa.table({"a": [[1, 2], [3]] * 200, "b": ["x", "yz"] * 200, "c": [1, 2] * 200})
    few, many = (written_by_pyarrow(tmp_path / f"{n}{suffix}", table[:n], 1) for n in (100, 400))
    read(few)
    assert lines_of(partial(read, many)) - lines_of(partial(read, few)) < 300 * 1000


@SUFFIXES
def test_their_records_are_those_of_the_table(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"a": [[n] * (n % 3) for n in range(300)], "b": list(map(str, range(300)))})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, 1)
    found = content(path)
    assert nested(found["a"]) == table["a"].to_pylist()
    assert nested(found["b"]) == [list(text.encode()) for text in table["b"].to_pylist()]
    if suffix == ".arrows":
        with pipe(tmp_path, suffix, path.read_bytes()) as piped:
            assert nested(content(piped)["a"]) == table["a"].to_pylist()


def test_dictionaries_with_too_many_words_together_stay_apart(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.int64())
    batches = [pa.record_batch({"x": pa.array([n, n + 1], kind)}) for n in range(0, 400, 2)]
    with pa.ipc.new_stream(tmp_path / "t.arrows", batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    assert nested(content(tmp_path / "t.arrows")["x"]) == list(range(400))


def test_an_error_names_the_record(tmp_path: Path) -> None:
    rows = [*[[1, 2]] * 100, [3, None], *[[4, 5]] * 100]
    table = pa.table({"x": pa.array(rows, pa.list_(pa.int8(), 2))})
    path = written_by_pyarrow(tmp_path / "t.arrow", table, 1)
    with pytest.raises(InvalidDataError, match=r"column 'x', record 100: "):
        content(path)


def test_a_small_parquet_file_is_read_without_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": [[1, 2], [3]], "b": ["x", "yz"]})
    pq.write_table(table, tmp_path / "few.parquet")
    many = pa.table({"a": range(1_000_000)})
    pq.write_table(many, tmp_path / "many.parquet", use_dictionary=False)
    threads: list[bool] = []
    decode, pool = pq.ParquetFile.iter_batches, pools.thread_pool

    def decoded(*args: Any, use_threads: bool = True) -> Any:
        threads.append(use_threads)
        return decode(*args, use_threads=use_threads)

    def made(*args: Any) -> Any:
        threads.append(True)
        return pool(*args)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", decoded)
    monkeypatch.setattr("lodcli.formats.storage.prefetch.thread_pool", made)
    assert content(tmp_path / "few.parquet")["b"].to_list() == ["x", "yz"]
    assert threads
    assert not any(threads)
    assert content(tmp_path / "many.parquet")["a"].rows == 1_000_000
    assert any(threads)
