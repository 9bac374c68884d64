"""Arrow, Parquet and ORC as pyarrow writes them, compressed and encoded in every way; datasets."""

from __future__ import annotations

from typing import Any

from tests.reliability.fuzz.base import Base, base
from tests.reliability.fuzz.bases_theirs import DEEP, FLAT, TEXTS, THEIRS, of_file
from tests.reliability.fuzz.known import Content, known, ragged


def _table() -> Any:
    import pyarrow as pa

    return pa.table(
        {
            "flat": pa.array(FLAT, pa.list_(pa.int32())),
            "deep": pa.array(DEEP, pa.large_list(pa.list_(pa.uint16()))),
            "text": pa.array(TEXTS, pa.string()),
            "pair": pa.array([[at / 4, 1] for at in range(4)], pa.list_(pa.float32(), 2)),
            "flag": pa.array([True, False, False, True]),
        }
    )


TABLE: Content = {
    "flat": ragged(FLAT, 1, "int32"),
    "deep": ragged(DEEP, 2, "uint16"),
    "text": ragged(TEXTS, 1, "uint8"),
    "pair": known([[at / 4, 1] for at in range(4)], dtype="float32"),
    "flag": known([True, False, False, True]),
}


def _ipc(*, stream: bool, compression: str | None) -> bytes:
    import pyarrow as pa

    image, whole = pa.BufferOutputStream(), _table()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(image, whole.schema, options=options) as writer:
        writer.write_table(whole, max_chunksize=3)
    found: bytes = image.getvalue().to_pybytes()
    return found


for _codec in (None, "lz4", "zstd"):
    for _stream in (False, True):

        @base(f"{'arrow-stream' if _stream else 'arrow'}, pyarrow {_codec or 'plain'}")
        def ipc(codec: str | None = _codec, stream: bool = _stream) -> Base:
            kind, file = ("arrow-stream", "good.arrows") if stream else ("arrow", "good.arrow")
            return Base(kind, {file: _ipc(stream=stream, compression=codec)}, file, TABLE)


PARQUET: dict[str, dict[str, Any]] = {
    "snappy": {"compression": "snappy"},
    "zstd v2": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip delta": {
        **{"compression": "gzip", "use_dictionary": False},
        "column_encoding": {"flat.list.element": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"},
    },
    "brotli": {"compression": "brotli"},
    "lz4": {"compression": "lz4", "use_byte_stream_split": False},
    "checksums": {"compression": "none", "write_page_checksum": True, "data_page_size": 16},
}
for _name, _options in PARQUET.items():

    @base(f"parquet, pyarrow {_name}")
    def parquet(options: dict[str, Any] = _options) -> Base:
        import pyarrow as pa
        import pyarrow.parquet as pq

        image = pa.BufferOutputStream()
        pq.write_table(_table(), image, row_group_size=3, **options)
        content: bytes = image.getvalue().to_pybytes()
        return Base("parquet", {"good.parquet": content}, "good.parquet", TABLE)


for _codec in ("uncompressed", "zlib"):

    @base(f"orc, pyarrow {_codec}")
    def orc(codec: str = _codec) -> Base:
        import pyarrow as pa
        from pyarrow.orc import write_table

        whole = _table().drop_columns(["pair", "deep"])  # no fixed sizes, no unsigned numbers
        whole = whole.append_column("deep", pa.array(DEEP, pa.list_(pa.list_(pa.int16()))))
        image = pa.BufferOutputStream()
        write_table(whole, image, compression=codec)
        content: bytes = image.getvalue().to_pybytes()
        parts = {name: TABLE[name] for name in ("flat", "text", "flag")}
        deep = ragged(DEEP, 2, "int16")
        return Base("orc", {"good.orc": content}, "good.orc", {**parts, "deep": deep})


@base("datasets, Hugging Face")
def datasets() -> Base:
    content = {
        "tokens": ragged(FLAT, 1, "int32"),
        "nested": ragged(DEEP, 2, "uint16"),
        "text": ragged(TEXTS, 1, "uint8"),
        "label": known([0, 1, 1, 0]),
        "box": ragged([[[at, 1], [2, 3]] for at in range(4)], 2, "int8"),
        "pair": TABLE["pair"],
    }
    kinds = {
        **{f"good/data-0000{at}-of-00002.arrow": "arrow-stream" for at in range(2)},
        **{"good/state.json": "json", "good/dataset_info.json": "json"},
    }
    return of_file(THEIRS / "datasets" / "train", "datasets", content, kinds=kinds)
