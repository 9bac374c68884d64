"""Files written by lod: every format, and special cases of its storage."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.reliability.fuzz.base import Base, base
from tests.reliability.fuzz.known import Content, Known, known, without_names

ARTICLES = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
NAMES = ["article", "sentence"]
ROWS = np.arange(1, 31, dtype=np.float32).reshape(15, 2)
WORDS: Content = {"data": known(ROWS, ARTICLES, NAMES)}
SENTENCES: Content = {"data": known(ROWS.astype(float), [[9, 1, 5]], ["sentence"])}
NUMBERS: Content = {"data": known(np.arange(-7, 8), ARTICLES, NAMES)}
SHARED: Content = {
    "data": WORDS["data"],
    "flags": known(np.arange(15) % 2 == 0, ARTICLES, NAMES),
    "year": known([1787, 1789, 1791], [[1, 1, 1]], ["article"], "int32"),
    "half": known(np.arange(4), [], [], "float16"),
}
# Levels and rows at their smallest: nothing at all, and items that hold nothing.
HOLLOW: Content = {
    "data": known(np.zeros((0, 3)), [[0, 2, 0], [0, 0]], [None, None], "int16"),
    "none": known([], [[]], [None], "uint8"),
    "plain": known(np.zeros((2, 0)), [], [], "float32"),
}
BROAD: Content = {
    "data": known(np.arange(6) * (1 + 2j), [[1, 0, 5]], [None], "complex128"),
    "b": known(np.arange(6).reshape(3, 2, 1), [[3]], ["b"], "uint64"),
}
NO_LEVELS: Content = {"data": known(ROWS, [], [])}
NULLS: Content = {
    "data": replace(
        known([1, 0, 3, 4, 0, 6, 7, 8, 9, 0, 11], [[2, 0, 9], [3, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1]]),
        nulls=((0, (1,)), (1, (1, 8)), (2, (1, 4, 9))),
    )
}
TEXT: Content = {
    "data": known(list(b"onetwothreefour"), [[2, 1], [2, 1, 1], [3, 3, 5, 4]], dtype="uint8")
}
# What the writers join blocks, chunks and batches of; still small enough to damage often.
LONG_LENGTHS = [[length % 7 for length in range(700)]]
LONG: Content = {
    "data": known(np.arange(sum(LONG_LENGTHS[0]), dtype=np.int32), LONG_LENGTHS, ["item"])
}


def tensor(one: Known) -> LoDTensor:
    """Return a tensor of plain values."""
    dtype = ml_dtypes.bfloat16 if one.dtype == "bfloat16" else one.dtype
    rows = np.frombuffer(one.rows, dtype).reshape(one.shape)
    lod = LoD.from_lengths([list(level) for level in one.lengths], one.names)
    masks = [np.ones(len(level), np.bool_) for level in (*one.lengths, rows)]
    for level, places in one.nulls:
        masks[level][list(places)] = False
    return LoDTensor(rows, lod, nulls=Nulls.of(masks))


def items(content: Content) -> dict[str, Item]:
    """Return tensors of plain values; equal levels are shared, as a writer finds them."""
    found: dict[str, Item] = {}
    shared: dict[object, LoD] = {}
    for name, one in content.items():
        made = tensor(one)
        lod = shared.setdefault((one.lengths, one.names), made.lod)
        found[name] = LoDTensor(made.values, lod, nulls=made.nulls)
    return found


def written(
    file: str, content: dict[str, Item], format_name: str | None = None, **options: Any
) -> dict[str, bytes]:
    """Return the files that a writer makes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        io.write(path, content, format_name=format_name, options=WriteOptions(**options))
        return files_in(Path(folder))


def files_in(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder and in those inside."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def ours(
    format_name: str, file: str, content: Content, write: dict[str, Any] | None = None, **about: Any
) -> Base:
    """Return a base that our writer of a format makes."""
    files = written(file, items(content), format_name, **(write or {}))
    if not table.get(format_name).level_names:
        content = without_names(content)
    return Base(format_name, files, file, content, **about)


