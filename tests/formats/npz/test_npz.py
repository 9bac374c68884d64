"""npz: exchange of files with NumPy, in both directions."""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.formats.npz.npz import Npz
from lodcli.kernels.errors import InvalidDataError, InvalidLoDError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, pipe
from tests.strategies import BFLOAT16, DTYPES, tensors

HELD = tuple(dtype for dtype in DTYPES if dtype != BFLOAT16)
WORDS = LoDTensor(np.arange(15.0), LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]))


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "given.npz"
    np.savez(path, **arrays)
    return path


# -- content -------------------------------------------------------------------------


def test_a_tensor_is_data_and_one_array_a_level(tmp_path: Path) -> None:
    io.write(tmp_path / "x.npz", WORDS)
    with np.load(tmp_path / "x.npz") as found:
        assert list(found) == ["data", "lod.0", "lod.1"]
        assert found["data"].tolist() == list(range(15))
        assert found["lod.0"].tolist() == [0, 3, 4, 6]
        assert found["lod.1"].tolist() == [0, 3, 5, 9, 10, 12, 15]
        assert found["lod.0"].dtype == np.int64


def test_named_tensors_have_names_before_their_arrays(tmp_path: Path) -> None:
    tags = LoDTensor(np.arange(15), WORDS.lod)
    lod_0 = LoDTensor(np.zeros((2, 0), np.float16))
    io.write(tmp_path / "x.npz", {"tags": tags, "data": WORDS, "lod.0": lod_0})
    with np.load(tmp_path / "x.npz") as found:
        assert set(found) == {
            *("tags/data", "tags/lod.0", "tags/lod.1", "data", "lod.0", "lod.1", "lod.0/data"),
        }
    read = content(tmp_path / "x.npz")
    assert list(read) == ["tags", "data", "lod.0"]
    assert read["tags"].identical(tags)
    assert read["tags"].lod is read["data"].lod
    batch = batches_of(tmp_path / "x.npz", 1)[0]
    assert batch["tags"].lod is batch["data"].lod
    assert read["lod.0"].identical(lod_0)


def test_tensors_without_levels_are_arrays_of_their_names(tmp_path: Path) -> None:
    ones = LoDTensor(np.ones(3))
    absent = LoDTensor.from_lists([1, None])
    taken = ("lod.json", "valid.rows", "lod.0")
    io.write(tmp_path / "x.npz", {"absent": absent, "a.b": ones, **dict.fromkeys(taken, ones)})
    with np.load(tmp_path / "x.npz") as found:
        names = {"absent", "absent/valid.rows", "a.b", "lod.json"}
        assert set(found) == names | {f"{name}/data" for name in taken}
    read = content(tmp_path / "x.npz")
    assert list(read) == ["absent", "a.b", *taken]
    assert read["absent"].identical(absent)
    assert all(read[name].identical(ones) for name in ("a.b", *taken))


def test_arrays_saved_by_numpy_are_tensors(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        x=np.arange(6).reshape(2, 3),
        **{"data": np.arange(3.0), "lod.0": np.array([0, 2, 3], np.uint8)},
    )
    found = content(path)
    assert found["x"].data.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["data"].recursive_sequence_lengths() == [[2, 1]]


def test_a_compressed_archive_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", data=np.zeros(10**6, np.int16))
    assert not content(tmp_path / "x.npz")["data"].data.any()


