"""Small files that decompress, or expand, to much: about 100 MB out of at most 2 MB."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = 13_000_000
WORD = "w" * 100_000
REPEATS = 1000
Bomb = tuple[str, Callable[[Path], None]]


def _ipc(array: Any, codec: str | None = None, *, stream: bool = False) -> Callable[[Path], None]:
    import pyarrow as pa

    def write(path: Path) -> None:
        table = pa.table({"x": array()})
        making = pa.ipc.new_stream if stream else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with making(path, table.schema, options=options) as writer:
            writer.write_table(table)

    return write


def _parquet(array: Any, **options: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"x": array()}), path, **options)

    return write


def _zeros() -> Any:
    import pyarrow as pa

    return pa.array(np.zeros(ROWS, np.int64))


def _words() -> Any:
    import pyarrow as pa

    places = pa.array(np.zeros(REPEATS, np.int32))
    # Of bytes: words would be categories, which stay codes.
    return pa.DictionaryArray.from_arrays(places, pa.array([WORD.encode()]))


def _list_of_words() -> Any:
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array([0, REPEATS]), _words())


def _coded_structs() -> Any:
    import pyarrow as pa

    words = pa.array([{"n": list(range(13_000)), "x": 1}])
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(REPEATS, np.int8)), words)


def _growing_words() -> Any:
    import pyarrow as pa

    return pa.array([f"{WORD}{number:05}" for number in range(REPEATS)])


def _runs(values: list[Any], length: int) -> Any:
    import pyarrow as pa

    return pa.RunEndEncodedArray.from_arrays(pa.array([length], pa.int32()), pa.array(values))


def _views() -> Any:
    import pyarrow as pa

    views = np.zeros((REPEATS, 4), np.int32)
    views[:, 0] = len(WORD)
    views[:, 1] = np.frombuffer(WORD[:4].encode(), np.int32)
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(WORD.encode())]
    return pa.Array.from_buffers(pa.string_view(), REPEATS, buffers)


def _list_views() -> Any:
    import pyarrow as pa

    begin, size = np.zeros(REPEATS, np.int32), np.full(REPEATS, 13_000, np.int32)
    buffers = [None, pa.py_buffer(begin), pa.py_buffer(size)]
    items = pa.array(np.arange(13_000))
    return pa.Array.from_buffers(pa.list_view(pa.int64()), REPEATS, buffers, children=[items])


def _no_rows(kind: Any) -> Any:
    import pyarrow as pa

    of = kind(pa)
    buffers = pa.Array.from_buffers(pa.list_(of, 0), 2**31 - 1, [None], children=[pa.array([], of)])
    return buffers


def _gzipped(pieces: Callable[[], Iterator[bytes]]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with gzip.open(path, "wb") as file:
            for piece in pieces():
                file.write(piece)

    return write


def _line(begin: bytes, item: bytes, end: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield begin
        for _ in range(100):
            yield item * (1_000_000 // len(item))
        yield end

    return pieces


def _npz(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        arrays: dict[str, Any] = {"data": np.zeros(2, np.int8), name: np.zeros(ROWS, np.int64)}
        np.savez_compressed(path, **arrays)

    return write


def _tar(path: Path) -> None:
    held = io.BytesIO()
    np.save(held, np.zeros(ROWS, np.int64))
    with gzip.open(path, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("0.x.npy")
        info.size = len(held.getvalue())
        tar.addfile(info, io.BytesIO(held.getvalue()))


def _mds(path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = b"a" * (8 * ROWS)
    head = np.array([1, 12, 12 + 4 + len(text), len(text)], "<u4").tobytes()
    body = head + text
    packed = zstandard.ZstdCompressor().compress(body)
    path.mkdir()
    (path / "shard.00000.mds.zstd").write_bytes(packed)
    raw = {"basename": "shard.00000.mds", "bytes": len(body), "hashes": {}}
    zipped = {"basename": "shard.00000.mds.zstd", "bytes": len(packed), "hashes": {}}
    shard = {
        "column_encodings": ["bytes"],
        "column_names": ["x"],
        "column_sizes": [None],
        "compression": "zstd",
        "format": "mds",
        "hashes": [],
        "raw_data": raw,
        "samples": 1,
        "size_limit": 1 << 30,
        "version": 2,
        "zip_data": zipped,
    }
    (path / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


def bombs() -> dict[str, Bomb]:
    """Return by name the ending of each file, and what writes it."""
    ts = b"@problemName x\n@univariate true\n@classLabel false\n@data\n"
    found: dict[str, Bomb] = {
        "arrow zstd": (".arrow", _ipc(_zeros, "zstd")),
        "arrow lz4": (".arrow", _ipc(_zeros, "lz4")),
        "arrow stream zstd": (".arrows", _ipc(_zeros, "zstd", stream=True)),
        "arrow dictionary": (".arrow", _ipc(_words)),
        "arrow dictionary of structs": (".arrow", _ipc(_coded_structs)),
        "arrow runs": (".arrow", _ipc(lambda: _runs([7], 2_000_000_000))),
        "arrow runs of words": (".arrow", _ipc(lambda: _runs([WORD], REPEATS))),
        "arrow views": (".arrow", _ipc(_views)),
        "arrow list views": (".arrow", _ipc(_list_views)),
        "arrow rows of nothing": (".arrow", _ipc(lambda: _no_rows(lambda pa: pa.int64()))),
        "arrow lists of none": (
            ".arrow",
            _ipc(lambda: _no_rows(lambda pa: pa.list_(pa.int64()))),
        ),
        "parquet delta": (
            ".parquet",
            _parquet(_zeros, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED"),
        ),
        "parquet dictionary": (".parquet", _parquet(_zeros)),
        "parquet words": (".parquet", _parquet(_words)),
        "parquet list of words": (".parquet", _parquet(_list_of_words)),
        "parquet prefixes": (
            ".parquet",
            _parquet(_growing_words, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"),
        ),
        "jsonl numbers": (".jsonl.gz", _gzipped(_line(b"[", b"1,", b"1]\n"))),
        "jsonl lists": (".jsonl.gz", _gzipped(_line(b"[", b"[],", b"[]]\n"))),
        "jsonl lines": (".jsonl.gz", _gzipped(_line(b"1\n", b"1\n", b""))),
        "csv line": (".csv.gz", _gzipped(_line(b"", b"a", b"\n"))),
        "csv lines": (".csv.gz", _gzipped(_line(b"a\n", b"1\n", b""))),
        "text line": (".txt.gz", _gzipped(_line(b"", b"a", b"\n"))),
        "ts line": (".ts.gz", _gzipped(_line(ts, b"1,", b"1\n"))),
        "npz rows": (".npz", _npz("x")),
        "npz offsets": (".npz", _npz("lod.0")),
        "tar": (".tar.gz", _tar),
        "mds": ("", _mds),
    }
    for codec in ("zstd", "gzip", "brotli", "snappy", "lz4"):
        found[f"parquet {codec}"] = (
            ".parquet",
            _parquet(_zeros, use_dictionary=False, compression=codec),
        )
    return found