# Of a file, as text.
ATTRIBUTES = '{"license":"MIT","of":[1,{"a":null}]}'
SEALED: dict[str, Any] = {"sealed": True, "sealed_parts": True, "oracle": "container"}
CONTAINERS: dict[str, tuple[Content, dict[str, Any]]] = {
    "lod.h5": (WORDS, {}),
    "lod.h5, deflate": (LONG, {"compression": "deflate"}),
    "lod.h5, lz4": (WORDS, {"compression": "lz4"}),
    "lod.h5, zstd": (WORDS, {"compression": "zstd"}),
    "lod.h5, several": (SHARED, {}),
    "lod.h5, hollow": (HOLLOW, {}),
    "lod.h5, broad": (BROAD, {}),
    "lod.h5, nulls": (NULLS, {}),
    "lod.h5, nulls, deflate": (NULLS, {"compression": "deflate"}),
    "lod.h5, attributes": (WORDS, {"attributes": ATTRIBUTES}),
}
for _name, (_content, _write) in CONTAINERS.items():
    base(_name)(
        lambda content=_content, write=_write: ours(  # type: ignore[misc]
            "lod.h5", "good.lod.h5", content, write, **SEALED
        )
    )


def steps() -> tuple[dict[str, Item], Content]:
    """Return a TensorArray of the articles, and what unpacking them by hand gives.

    Sentences of articles of 3, 1 and 2: the longest article first, so articles 0, 2, 1; step 0
    has their first sentences, step 1 those of 0 and 2, step 2 the third one of 0.
    """
    array = StoredArray(*TensorArray.unpack(tensor(WORDS["data"]), 0))
    starts = [0, 3, 5, 9, 10, 12, 15]
    taken = [0, 4, 3, 1, 5, 2]
    rows = np.concatenate([ROWS[starts[one] : starts[one + 1]] for one in taken])
    lengths = [[3, 2, 1], [3, 2, 1, 2, 3, 4]]
    expected = replace(known(rows, lengths), order=(0, 2, 1), outer=((3, 1, 2),))
    return {"steps": array}, {"steps": expected}


@base("lod.h5, array")
def container_of_array() -> Base:
    array, expected = steps()
    files = written("good.lod.h5", array)
    return Base("lod.h5", files, "good.lod.h5", expected, **SEALED)


STREAMS: dict[str, Any] = {"sealed": True, "oracle": "stream"}


@base("lod.stream")
def stream() -> Base:
    return ours("lod.stream", "good.lods", WORDS, **STREAMS)


@base("lod.stream, several")
def stream_of_several() -> Base:
    return ours("lod.stream", "good.lods", {**SHARED, **HOLLOW, "data": WORDS["data"]}, **STREAMS)


@base("lod.stream, nulls")
def stream_of_nulls() -> Base:
    return ours("lod.stream", "good.lods", NULLS, **STREAMS)


@base("lod.stream, attributes")
def stream_of_attributes() -> Base:
    return ours("lod.stream", "good.lods", WORDS, {"attributes": ATTRIBUTES}, **STREAMS)


@base("lod.stream, array")
def stream_of_array() -> Base:
    array, expected = steps()
    files = written("good.lods", array)
    return Base("lod.stream", files, "good.lods", expected, **STREAMS)


@base("lod.stream, batches")
def stream_of_batches() -> Base:
    """Totals that are not known before the end."""
    parts = [
        {"data": tensor(LONG["data"]).select(slice(at, at + 100))} for at in range(0, 700, 100)
    ]
    from lodcli.formats.core.schema import LevelSpec, TensorSpec

    spec = TensorSpec("data", np.dtype(np.int32), (), (LevelSpec("0", "item"),))
    with tempfile.TemporaryDirectory() as folder:
        io.write_batches(Path(folder, "good.lods"), (spec,), parts)
        files = files_in(Path(folder))
    return Base("lod.stream", files, "good.lods", LONG, **STREAMS)