@pytest.mark.parametrize("dtype", [">f8", ">i2", ">c8", "<u4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
def test_byte_and_axis_order_do_not_matter(
    tmp_path: Path, dtype: str, order: Any, limit_bytes: int
) -> None:
    rows = np.arange(24).reshape(4, 3, 2).astype(dtype)
    path = saved(tmp_path, data=np.asarray(rows, order=order), **{"lod.0": np.array([0, 1, 1, 4])})
    batches = batches_of(path, limit_bytes)
    with lodcli.open(path) as source:
        assert source.schema[0].dtype.isnative
    assert len(batches) == (3 if limit_bytes == 1 else 1)
    found = LoDTensor.concatenate([batch["data"] for batch in batches])
    assert found.dtype.isnative
    assert found.dtype == rows.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found.data, rows)
    assert found.recursive_sequence_lengths() == [[1, 0, 3]]


@given(
    items=st.dictionaries(
        st.sampled_from(["data", "x", "lod.1"]), tensors(HELD, any_bits=True), min_size=1
    ),
    limit_bytes=st.sampled_from([1, 40, 1 << 20]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bits_come_back(tmp_path: Path, items: dict[str, LoDTensor], limit_bytes: int) -> None:
    path = tmp_path / "x.npz"
    io.write(path, items, overwrite=True)
    batches = batches_of(path, limit_bytes)
    for name, tensor in items.items():
        joined = LoDTensor.concatenate([batch[name] for batch in batches if name in batch])
        plain = LoDTensor(np.array(tensor.data), tensor.lod.with_names(None))
        assert joined.identical(plain)
        with np.load(path) as numpys:
            lone = not tensor.lod.n_levels and not name.startswith("lod.")
            lone = lone or name == "data"
            stored = numpys[name if lone else f"{name}/data"]
        assert stored.tobytes() == plain.data.tobytes()
        assert stored.shape == plain.data.shape


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    io.write(tmp_path / "x.npz", WORDS)
    parts = ({"data": WORDS[item : item + 1]} for item in range(3))
    io.write_batches(tmp_path / "y.npz", schema_of({"data": WORDS}), parts)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_batches_hold_whole_items_of_all_that_share_a_level(tmp_path: Path) -> None:
    other = LoDTensor(np.arange(6), LoD(WORDS.lod.levels[:1]))
    io.write(tmp_path / "x.npz", {"data": WORDS, "other": other, "plain": LoDTensor(np.ones(3))})
    batches = batches_of(tmp_path / "x.npz", 1)
    assert [list(batch) for batch in batches] == [["data", "other"]] * 3 + [["plain"]] * 3
    assert batches[2]["data"].recursive_sequence_lengths() == [[2], [2, 3]]
    assert batches[2]["other"].data.tolist() == [4, 5]


def test_an_index_is_read_without_rows(tmp_path: Path) -> None:
    io.write(tmp_path / "x.npz", WORDS)
    with lodcli.open(tmp_path / "x.npz") as source:
        assert source.read_index("data") == WORDS.lod
        assert source.schema[0].rows == 15
        assert [level.items for level in source.schema[0].levels] == [3, 6]


# -- files and pipes -----------------------------------------------------------------


def test_a_pipe_gives_what_the_file_gives(tmp_path: Path) -> None:
    io.write(tmp_path / "x.npz", WORDS)
    with pipe(tmp_path, ".npz", (tmp_path / "x.npz").read_bytes()) as name:
        assert content(name)["data"].identical(WORDS)


def test_the_archive_goes_down_a_pipe(tmp_path: Path) -> None:
    io.write(tmp_path / "x.npz", WORDS)
    code = (
        "import sys; from lodcli.formats.core import io; "
        "io.write('-', io.read(sys.argv[1]), format_name='npz')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x.npz"], stdout=subprocess.PIPE, check=True
    )
    assert ran.stdout == (tmp_path / "x.npz").read_bytes()


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float64, (1 << 20, 8))
    rows[-1] = 7
    large = LoDTensor(rows, LoD([np.arange(0, 2**20 + 1, 2**10)]))
    io.write_batches(
        tmp_path / "x.npz",
        schema_of({"data": large}),
        ({"data": large[item : item + 1]} for item in range(1024)),
    )
    tracemalloc.start()
    try:
        with lodcli.open(tmp_path / "x.npz") as source:
            batches = source.batches(1 << 20)
            io.write_batches(tmp_path / "y.npz", source.schema, batches)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert filecmp.cmp(tmp_path / "x.npz", tmp_path / "y.npz", shallow=False)
    assert peak_bytes < 30 << 20  # of 64 MiB; rows are copied in pieces of 8 MiB


@pytest.mark.parametrize(
    ("name", "expected"), [("data.npy", True), ("x/data.npy", True), ("a.txt", False)]
)
def test_the_first_member_tells_the_format(tmp_path: Path, name: str, expected: bool) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr(name, b"")
    assert Npz().sniff((tmp_path / "x").read_bytes()[:4096]) is expected


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (LoDTensor(np.zeros(1, BFLOAT16)), "npz holds no bfloat16"),
    ],
)
def test_content_that_npz_cannot_hold_is_an_error(
    tmp_path: Path, tensor: LoDTensor, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.npz", tensor)


# -- arrays that are no tensor -------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"x": np.array([None])}, UnsupportedError, "x.npy: holds Python objects, which are never"),
        ({"x": np.array([["a"]])}, UnsupportedError, "x.npy: has texts of dtype <U1 in 2 dimens"),
        ({"lod.0": np.array(["0"]), "data": np.zeros(1)}, InvalidDataError, "offsets must be int"),
        (
            {"x": np.zeros(1, BFLOAT16)},
            UnsupportedError,
            "has dtype '<V2', which tensors cannot hold",
        ),
        ({"x": np.zeros(1, [("a", "i4")])}, UnsupportedError, r"has dtype \[\('a', '<i4'\)\]"),
        ({"x": np.zeros(1, "M8[h]")}, UnsupportedError, r"has dtype '<M8\[h\]', which tensors"),
        ({"x": np.zeros(1, np.longdouble)}, UnsupportedError, "has dtype '<f16', which tensors"),
        ({"x": np.float64(1)}, InvalidDataError, "x.npy: is a single value; a tensor needs a row"),
        ({"lod.0": np.array([0])}, InvalidDataError, "tensor data: has an index but no data"),
        ({"x/lod.0": np.array([0])}, InvalidDataError, "tensor x: has an index but no data"),
        (
            {"x": np.zeros(1), "x/data": np.zeros(1)},
            InvalidDataError,
            "two arrays for tensor x: x and x/data",
        ),
        ({}, InvalidDataError, "holds no array|does not begin like it"),
    ],
)
def test_an_array_that_is_no_tensor_is_named(
    tmp_path: Path, arrays: dict[str, Any], error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        content(saved(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ({1: [0, 1]}, InvalidDataError, "tensor data: expected 1 levels .* found lod.1"),
        ({0: [0.0, 1.0]}, InvalidDataError, "lod.0.npy: offsets must be integers .* float64"),
        ({0: [[0, 1]]}, InvalidDataError, r"lod.0.npy: offsets must be .* shape \(1, 2\)"),
        ({0: [1, 2]}, InvalidLoDError, "tensor data: lod.0.npy: level 0, position 0: first offset"),
        (
            {0: [0, 2, 1]},
            InvalidLoDError,
            "tensor data: lod.0.npy: level 0, position 2: offsets decrease",
        ),
        ({0: [0, 1]}, InvalidLoDError, "must be the number of rows .expected 2, found 1"),
        ({0: [0, 3], 1: [0, 1, 2]}, InvalidLoDError, "level 0, position 1: the last offset"),
        ({0: np.array([2**63], np.uint64)}, InvalidLoDError, "expected at most"),
        ({0: np.array([], np.int64)}, InvalidLoDError, "no offsets; expected at least"),
    ],
)
def test_an_index_that_breaks_a_rule_is_named(
    tmp_path: Path, levels: dict[int, Any], error: type[LodError], message: str
) -> None:
    arrays = {f"lod.{level}": np.asarray(offsets) for level, offsets in levels.items()}
    with pytest.raises(error, match=message):
        content(saved(tmp_path, data=np.zeros(2), **arrays))


@pytest.mark.parametrize("form", ["coo", "dia"])
def test_a_sparse_matrix_of_scipy_in_another_form_is_named(form: str, tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    sparse.save_npz(tmp_path / "x.npz", sparse.eye_array(3, format=form))
    with pytest.raises(UnsupportedError, match=r"another form than CSR; save matrix\.tocsr\(\)"):
        content(tmp_path / "x.npz")


def test_arrays_that_only_share_names_with_a_sparse_matrix_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, data=np.arange(2.0), shape=np.arange(3), format=np.arange(3))
    assert set(content(path)) == {"data", "shape", "format"}


def test_a_sparse_matrix_of_scipy_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, format=b"csr", shape=(2, 9), data=[1.5, 2], indices=[8, 0], indptr=[0, 2, 2])
    with pytest.raises(UnsupportedError, match="of scipy; data='data,indices', offsets='indptr'"):
        lodcli.open(path)
    found = lodcli.read_all(path, data="data,indices", offsets=["indptr"])
    assert {name: item.to_list() for name, item in found.items()} == {
        "data": [[1.5, 2], []],
        "indices": [[8, 0], []],
    }


