"""mds: datasets of MosaicML Streaming."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.schema import schema_of
from lodcli.formats.records import mds
from lodcli.formats.records.mds_encodings import DTYPES, Encoding
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut
from tests.formats.cases.opening import batches_of, content, nested
from tests.strategies import DTYPES as ALL
from tests.strategies import tensors

THEIRS = Path(__file__).parents[1] / "theirs"
HELD = tuple(dtype for dtype in ALL if dtype.name in DTYPES)
RAGGED = LoDTensor(np.arange(6, dtype=np.int32), LoD.from_lengths([[2, 1, 3]]))


def made(folder: Path) -> Path:
    """Return a copy of the files of MDSWriter."""
    shutil.copytree(THEIRS / "mds", folder / "x")
    return folder / "x"


# -- the real tool -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mds", "mds_zstd"])
def test_a_dataset_of_mosaic_is_read(name: str) -> None:
    found = content(THEIRS / name)
    assert list(found) == ["any", "box", "frames", "label", "raw", "text", "tokens", "weight"]
    assert nested(found["tokens"]) == [[0], [10, 11], [20, 21, 22], [30, 31, 32, 33]]
    assert found["any"].recursive_sequence_lengths() == [[300, 600, 900, 1200]]
    assert found["any"].dtype == np.uint16
    assert nested(found["frames"])[1] == [[0, 1], [2, 3]]
    assert found["box"].data[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert found["box"].lod.n_levels == 0
    assert found["label"].data.tolist() == [-1, 0, 1, 2]
    assert found["weight"].data.tolist() == [0, 0.25, 0.5, 0.75]
    assert found["weight"].dtype == np.float32
    assert nested(found["raw"]) == [[], [0], [0, 1], [0, 1, 2]]
    assert found["text"][3].data.tobytes().decode() == "größe" * 3
    assert found["text"].lod.names == ("sample",)
    assert len(batches_of(THEIRS / name, 1)) == 4
    assert list(content(THEIRS / name, field=("label", "any"))) == ["any", "label"]


def test_mosaic_reads_what_we_write(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming")
    check_with(streaming, tmp_path)


def check_with(streaming: Any, folder: Path) -> None:
    items = content(THEIRS / "mds")
    io.write(folder / "x", items, format_name="mds")
    theirs = streaming.LocalDataset(str(THEIRS / "mds"))
    ours = streaming.LocalDataset(str(folder / "x"))
    assert len(ours) == len(theirs) == 4
    for number in range(4):
        for name, value in theirs[number].items():
            found = ours[number][name]
            if isinstance(value, str):
                assert found.decode() == value
            else:
                np.testing.assert_array_equal(found, value)
                assert getattr(found, "dtype", None) == getattr(value, "dtype", None) or (
                    name == "label"
                )


# -- round trips ---------------------------------------------------------------------


@st.composite
def samples(draw: st.DrawFn) -> dict[str, LoDTensor]:
    """Draw tensors of as many items; no arrays of nothing but those of bytes."""
    first = draw(tensors(HELD, row_shapes=[(), (3,), (2, 2)], max_levels=1, any_bits=True))
    lengths = draw(st.lists(st.integers(1, 4), min_size=len(first), max_size=len(first)))
    rows = np.arange(sum(lengths) * 2, dtype=np.float16).reshape(-1, 2)
    return {"data": first, "x": LoDTensor(rows, LoD.from_lengths([lengths]))}


@given(items=samples(), limit_bytes=st.sampled_from([1, 60, 1 << 20]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bits_come_back(tmp_path: Path, items: dict[str, LoDTensor], limit_bytes: int) -> None:
    path = tmp_path / "x"
    data = items["data"]
    text = data.dtype == np.uint8 and not data.row_shape
    if data.lod.n_levels and not text and (data.lod.lengths(0) == 0).any():
        with pytest.raises(UnsupportedError, match=r"no empty array; data of sample \d+ is empty"):
            io.write(path, items, format_name="mds", overwrite=True)
        return
    if not len(data):
        with pytest.raises(UnsupportedError, match="without a sample; x has no samples"):
            io.write(path, {"x": items["x"]}, format_name="mds", overwrite=True)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mds, "SHARD_BYTES", 200)
        io.write(path, items, format_name="mds", overwrite=True)
    batches = batches_of(path, limit_bytes)
    for name, tensor in items.items():
        found = LoDTensor.concatenate([batch[name] for batch in batches])
        names = ["sample"] * tensor.lod.n_levels
        assert found.identical(LoDTensor(np.array(tensor.data), tensor.lod.with_names(names)))


@pytest.mark.parametrize(("rows", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_the_shape_of_a_sample_takes_as_few_bytes_as_in_mosaic(rows: int, width: int) -> None:
    encoding, value = Encoding(np.dtype(np.uint8), None), np.arange(2 * rows, dtype=np.uint8)
    found = encoding.encode(value.reshape(2, rows))
    code = {1: 0, 2: 1, 4: 2}[width]
    axes = (2).to_bytes(width, "little") + rows.to_bytes(width, "little")
    assert found == bytes([2 << 2 | code]) + axes + value.tobytes()
    np.testing.assert_array_equal(encoding.decode(found), value.reshape(2, rows))


def test_samples_are_divided_into_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mds, "SHARD_BYTES", 100)
    whole = LoDTensor(np.arange(100.0).reshape(20, 5))  # samples of 40 bytes, and 4 for each
    io.write(tmp_path / "x", whole, format_name="mds")
    shards = json.loads((tmp_path / "x" / "index.json").read_text())["shards"]
    assert [one["samples"] for one in shards] == [2] * 10
    files = [tmp_path / "x" / f"shard.{number:05}.mds" for number in range(10)]
    assert [one["raw_data"]["bytes"] for one in shards] == [file.stat().st_size for file in files]
    np.testing.assert_array_equal(content(tmp_path / "x")["data"].data, whole.data)


def test_a_dataset_without_samples_comes_back(tmp_path: Path) -> None:
    io.write(tmp_path / "x", LoDTensor(np.zeros(0, np.int16)), format_name="mds")
    found = content(tmp_path / "x")["data"]
    assert (found.dtype.name, found.rows, found.lod.n_levels) == ("int16", 0, 0)


def test_tensors_that_come_apart_are_joined_again(tmp_path: Path) -> None:
    label = LoDTensor(np.arange(3.0))
    parts = [{"x": RAGGED[0:1]}, {"label": label}, {"x": RAGGED[1:3]}]
    schema = schema_of({"x": RAGGED, "label": label})
    io.write_batches(tmp_path / "x", schema, parts, format_name="mds")
    found = content(tmp_path / "x")
    assert nested(found["x"]) == nested(RAGGED)
    assert found["label"].data.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["mds", "lod.dataset"])
def test_one_file_of_a_folder_is_refused(kind: str, tmp_path: Path) -> None:
    io.write(tmp_path / "x", RAGGED, format_name=kind)
    for file in (tmp_path / "x").iterdir():
        with pytest.raises(UnsupportedError, match="; name the folder"):
            io.read_all(file, format_name=kind)


def test_a_folder_that_is_there_is_replaced_only_if_it_may_be(tmp_path: Path) -> None:
    io.write(tmp_path / "x", RAGGED, format_name="mds")
    with pytest.raises(TargetExistsError, match="exists already"):
        io.write(tmp_path / "x", RAGGED, format_name="mds")
    io.write(tmp_path / "x", RAGGED[0:1], format_name="mds", overwrite=True)
    assert nested(content(tmp_path / "x")["data"]) == [[0, 1]]
    (tmp_path / "x" / "notes.txt").touch()
    with pytest.raises(TargetExistsError, match=r"holds 'notes\.txt'"):
        io.write(tmp_path / "x", RAGGED, format_name="mds", overwrite=True)


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ({"a": RAGGED, "b": LoDTensor(np.arange(2.0))}, UnsupportedError, "a has 3, b has 2"),
        ({"a": RAGGED.with_data(np.zeros(6, bool))}, UnsupportedError, "mds holds no bool"),
        ({"a": LoDTensor(np.zeros((3, 0)))}, UnsupportedError, r"no rows of shape \(0,\): a"),
        ({"a": LoDTensor(np.arange(1), [[1], [1]])}, UnsupportedError, "holds 1 level, a has 2"),
    ],
)
def test_unsupported_content_is_an_error(
    items: dict[str, LoDTensor], error: type[LodError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        io.write(tmp_path / "x", items, format_name="mds")
    assert not list(tmp_path.iterdir())


# -- damage --------------------------------------------------------------------------


def said(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return a function that changes the index of a folder."""

    def apply(folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text())
        changed = change(index)
        (folder / "index.json").write_text(json.dumps(index if changed is None else changed))

    return apply