ZIPS: dict[str, Any] = {"sealed": True, "oracle": "npz"}


@base("npz")
def npz() -> Base:
    return ours("npz", "good.npz", WORDS, **ZIPS)


@base("npz, several")
def npz_of_several() -> Base:
    return ours("npz", "good.npz", SHARED, **ZIPS)


@base("npz, hollow")
def npz_hollow() -> Base:
    return ours("npz", "good.npz", HOLLOW, **ZIPS)


@base("npy")
def npy_of_rows() -> Base:
    return ours("npy", "good.npy", NO_LEVELS)


@base("npz, offsets by name")
def npz_of_offsets() -> Base:
    options = {"data": "data", "offsets": ("a", "b")}
    write = {"cu_seqlens": ("a", "b")}
    return ours("npz", "good.npz", WORDS, write, options=options, sealed=True)


@base("awkward")
def awkward() -> Base:
    return ours("awkward", "good.npz", WORDS, sealed=True)


for _form in ("nested", "packed", "padded", "list", "flat"):

    @base(f"torch, {_form}")
    def torch_form(form: str = _form) -> Base:
        # Jagged and padded tensors have one level; a packed one is read as time steps.
        several = form in ("list", "flat")
        content = WORDS if several else SENTENCES
        files = written("good.pt", items(content), "torch", form=form)
        if form == "packed":
            content = {"data": packed_sentences()}
        return Base(
            "torch", files, "good.pt", without_names(content), sealed=True, oracle="torch_file"
        )


def packed_sentences() -> Known:
    """Return sentences of 9, 1 and 5 rows step by step, the longest first: 0, 2, 1."""
    rows = ROWS.astype(float)
    starts, sizes = (0, 10, 9), (9, 5, 1)
    sequences = list(zip(starts, sizes, strict=True))
    taken = [start + step for step in range(9) for start, size in sequences if step < size]
    lengths = [[sum(step < size for size in sizes) for step in range(9)]]
    return replace(known(rows[taken], lengths), order=(0, 2, 1), outer=((9, 1, 5),))


ZARR = {f"good/{name}zarr.json": "json" for name in ("", "data/", "data/data/", "data/lod.0/")}
SHARDS = {f"good/{name}.lod.h5": "lod.h5" for name in ("manifest", "data-00000-of-00001")}
PLAIN: dict[str, tuple[str, str, Content, dict[str, Any]]] = {
    "lod.dataset": ("lod.dataset", "good", WORDS, {"kinds": SHARDS, "sealed": True}),
    "safetensors": ("safetensors", "good.safetensors", WORDS, {}),
    "safetensors, several": ("safetensors", "good.safetensors", SHARED, {}),
    "paddle": ("paddle", "good.lodt", WORDS, {}),
    "arrow": ("arrow", "good.arrow", WORDS, {}),
    "arrow, several": ("arrow", "good.arrow", {"data": WORDS["data"], "year": SHARED["year"]}, {}),
    "arrow-stream": ("arrow-stream", "good.arrows", WORDS, {}),
    "parquet": ("parquet", "good.parquet", WORDS, {}),
    "parquet, several": (
        *("parquet", "good.parquet", {"data": WORDS["data"], "year": SHARED["year"]}, {}),
    ),
    "datasets": (
        "datasets",
        "good",
        WORDS,
        {
            "kinds": {
                "good/data-00000-of-00001.arrow": "arrow-stream",
                "good/state.json": "json",
                "good/dataset_info.json": "json",
            }
        },
    ),
    "tfrecord": ("tfrecord", "good.tfrecord", WORDS, {"sealed": True}),
    "tfrecord, several": (
        *("tfrecord", "good.tfrecord", {"data": WORDS["data"], "year": SHARED["year"]}),
        {"sealed": True},
    ),
    "zarr": ("zarr", "good", WORDS, {"kinds": ZARR}),
    "zarr-zip": ("zarr-zip", "good.zarr.zip", WORDS, {"kinds": {}}),
    "webdataset": ("webdataset", "good.tar", SENTENCES, {"kinds": {}}),
    "mds": ("mds", "good", SENTENCES, {"kinds": {"good/index.json": "json"}}),
}
for _name, (_format, _file, _content, _about) in PLAIN.items():
    base(_name)(
        lambda kind=_format, file=_file, content=_content, about=_about: ours(  # type: ignore[misc]
            kind, file, content, **about
        )
    )