def test_small_tensors_come_in_one_batch(tmp_path: Path) -> None:
    path = tmp_path / "many.npz"
    lodcli.write(path, {f"t{n}": LoDTensor(np.arange(n)) for n in range(20)})
    with lodcli.open(path) as file:
        assert [len(batch) for batch in file.batches()] == [20]


def test_the_error_about_a_padded_array_names_what_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "padded.npz"
    np.savez(path, x=np.ones((3, 5, 4)), label=[1, 0, 1], lengths=[5, 2, 0])
    for name, padded in ("x", True), ("label", False):
        with pytest.raises(InvalidDataError, match="expected 7 rows, found 3") as raised:
            lodcli.read(path, data=name, lengths="lengths")
        assert ("LoDTensor.from_padded" in str(raised.value)) == padded
        assert f"lod merge OUT FILE::{name}" in str(raised.value)
    with np.load(path) as arrays:
        rows = LoDTensor.from_padded(arrays["x"], lengths=arrays["lengths"])
    assert rows.lod.lengths().tolist() == [5, 2, 0]


def test_lengths_of_no_sequences_may_be_the_empty_array_of_numpy(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", rows=np.zeros((0, 2)), lengths=np.array([]), one=np.array([1.0]))
    (found,) = content(tmp_path / "x.npz", data="rows", lengths=("lengths",)).values()
    assert found.recursive_sequence_lengths() == [[]]
    assert found.data.shape == (0, 2)
    for kind, name in (("offsets", "lengths"), ("lengths", "one")):
        with pytest.raises(InvalidDataError, match=f"{kind} must be integers in one dimension"):
            content(tmp_path / "x.npz", data="rows", **{kind: (name,)})