def stored(place: int, data: bytes) -> Callable[[Path], None]:
    """Return a function that overwrites bytes of the first shard."""

    def apply(folder: Path) -> None:
        path = folder / "shard.00000.mds"
        whole = path.read_bytes()
        path.write_bytes(whole[:place] + data + whole[place + len(data) :])

    return apply


def shard(number: int, **changes: Any) -> Callable[[Path], None]:
    return said(lambda index: index["shards"][number].update(changes))


def all_shards(**changes: Any) -> Callable[[Path], None]:
    def change(index: Any) -> None:
        for one in index["shards"]:
            one.update(changes)

    return said(change)


def encoded(column: int, encoding: str) -> Callable[[Path], None]:
    def change(index: Any) -> None:
        for one in index["shards"]:
            one["column_encodings"][column] = encoding

    return said(change)


U32 = struct.Struct("<I").pack
FIRST = struct.unpack_from("<I", (THEIRS / "mds" / "shard.00000.mds").read_bytes(), 4)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (said(lambda index: []), "index.json: has no list of shards"),
        (said(lambda index: {"shards": 3}), "index.json: has no list of shards"),
        (
            said(lambda index: {"chunks": [], "config": {}}),
            "has chunks of LitData, which lod does",
        ),
        (said(lambda index: index.update(version=3)), "index.json: version 3; expected 2"),
        (said(lambda index: index.update(shards=[])), "has no shards"),
        (said(lambda index: index.update(shards=[7])), "'int'|shard 0: is not an object"),
        (shard(1, format="csv"), "shard 1: format 'csv'; expected 'mds', of MDSWriter"),
        (
            shard(1, compression="gz"),
            "compression 'gz'; expected zstd; write the samples again with",
        ),
        (shard(1, raw_data=None), "shard 1: has no file name"),
        (shard(1, samples=-1), "expected a name, a size and a number"),
        (shard(1, samples=True), "expected a name, a size and a number"),
        (shard(0, samples=2**40), "cannot hold 1099511627776 samples"),
        (shard(0, samples=3), "expected 3 samples as in index.json, found 2"),
        (shard(1, column_names=["x"]), "shard 1: column_names differ from those of shard 0"),
        (said(lambda i: i["shards"][0]["raw_data"].update(bytes=2312)), "2312 bytes as in index"),
        (
            said(lambda i: i["shards"][0]["raw_data"].update(basename="../x/index.json")),
            "which is not a plain name of a file",
        ),
        (
            said(lambda i: i["shards"][1]["raw_data"].update(basename="7/shard.00000.mds")),
            "shard 1: is in the folder '7', as merge_index of Streaming writes; .* lod concat",
        ),
        (said(lambda i: i["shards"][0]["raw_data"].update(basename=7)), "expected a name"),
        (
            all_shards(column_names=["a"]),
            "the lists of columns differ",
        ),
        (
            encoded(0, "pkl"),
            "column any: is encoded as 'pkl', which is never unpickled; choose others with col",
        ),
        (
            encoded(3, "int8"),
            "column label: int8 with the size 8, not 1",
        ),
        (stored(0, U32(1)), "expected 2 samples as in index.json, found 1"),
        (stored(4, U32(8)), "offsets of its samples do not match"),
        (stored(8, U32(2**32 - 1)), "offsets of its samples do not match"),
        (stored(12, U32(100)), "offsets of its samples do not match"),
        (stored(FIRST, U32(2**31)), "sample 0: column any: needs 2147483648 bytes"),
        (stored(FIRST, U32(0)), "sample 0: column any: has dtype code -1"),
        (stored(FIRST + 20, b"\7"), "sample 0: column any: has dtype code 7"),
        (stored(FIRST + 21, b"\xff"), "column any: "),
        (stored(FIRST + 21, b"\0"), "column any: has 0 axes"),
        (stored(FIRST + 22, b"\xff\xff"), "column any: shape"),
        (lambda folder: (folder / "index.json").write_text("{"), "index.json: is not JSON"),
        (lambda folder: (folder / "index.json").write_text("[" * 10**5), "index.json: is not JSON"),
    ],
)
def test_damage_is_named(change: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    path = made(tmp_path)
    change(path)
    with pytest.raises(LodError, match=message) as caught:
        content(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.slow
def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    path = made(tmp_path)
    for name in ("shard.00000.mds", "index.json"):
        whole = (path / name).read_bytes()
        assert not accepted(cut(whole), path / name, lambda _: content(path), DamagedFileError)
        (path / name).write_bytes(whole)


def test_a_shard_that_unpacks_to_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    shutil.copytree(THEIRS / "mds_zstd", path)
    whole = (path / "shard.00000.mds.zstd").read_bytes()
    for data, message in (
        (whole[:100], r"expected \d+ bytes decompressed|cannot be decompressed"),
        (b"no zstd", "cannot be decompressed"),
        ((path / "shard.00002.mds.zstd").read_bytes(), r"expected \d+ bytes decompressed"),
    ):
        (path / "shard.00000.mds.zstd").write_bytes(data)
        with pytest.raises(DamagedFileError, match=message):
            content(path)


def _with_hashes(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    index = json.loads((path / "index.json").read_text())
    for shard in index["shards"]:
        change(shard["raw_data"])
    (path / "index.json").write_text(json.dumps(index))


def test_a_changed_byte_is_found_by_the_hash_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    io.write(path, RAGGED, format_name="mds")
    shard = path / "shard.00000.mds"
    (said,) = json.loads((path / "index.json").read_text())["shards"]
    digest = hashlib.sha256(shard.read_bytes()).hexdigest()
    assert said["hashes"] == ["sha256"]
    assert said["raw_data"]["hashes"] == {"sha256": digest}
    whole = shard.read_bytes()
    for place in range(0, len(whole), 7):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(LodError):
            content(path)
    shard.write_bytes(whole[:-1] + b"\x01")  # of the last number
    with pytest.raises(
        DamagedFileError, match=rf"shard.00000.mds: expected the sha256 {digest} as"
    ):
        content(path)


@pytest.mark.parametrize("name", ["mds", "mds_zstd"])
def test_hashes_of_others_are_checked_where_python_can(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    shutil.copytree(THEIRS / name, path)
    plain = {one.name: one.read_bytes() for one in path.iterdir()}
    if name == "mds_zstd":
        unpack = pytest.importorskip("zstandard").ZstdDecompressor().decompress
        packed = [one for one in plain if one.endswith(".zstd")]
        plain |= {one.removesuffix(".zstd"): unpack(plain[one]) for one in packed}

    def add(raw: dict[str, Any]) -> None:
        data = plain[raw["basename"]]
        raw["hashes"] = {"blake2b": hashlib.blake2b(data).hexdigest(), "xxh64": "0" * 16}

    _with_hashes(path, add)
    assert list(content(path, field=("label",))) == ["label"]
    with lodcli.open(path) as source:
        assert source.checksums == "blake2b of every shard"
    _with_hashes(path, lambda raw: raw["hashes"].update(blake2b="0"))
    with pytest.raises(DamagedFileError, match=r"shard.*: expected the blake2b 0 as in index.json"):
        content(path)
    with lodcli.open(path):
        pass  # nothing of the shards was read whole
    _with_hashes(path, lambda raw: raw.update(hashes={"xxh64": "0" * 16}))
    with lodcli.open(path) as source:
        assert source.checksums is None
        source.read()
    _with_hashes(path, lambda raw: raw.update(hashes=[1]))
    with pytest.raises(DamagedFileError, match="its hashes are not texts"):
        content(path)


def test_a_sample_unlike_the_first_is_named(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no column 'x'; there are: any, box"):
        content(THEIRS / "mds", field=("x",))
    first, second = np.zeros((1, 2), np.int8), np.zeros((1, 3), np.int8)
    encoding = Encoding.of("x", "ndarray")
    parts = [b"\x09" + encoding.encode(value) for value in (first, second)]
    pieces = [struct.pack("<I", len(part)) + part for part in parts]
    bounds = 16 + np.cumsum([0, *map(len, pieces)])
    data = struct.pack("<I3I", 2, *bounds.tolist()) + b"".join(pieces)
    (tmp_path / "shard.00000.mds").write_bytes(data)
    one = {
        "column_names": ["x"],
        "column_encodings": ["ndarray"],
        "column_sizes": [None],
        "compression": None,
        "format": "mds",
        "samples": 2,
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(data)},
    }
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": [one]}))
    with pytest.raises(LodError, match=r"sample 1: x: expected int8 of shape \(n, 2\) as in the"):
        content(tmp_path)


def test_decompressing_asks_for_no_more_than_the_index_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks of megabytes for a small shard, again and again, use up the address space."""
    import pyarrow as pa

    asked: list[int] = []

    class Stream(pa.CompressedInputStream):  # type: ignore[misc]
        def read(self, size: int) -> bytes:
            asked.append(size)
            return bytes(super().read(size))

    monkeypatch.setattr(pa, "CompressedInputStream", Stream)
    content(THEIRS / "mds_zstd")
    shards = json.loads((THEIRS / "mds_zstd" / "index.json").read_text())["shards"]
    assert 0 < max(asked) <= 1 + max(shard["raw_data"]["bytes"] for shard in shards)