@base("tfrecord, inside")
def tfrecord_inside() -> Base:
    content = {"data": WORDS["data"], "year": SHARED["year"]}
    kinds = {"good.tfrecord": "tfrecord.inside"}
    return ours("tfrecord", "good.tfrecord", content, kinds=kinds)


@base("paddle, several")
def paddle_of_several() -> Base:
    content = {"0": WORDS["data"], "1": NUMBERS["data"], "2": known([1, 0], dtype="bool")}
    return ours("paddle", "good.lodt", content)


@base("megatron")
def megatron() -> Base:
    content = {"data": known(np.arange(15), ARTICLES, dtype="uint16")}
    return ours("megatron", "good.idx", content, kinds={"good.bin": "tokens"})


@base("h5ad")
def h5ad() -> Base:
    lengths = [[2, 0, 1]]
    content = {
        "data": known([1.5, -2, 4], lengths, ["obs"], "float32"),
        "indices": known([2, 0, 1], lengths, ["obs"], "int32"),
    }
    files = written("good.h5ad", items(content), "h5ad")
    names = known(list(b"012"), [[1, 1, 1]], dtype="uint8")
    found = {**without_names(content), "obs_names": names, "var_names": names}
    return Base("h5ad", files, "good.h5ad", found)


@base("tokens")
def tokens() -> Base:
    content = {"data": known([5, 6, 0, 7, 0], [[3, 2]], dtype="uint16")}
    return ours("tokens", "good.bin", content, {"end_token": 0}, options={"end_token": 0})


@base("llmc")
def llmc() -> Base:
    content = {"data": known([5, 6, 0, 7, 0], [[3, 2]], dtype="uint32")}
    return ours("llmc", "good.bin", content, {"end_token": 0}, options={"end_token": 0})


TEXTS: dict[str, tuple[str, str, Content, dict[str, Any]]] = {
    "jsonl": ("jsonl", "good.jsonl", WORDS, {"dtype": np.dtype("float32"), "levels": ("a", "b")}),
    "jsonl, numbers": ("jsonl", "good.jsonl", NUMBERS, {}),
    "json": ("json", "good.json", NUMBERS, {}),
    "csv": ("csv", "good.csv", NUMBERS, {"levels": ("article", "sentence")}),
    "tsv": ("tsv", "good.tsv", NUMBERS, {"levels": ("article", "sentence")}),
    "text": ("text", "good.txt", TEXT, {"levels": ("a", "b", "c")}),
    "ts": ("ts", "good.ts", SENTENCES, {}),
}
for _name, (_format, _file, _content, _options) in TEXTS.items():
    for _suffix in ("", ".gz", ".zst"):

        @base(f"{_name}{_suffix and ', ' + _suffix[1:]}")
        def text(
            kind: str = _format,
            file: str = _file + _suffix,
            content: Content = _content,
            options: dict[str, Any] = _options,
        ) -> Base:
            packed = file.rpartition(".")[2]
            about = {} if packed not in ("gz", "zst") else {"kinds": {file: f"{kind}.{packed}"}}
            return ours(
                kind, file, content, options=options, sealed=packed in ("gz", "zst"), **about
            )
