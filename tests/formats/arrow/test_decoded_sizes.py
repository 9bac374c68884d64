"""Decoded sizes of Arrow and Parquet files, computed before decoding, against pyarrow's."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core.bounds import Bounds

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pc = pytest.importorskip("pyarrow.compute", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

NO_BOUNDS = Bounds()
TIGHT = Bounds(max_bytes=1)


def table(seed: int) -> Any:
    """Return columns of every layout, with nulls and empty lists."""
    chance = random.Random(seed)
    count = 2000

    def word() -> str | None:
        return chance.choice([None, "", "a" * chance.randrange(30), f"{chance.random()}"])

    def some(make: Any) -> Any:
        return None if chance.random() < 0.1 else [make() for _ in range(chance.randrange(5))]

    def number() -> int:
        return chance.randrange(100)

    words = [word() for _ in range(count)]
    lists = [some(word) for _ in range(count)]
    columns = {
        "number": pa.array([number() for _ in range(count)], pa.int16()),
        "flag": pa.array([chance.random() < 0.5 for _ in range(count)]),
        "words": pa.array(words),
        "coded": pa.array(words).dictionary_encode(),
        "viewed": pa.array(words, pa.string_view()),
        "lists": pa.array(lists, pa.list_(pa.string())),
        "large": pa.array(lists, pa.large_list(pa.large_string())),
        "fixed": pa.array([[number(), number()] for _ in range(count)], pa.list_(pa.int8(), 2)),
        "record": pa.array([{"x": number(), "y": word()} for _ in range(count)]),
        "map": pa.array([[("k", number())]] * count, pa.map_(pa.string(), pa.int32())),
        "deep": pa.array([some(lambda: some(number)) for _ in range(count)]),
        "bytes": pa.array([b"abc"] * count, pa.binary(3)),
        "none": pa.nulls(count),
    }
    return pa.table(columns)


# -- Arrow ---------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("stream", [False, True])
def test_headers_tell_what_the_columns_of_arrow_decompress_to(
    codec: str, stream: bool, tmp_path: Path
) -> None:
    from lodcli.formats.arrow.sizes.messages import (
        DICTIONARY,
        RECORDS,
        decompressed_sizes,
        dictionary_size,
        file_messages,
        stream_messages,
    )

    whole = table(1)
    making = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
    with making(tmp_path / "t", whole.schema, options=options) as writer:
        writer.write_table(whole, max_chunksize=700)
    data = (tmp_path / "t").read_bytes()
    found, dictionaries = [], 0
    for item in (stream_messages if stream else file_messages)(memoryview(data)):
        assert item is not None
        place, message = item
        body = memoryview(data)[place : place + message.body_bytes]
        if message.kind == RECORDS:
            found.append((message.rows, decompressed_sizes(message, whole.schema, body)))
        elif message.kind == DICTIONARY:
            dictionaries += dictionary_size(message, body)
    reading = pa.ipc.open_stream if stream else pa.ipc.open_file
    batches = reading(data).read_all().to_batches()
    assert found == [(batch.num_rows, _sizes(batch)) for batch in batches]
    assert dictionaries > 0


def test_views_that_claim_any_number_of_buffers_are_not_counted() -> None:
    from lodcli.formats.arrow.sizes.messages import RECORDS, Message, decompressed_sizes

    message = Message(b"", RECORDS, 0, 1, ((0, 0), (0, 16)), compressed=True, views=(1 << 60,))
    schema = pa.schema([("x", pa.string_view()), ("y", pa.int8())])
    assert decompressed_sizes(message, schema, (5).to_bytes(8, "little") + bytes(8)) == [5, 0]


def test_long_runs_are_expanded_in_little_memory() -> None:
    from lodcli.formats.arrow.sizes.expansion import plain

    count = 1 << 20
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3, count], pa.int32()), [1, 2])
    tracemalloc.start()
    try:
        found = plain(runs.slice(2), NO_BOUNDS)
        assert tracemalloc.get_traced_memory()[1] < 8 * count
    finally:
        tracemalloc.stop()
    assert found[:3].to_pylist() == [1, 2, 2]
    assert len(found) == count - 2


def _sizes(batch: Any) -> list[int]:
    """Return the bytes of all buffers of each column, without those of its dictionary."""
    return [
        sum(
            buffer.size
            for buffer in (column.indices if _coded(column) else column).buffers()
            if buffer is not None
        )
        for column in batch.columns
    ]


def _coded(column: Any) -> bool:
    return isinstance(column, pa.DictionaryArray)


# -- Parquet -------------------------------------------------------------------------

ENCODINGS: dict[str, dict[str, Any]] = {
    "dictionary": {"use_dictionary": True},
    "fallback": {"use_dictionary": True, "dictionary_pagesize_limit": 500},
    "prefixes": {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
    "lengths": {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
    "plain": {"use_dictionary": False},
}


RARER = [pytest.param(codec, marks=pytest.mark.slow) for codec in ("gzip", "brotli", "lz4")]


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", *RARER])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_in_parquet_is_measured(
    encoding: str, version: str, codec: str, tmp_path: Path
) -> None:
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    whole = table(2).select(["words", "lists", "large", "viewed"])
    path = tmp_path / "t.parquet"
    pq.write_table(
        whole,
        path,
        compression=codec,
        data_page_version=version,
        data_page_size=700,
        row_group_size=900,
        **ENCODINGS[encoding],
    )
    file = pq.ParquetFile(path)
    pages = Pages(memoryview(path.read_bytes()), file.metadata.schema)
    for group in range(file.num_row_groups):
        for leaf, column in enumerate(file.read_row_group(group).columns):
            words = column.combine_chunks()
            while pa.types.is_nested(words.type):
                words = words.flatten()
            text = pc.sum(pc.binary_length(words.cast("large_string"))).as_py()
            found = pages.column(group, leaf, NO_BOUNDS)
            measured = found.measured()
            # Lengths and levels stand beside the text, but for a dictionary.
            assert text <= measured <= text + 24 * len(words) + 4000, (group, leaf)
            if encoding == "dictionary":  # the last run of a page is filled up to eight
                assert measured <= 1.1 * text
            assert measured <= found.of_longest_words() <= found.most


def test_pages_of_a_row_group_are_read_once(tmp_path: Path) -> None:
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    path = tmp_path / "t.parquet"
    reads: list[slice] = []

    class Bytes:
        content = b""

        def __len__(self) -> int:
            return len(self.content)

        def __getitem__(self, key: slice) -> bytes:
            reads.append(key)
            return self.content[key]

    pq.write_table(pa.table({"a": range(900), "b": range(900)}), path, row_group_size=500)
    data = Bytes()
    data.content = path.read_bytes()
    pages = Pages(data, pq.ParquetFile(path).metadata.schema)
    sizes = [pages.estimate(group, [0, 1], NO_BOUNDS) for group in (0, 1)]
    reads.clear()
    assert pages.estimate(1, [1], NO_BOUNDS) + pages.estimate(1, [0], NO_BOUNDS) == sizes[1]
    assert not reads
    assert pages.estimate(0, [0, 1], NO_BOUNDS) == sizes[0]
    assert reads
    columns = [pages.column(0, 0, bounds) for bounds in (NO_BOUNDS, Bounds(max_bytes=9))]
    assert columns[0] is not columns[1]  # which was checked by other bounds


def test_estimates_do_not_depend_on_those_before(tmp_path: Path) -> None:
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    path = tmp_path / "t.parquet"
    words = ["a" * 9000, *["b"] * 1500]
    pq.write_table(pa.table({"one": words, "other": words}), path)
    pages = Pages(memoryview(path.read_bytes()), pq.ParquetFile(path).metadata.schema)
    bounds = Bounds(max_bytes=20 << 20)
    alone = pages.estimate(0, [0], bounds)
    assert pages.estimate(0, [0, 1], bounds) < 2 * alone  # for one is measured
    assert pages.estimate(0, [0], bounds) == alone


def test_words_of_like_lengths_are_estimated_without_their_indices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.formats.arrow.sizes import parquet_pages

    path = tmp_path / "t.parquet"
    words = [f"{number:012}" for number in range(30_000)]
    pq.write_table(pa.table({"words": words * 2}), path)
    pages = parquet_pages.Pages(memoryview(path.read_bytes()), pq.ParquetFile(path).metadata.schema)
    monkeypatch.delattr(parquet_pages, "indexed_sum")
    bounds = Bounds(max_bytes=16 << 20)
    assert not bounds.allows_block(pages.column(0, 0, bounds).most)
    assert 12 * 60_000 <= pages.estimate(0, [0], bounds) <= 16 * 60_000 + 100


def test_a_word_that_differs_from_all_others_in_length_is_estimated(tmp_path: Path) -> None:
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    path = tmp_path / "t.parquet"
    words = pa.array(["a" * (1 << 20), *["b"] * 5000])
    pq.write_table(pa.table({"words": words}), path, dictionary_pagesize_limit=1 << 30)
    pages = Pages(memoryview(path.read_bytes()), pq.ParquetFile(path).metadata.schema)
    # The mean of both words would be 512 KB, and each batch have four of them.
    assert pages.estimate(0, [0], Bounds(max_bytes=1 << 30)) < 2 << 20


def test_few_long_words_of_many_values_are_estimated(tmp_path: Path) -> None:
    """The mean of all words would be far too low, and the row group decoded as one batch."""
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    words = [*map(str, range(30_000)), *["x" * 20_000] * 1500]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"words": words}), path, dictionary_pagesize_limit=1 << 30)
    pages = Pages(memoryview(path.read_bytes()), pq.ParquetFile(path).metadata.schema)
    bounds = Bounds(max_bytes=1 << 30)
    column = pages.column(0, 0, bounds)
    assert bounds.allows_block(column.of_longest_words())
    assert not bounds.allows_block(column.most)
    assert 1500 * 20_000 <= pages.estimate(0, [0], bounds) <= 2 * 1500 * 20_000


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_words_of_a_truncated_dictionary_are_those_before_its_end(backend: Any) -> None:
    from lodcli.formats.arrow.sizes.parquet_runs import dictionary_lengths
    from lodcli.kernels.runtime.dispatch import on

    lengths_of = on(backend, dictionary_lengths)
    chance = random.Random(0)
    lengths = [chance.choice([0, 1, 7, 300]) for _ in range(50)]
    body = b"".join(length.to_bytes(4, "little") + bytes(length) for length in lengths)
    ends = np.cumsum([4 + length for length in lengths])
    for stop in range(len(body) + 1):
        # A word counts once its length is there.
        whole = int(np.searchsorted(ends - lengths, stop, "right"))
        assert lengths_of(body[:stop], 50).tolist() == lengths[:whole]
    assert lengths_of(body, 3).tolist() == lengths[:3]
    assert lengths_of(body, 1 << 40).tolist() == lengths
    assert lengths_of(b"\xff" * 8, 2).tolist() == [2**32 - 1]
    assert lengths_of(body, -1).tolist() == []


def _packed_page(width: int, count: int) -> bytes:
    """Return a page of indices that are all 0, as one bit-packed run."""
    head, groups = bytearray(), (count // 8) << 1 | 1
    while groups > 127:
        head.append(groups & 127 | 128)
        groups >>= 7
    return bytes([width, *head, groups]) + bytes(width * count // 8)


def test_indices_without_bits_refer_to_the_first_word() -> None:
    from lodcli.formats.arrow.sizes.parquet_runs import indexed_sum

    assert indexed_sum(_packed_page(0, 80), np.array([7]), 75) == 75 * 7


def test_a_long_packed_run_takes_little_memory() -> None:
    from lodcli.formats.arrow.sizes.parquet_runs import delta_sum, indexed_sum

    count = 1 << 22
    body = _packed_page(1, count)
    # One block of one miniblock without bits, all numbers 0.
    deltas = b"\x80\x80\x80\x02\x01\x80\x80\x80\x02\0\0\0"
    tracemalloc.start()
    try:
        assert indexed_sum(body, np.array([3, 5]), count) == 3 * count
        assert delta_sum(deltas) == 0
        assert tracemalloc.get_traced_memory()[1] < 8 << 20  # 64 bytes a byte before
    finally:
        tracemalloc.stop()


def test_numbers_in_parquet_are_counted(tmp_path: Path) -> None:
    from lodcli.formats.arrow.sizes.parquet_pages import Pages

    numbers = {
        str(dtype): pa.array(np.zeros(1000), pa.from_numpy_dtype(np.dtype(dtype)))
        for dtype in ("int8", "uint16", "int32", "int64", "float32", "float64")
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(numbers), path)
    file = pq.ParquetFile(path)
    pages = Pages(memoryview(path.read_bytes()), file.metadata.schema)
    for leaf, name in enumerate(numbers):
        found = pages.column(0, leaf, TIGHT)
        assert found.most == 1000 * np.dtype(name).itemsize
        assert pages.values(0, leaf) == 1000
