"""arrow, arrow-stream, parquet: exchange of files with pyarrow and related libraries."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.arrow.writer import write_ipc
from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.opening import batches_of, content, nested, pipe, tensors_of
from tests.formats.cases.tables import NESTED, SUFFIXES, column, read_by_pyarrow, written_by_pyarrow
from tests.sampling import many
from tests.strategies import DTYPES, tensors

HELD = [dtype for dtype in DTYPES if dtype.name not in ("bfloat16", "complex64", "complex128")]


# -- there and back ------------------------------------------------------------------


@SUFFIXES
@settings(max_examples=many(40, share=4), deadline=None)
@given(data=st.data())
def test_any_tensor_comes_back_bit_for_bit(suffix: str, data: st.DataObject) -> None:
    tensor = data.draw(tensors(HELD, row_shapes=[(), (1,), (3,), (2, 2)], any_bits=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"t{suffix}")
        io.write(path, tensor)
        found = content(path)["data"]
        assert found.identical(tensor)
        theirs = read_by_pyarrow(path).column("data").combine_chunks()
        theirs.validate(full=True)
        if tensor.dtype.kind != "f" or not np.isnan(tensor.data).any():
            assert theirs.to_pylist() == nested(tensor)


@SUFFIXES
@settings(max_examples=many(30, share=4), deadline=None)
@given(data=st.data())
def test_many_tensors_come_back_and_share_what_they_shared(
    suffix: str, data: st.DataObject
) -> None:
    first = data.draw(tensors(HELD, row_shapes=[(), (2,)], min_levels=1))
    kinds = data.draw(st.lists(st.sampled_from(HELD), min_size=1, max_size=3))
    content_ = {"first": first}
    for number, dtype in enumerate(kinds):
        content_[f"t{number}"] = LoDTensor(np.ones(first.rows, dtype), first.lod)
    content_["plain"] = LoDTensor(np.arange(len(first)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"t{suffix}")
        io.write(path, content_)
        found = content(path)
    assert list(found) == list(content_)
    for name, tensor in content_.items():
        assert found[name].identical(tensor), name
    assert all(found[f"t{n}"].lod is found["first"].lod for n in range(len(kinds)))


@SUFFIXES
def test_slices_and_indexes_are_those_of_the_whole(suffix: str, tmp_path: Path) -> None:
    lod = LoD.from_lengths([[3, 1, 0, 2], [3, 2, 4, 1, 2, 3]], ["article", None])
    tensor = LoDTensor(np.arange(30.0).reshape(15, 2), lod)
    table = pa.table({"x": pa.array(nested(tensor), pa.list_(pa.list_(pa.list_(pa.float64(), 2))))})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=1)
    bare = LoDTensor(tensor.data, lod.with_names(None))
    with lodcli.open(path) as source:
        assert source.read_index("x") == bare.lod
        for level, branch in [
            *((0, (2,)), (0, (3, 1)), (0, (-1, -1, 0)), (0, (slice(1, 3),)), (0, (slice(3, 9),))),
            *((0, (0, slice(1, 2))), (1, (slice(3, 6),)), (1, (2, 3)), (0, (slice(2, 1),))),
        ]:
            expected = bare.select(*branch, level=level)
            assert source.slice("x", branch, level).identical(expected), branch
        with pytest.raises(SelectionError, match="no item 4, there are 4 here"):
            source.slice("x", (4,))


def test_level_names_are_kept(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(3), LoD.from_lengths([[1, 1], [1, 2]], ["day", None]))
    for suffix in (".arrow", ".arrows", ".parquet"):
        io.write(tmp_path / f"t{suffix}", tensor)
        assert content(tmp_path / f"t{suffix}")["data"].lod.names == ("day", None)


@pytest.mark.parametrize("metadata", [b"[", b'["0","1"]', b'["a"]', b"[1,2]", b"7", b"\xff"])
def test_metadata_that_is_not_ours_is_left_alone(metadata: bytes, tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.int8()))
    schema = pa.schema([pa.field("x", kind, metadata={"lod.levels": metadata})])
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table([[[[1]]]], schema=schema))
    assert column(path).lod.names == (None, None)


# -- several columns -----------------------------------------------------------------


@SUFFIXES
def test_columns_with_the_same_lists_share_their_levels(suffix: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "ids": [[1, 2], [], [3]],
            "mask": [[True, False], [], [True]],
            "words": [["a", "bc"], [], [""]],
            "other": [[1], [2], [3]],
        }
    )
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=2)
    with lodcli.open(path) as source:
        keys = [[level.key for level in spec.levels] for spec in source.schema]
        found = tensors_of(source.read())
    assert keys[0] == keys[1] == keys[2][:1]
    assert keys[3] != keys[0]
    assert found["ids"].lod is found["mask"].lod


@SUFFIXES
def test_lists_that_differ_later_are_not_shared_or_are_an_error(
    suffix: str, tmp_path: Path
) -> None:
    many = [[1], []] * 1500
    table = pa.table({"a": [*many, [1, 2], [1]], "b": [*many, [1], [1, 2]]})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=3000)
    if suffix == ".parquet":
        with pytest.raises(InvalidDataError, match=r"before record 3000, but .*\(field=.b.\)"):
            content(path)
    else:
        found = content(path)
        assert found["a"].rows == found["b"].rows == 1503
    assert nested(content(path, field=("b",))["b"])[-2:] == [[1], [1, 2]]


@SUFFIXES
def test_lists_of_one_length_are_not_taken_for_shared(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"to": [*["US"] * 3000, "USA"], "from": [*["DE"] * 3001]})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=3000)
    found = content(path)
    assert (found["to"].rows, found["from"].rows) == (6003, 6002)


def test_a_pipe_that_later_differs_is_an_error(tmp_path: Path) -> None:
    many = [[1], []] * 1500
    table = pa.table({"a": [*many, [1, 2]], "b": [*many, [1]]})
    data = written_by_pyarrow(tmp_path / "t.arrows", table, records=1500).read_bytes()
    with (
        pipe(tmp_path, ".arrows", data) as path,
        pytest.raises(InvalidDataError, match="before record 3000"),
    ):
        content(path)


def test_a_stream_is_read_from_a_pipe_and_only_once(tmp_path: Path) -> None:
    table = pa.table({"x": NESTED, "y": [1, 2, 3, 4]})
    data = written_by_pyarrow(tmp_path / "t.arrows", table, records=3).read_bytes()
    with pipe(tmp_path, ".arrows", data) as path, lodcli.open(path) as source:
        found = tensors_of(source.read(["x"]))
        assert nested(found["x"]) == NESTED
        with pytest.raises(UnsupportedError, match="a pipe can be read only once"):
            source.read(["y"])
    for suffix in (".arrow", ".parquet"):
        data = written_by_pyarrow(tmp_path / f"t{suffix}", table).read_bytes()
        with pipe(tmp_path, suffix, data) as path:
            assert nested(content(path)["x"]) == NESTED


def test_column_choice(tmp_path: Path) -> None:
    path = written_by_pyarrow(tmp_path / "t.parquet", pa.table({"a": [[1]], "b.c": [2], "d": [3]}))
    assert list(content(path, field=("d", "b.c"))) == ["b.c", "d"]
    for wrong, message in [(("e",), "no column 'e'; there are: a, b.c, d"), (("a", "a"), "twice")]:
        with pytest.raises(SelectionError, match=message):
            content(path, field=wrong)
    double = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    path = written_by_pyarrow(tmp_path / "t.arrow", double)
    with pytest.raises(InvalidDataError, match="two columns are named 'x'"):
        content(path)


# -- batches and refusals ------------------------------------------------------------


@SUFFIXES
def test_batches_are_small_and_add_up(suffix: str, tmp_path: Path) -> None:
    lists = [list(range(n % 7)) for n in range(5000)]
    table = pa.table({"x": lists, "y": lists, "z": list(range(5000))})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=5000)
    found = batches_of(path, 10_000)
    assert len(found) > 20
    assert max(batch["x"].nbytes for batch in found) < 20_000
    assert all(batch["x"].lod is batch["y"].lod for batch in found)
    parts = [batch["x"] for batch in found]
    assert nested(LoDTensor.concatenate(parts)) == lists


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_feather_is_read(codec: str, tmp_path: Path) -> None:
    lists = [list(range(n % 7)) for n in range(3000)]
    pyarrow.feather.write_feather(
        pa.table({"x": lists, "y": lists}), str(tmp_path / "t.feather"), codec
    )
    found = content(tmp_path / "t.feather")
    assert nested(found["x"]) == lists
    assert found["x"].lod is found["y"].lod


@pytest.mark.parametrize("codec", ["deflate", "lz4", "zstd", None])
def test_parquet_is_compressed_as_told(codec: str | None, tmp_path: Path) -> None:

    tensor = LoDTensor(np.zeros(9000), LoD.from_lengths([[9000]]))
    path = tmp_path / "t.parquet"
    io.write(path, tensor, compression=codec)
    assert content(path)["data"].identical(tensor)
    found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert found == {"deflate": "GZIP", None: "SNAPPY"}.get(codec, str(codec).upper())


@SUFFIXES
def test_tensors_that_a_table_cannot_hold_are_refused_and_nothing_is_written(
    suffix: str, tmp_path: Path
) -> None:
    index = LoD.from_lengths([[2]])
    array, index_map = TensorArray.unpack(LoDTensor(np.arange(2), index), 0)
    refused: list[tuple[Any, type[LodError], str]] = [
        (LoDTensor(np.zeros(2, "c8"), index), UnsupportedError, "no complex64"),
        (LoDTensor(np.zeros((2, 0)), index), UnsupportedError, r"shape \(0,\)"),
        (StoredArray(array, index_map), UnsupportedError, "holds no TensorArray"),
        (
            {"a": LoDTensor(np.zeros(2)), "b": LoDTensor(np.zeros(3))},
            UnsupportedError,
            "a has 2, b has 3; choose one",
        ),
    ]
    for content_, error, message in refused:
        with pytest.raises(error, match=message):
            io.write(tmp_path / f"t{suffix}", content_)
    assert os.listdir(tmp_path) == []


@SUFFIXES
def test_no_records_are_a_tensor_without_items(suffix: str, tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.list_(pa.string())), ("y", pa.float32())])
    path = written_by_pyarrow(tmp_path / f"t{suffix}", schema.empty_table())
    with lodcli.open(path) as source:
        found = tensors_of(source.read())
        assert source.read_index("x").n_levels == 2
        assert source.slice("x", (slice(0, 3),)).rows == 0
    assert found["x"].recursive_sequence_lengths() == [[], []]
    assert found["y"].data.shape == (0,)


# -- other people's files ------------------------------------------------------------


def test_files_of_polars(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    lists = [[[1, 2], []], [], [[3]]]
    frame = pl.DataFrame(
        {"x": lists, "t": ["a", "größe", ""], "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical)}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    frame.write_ipc_stream(tmp_path / "t.arrows")
    for suffix in (".parquet", ".arrow", ".arrows"):
        found = content(tmp_path / f"t{suffix}")
        assert nested(found["x"]) == lists
        assert found["t"].data.tobytes().decode() == "agröße"
        assert found["c"].to_list() == ["u", "v", "u"]
        assert found["c"].categories == ("u", "v")
    io.write(tmp_path / "ours.parquet", {"x": found["x"], "t": found["t"]})
    io.write(tmp_path / "ours.arrow", {"x": found["x"], "t": found["t"]})
    for theirs in (
        pl.read_parquet(tmp_path / "ours.parquet"),
        pl.read_ipc(tmp_path / "ours.arrow"),
    ):
        assert theirs["x"].to_list() == lists
        assert theirs["t"].to_list() == ["a", "größe", ""]


def test_files_of_awkward(tmp_path: Path) -> None:
    ak = pytest.importorskip("awkward")
    lists = [[[1.5, 2], []], [], [[3]]]
    for extension in (True, False):
        path = tmp_path / f"t{extension}.parquet"
        ak.to_parquet(ak.Array({"x": lists}), path, extensionarray=extension)
        assert nested(content(path)["x"]) == lists
    io.write(tmp_path / "ours.parquet", content(path))
    assert ak.from_parquet(tmp_path / "ours.parquet").x.to_list() == lists


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_a_list_may_have_more_than_32_bits_of_rows(tmp_path: Path, stream: bool) -> None:
    rows = 2**31 + 5
    lists = pa.LargeListArray.from_arrays([0, rows], pa.nulls(rows))  # nulls take no memory
    batch = pa.record_batch([lists], ["x"])
    with Output(tmp_path / "t") as output:
        write_ipc(output, batch.schema, [batch], stream=stream)
    open_it = pa.ipc.open_stream if stream else pa.ipc.open_file
    with pa.OSFile(str(tmp_path / "t")) as file, open_it(file) as reader:
        assert reader.read_all()["x"].combine_chunks().value_lengths().to_pylist() == [rows]


def test_streams_of_before_arrow_0_15_are_read_by_their_format(tmp_path: Path) -> None:
    table, path = pa.table({"x": [[1, 2], [], [3]]}), tmp_path / "t.arrows"
    old = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, use_legacy_format=True)
    with pa.ipc.new_stream(path, table.schema, options=old) as writer:
        writer.write_table(table)
    with pytest.raises(LodError, match=r"does not begin like it; .* choose it with format_name="):
        io.read(path)
    found = io.read_all(path, format_name="arrow-stream")
    assert nested(found["x"]) == [[1, 2], [], [3]]
