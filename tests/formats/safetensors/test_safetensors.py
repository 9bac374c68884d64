"""safetensors: exchange of files with the package of that name, in both directions."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.errors import InvalidDataError, InvalidLoDError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut
from tests.formats.cases.opening import batches_of, content, content_of, pipe
from tests.strategies import DTYPES, tensors

HELD = tuple(dtype for dtype in DTYPES if dtype != np.complex128)
WORDS = LoDTensor(np.arange(15.0), LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]))


def deserialize(data: bytes) -> Any:
    return safetensors.deserialize(data)  # type: ignore[no-untyped-call]


def file_of(header: object, data: bytes = b"", *, size: int | None = None) -> bytes:
    """Return a file with any header, given as text or as an object for JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def entry(
    dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8), **more: object
) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


# -- against the package -------------------------------------------------------------


def test_the_package_reads_what_we_write(tmp_path: Path) -> None:
    tags = LoDTensor(np.arange(15, dtype=np.uint8), WORDS.lod)
    io.write(tmp_path / "x.safetensors", {"data": WORDS, "tags": tags})
    found = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert {name: array.tolist() for name, array in found.items()} == {
        "data": list(range(15)),
        "lod.0": [0, 3, 4, 6],
        "lod.1": [0, 3, 5, 9, 10, 12, 15],
        "tags/data": list(range(15)),
        "tags/lod.0": [0, 3, 4, 6],
        "tags/lod.1": [0, 3, 5, 9, 10, 12, 15],
    }
    assert found["data"].dtype == np.float64
    assert found["lod.1"].dtype == np.int64
    again = content(tmp_path / "x.safetensors")
    assert again["tags"].identical(tags)
    assert again["tags"].lod is again["data"].lod


def test_we_read_what_the_package_writes(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "data": np.arange(6, dtype=np.float32).reshape(3, 2),
        "lod.0": np.array([0, 2, 3], np.uint16),
        "layer.0.weight": np.zeros((2, 3), ml_dtypes.bfloat16),
        "none": np.zeros((0, 4), np.complex64),
    }
    metadata = {"format": "np", "größe": '"quoted"\n'}
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors", metadata)
    found = content(tmp_path / "x.safetensors")
    assert found["data"].recursive_sequence_lengths() == [[2, 1]]
    for name in set(arrays) - {"lod.0"}:
        assert found[name].dtype == arrays[name].dtype
        np.testing.assert_array_equal(found[name].data, arrays[name])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensor=tensors(HELD, any_bits=True), known=st.booleans())
def test_there_and_back_changes_no_bit(tmp_path: Path, tensor: LoDTensor, known: bool) -> None:
    path = tmp_path / "x.safetensors"
    bare = LoDTensor(tensor.data, LoD(tensor.lod.levels))
    if known or not bare.lod.n_levels:
        io.write(path, bare, overwrite=True)
    else:
        levels = tuple(LevelSpec(str(n)) for n in range(bare.lod.n_levels))
        spec = TensorSpec("data", bare.dtype, bare.row_shape, levels)
        parts = [{"data": bare[n : n + 1]} for n in range(len(bare))]
        io.write_batches(path, (spec,), parts, overwrite=True)
    assert content(path)["data"].identical(bare)
    arrays = dict(deserialize(path.read_bytes()))
    assert bytes(arrays["data"]["data"]) == bare.data.tobytes()
    assert arrays["data"]["shape"] == list(bare.data.shape)
    for number, level in enumerate(bare.lod.levels):
        assert bytes(arrays[f"lod.{number}"]["data"]) == level.tobytes()


def test_pipes_and_batches(tmp_path: Path) -> None:
    io.write(tmp_path / "x.safetensors", {"a": WORDS, "b": WORDS, "c": LoDTensor(np.arange(5))})
    with pipe(tmp_path, ".bin", (tmp_path / "x.safetensors").read_bytes()) as path:
        assert content(path)["a"].identical(WORDS)
    batches = batches_of(tmp_path / "x.safetensors", 1)
    # In turns, so that the items of each are read at about the same time.
    assert [list(batch) for batch in batches] == [["a", "b"], ["c"]] * 3 + [["c"]] * 2
    assert batches[2]["a"].data.tolist() == [9]
    assert batches[2]["a"].lod is batches[2]["b"].lod


def test_a_slice_reads_only_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    io.write(path, LoDTensor(np.zeros((1 << 20, 8)), [[5, 2, (1 << 20) - 7]]))
    with lodcli.open(path) as source:
        tracemalloc.start()
        try:
            assert source.slice("data", (1,)).rows == 2
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("dtype", "items", "instead"),
    [("F8_E4M3", 8, r"to\(torch.float32\)"), ("F4", 16, r"view\(torch.uint8\)")],
)
def test_arrays_of_dtypes_no_tensor_has_are_named(
    dtype: str, items: int, instead: str, tmp_path: Path
) -> None:
    data = file_of({"w": entry(dtype, (items,)), "x": entry("F32", (2,), (8, 16))}, bytes(16))
    said = rf"w: has dtype {dtype}, .* hold; save tensor.{instead} instead; choose another"
    with pytest.raises(UnsupportedError, match=f"{said} tensor with FILE::NAME, or the rest with"):
        content_of(tmp_path, ".safetensors", data)
    assert list(content(tmp_path / "given.safetensors", data="x")) == ["x"]


def test_a_file_without_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"given\.safetensors: holds no array"):
        content_of(tmp_path, ".safetensors", file_of({}, b""))


def test_many_names_are_compared_in_linear_time(tmp_path: Path) -> None:
    names = b",".join(b'"%d":1' % number for number in range(200_000))
    path = tmp_path / "many.safetensors"
    path.write_bytes(file_of(b'{%s,"199999":1}' % names))
    with pytest.raises(DamagedFileError, match="'199999' appears twice"):
        io.read_all(path)


# -- damage --------------------------------------------------------------------------

TWO = bytes(8)
DAMAGED: list[tuple[bytes, type[LodError], str]] = [
    (b"", NotThisFormatError, "is empty|only 0 bytes"),
    (b"\2\0\0\0\0\0\0\0{", NotThisFormatError, "only 9 bytes"),
    (file_of(b"[12]"), NotThisFormatError, "no header after its first 8 bytes"),
    (file_of({}, size=2**63), DamagedFileError, "claims 9223372036854775808 bytes"),
    (file_of({}, size=3), DamagedFileError, "claims 3 bytes, the file has 10"),
    (file_of({}, bytes(200), size=150), DamagedFileError, "is not JSON"),
    (file_of(b"{'a': 1}"), DamagedFileError, "is not JSON"),
    (file_of(b"{" + b'"a":[' * 90_000), DamagedFileError, "is not JSON"),
    (file_of(b'{"\xff": 1}'), DamagedFileError, "is not JSON"),
    (file_of(b'{"a": NaN}'), DamagedFileError, "'a': expected dtype, shape and data_offsets"),
    (file_of({"__metadata__": {"a": 1}}), DamagedFileError, "__metadata__: expected an object"),
    (file_of({"__metadata__": []}), DamagedFileError, "__metadata__: expected an object of text"),
    (file_of(b'{"a": %s}' % (b"9" * 5000)), DamagedFileError, "a number of 5000 digits"),
    (
        file_of(b'{"x":%s,"x":%s}' % ((json.dumps(entry()).encode(),) * 2), TWO),
        DamagedFileError,
        "'x' appears twice",
    ),
    (file_of({"x": 7}), DamagedFileError, "'x': expected dtype, shape and data_offsets"),
    (file_of({"x": entry(more=1)}, TWO), DamagedFileError, "and no more"),
    (file_of({"x": entry("F99")}, TWO), UnsupportedError, "'x': dtype 'F99' is not known"),
    (file_of({"x": entry(["F32"])}, TWO), UnsupportedError, "is not known"),
    (file_of({"x": entry(shape=(-2,))}, TWO), DamagedFileError, r"\[-2\] is not a shape"),
    (file_of({"x": entry(shape=(2.0,))}, TWO), DamagedFileError, r"\[2.0\] is not a shape"),
    (file_of({"x": entry(shape=(True,))}, TWO), DamagedFileError, r"\[True\] is not a shape"),
    (file_of({"x": entry(shape=2)}, TWO), DamagedFileError, "2 is not a shape"),
    (file_of({"x": entry(shape=(2**62, 2**62))}, TWO), DamagedFileError, "beyond what an array"),
    (file_of({"x": entry(shape=(0, 2**62, 8))}), DamagedFileError, "beyond what an array"),
    (file_of({"x": entry(shape=(10**15,))}, TWO), DamagedFileError, "needs 4000000000000000"),
    (file_of({"x": entry(shape=(1,) * 40)}, TWO), UnsupportedError, "40 dimensions"),
    (file_of({"x": entry(offsets=(0,))}, TWO), DamagedFileError, "are not a range"),
    (file_of({"x": entry(offsets=(8, 0))}, TWO), DamagedFileError, "are not a range"),
    (file_of({"x": entry(offsets=(0, "8"))}, TWO), DamagedFileError, "are not a range"),
    (file_of({"x": entry(offsets=(-8, 0))}, TWO), DamagedFileError, "are not a range"),
    (file_of({"x": entry(offsets=(0, 7))}, TWO), DamagedFileError, "data_offsets say 7"),
    (file_of({"x": entry(offsets=(8, 16))}, bytes(16)), DamagedFileError, "leaves a gap"),
    (
        file_of({"x": entry(), "y": entry(offsets=(4, 12))}, bytes(12)),
        DamagedFileError,
        "'y' overlaps the one before",
    ),
    (file_of({"x": entry(), "y": entry()}, TWO), DamagedFileError, "'y' overlaps the one"),
    (file_of({"x": entry()}, bytes(7)), DamagedFileError, "need 8 bytes, the file holds 7"),
    (file_of({"x": entry()}, bytes(9)), DamagedFileError, "need 8 bytes, the file holds 9"),
    (
        file_of({"x": entry("BOOL", (2,), (0, 2))}, b"\1\2"),
        DamagedFileError,
        "x: holds booleans that are neither 0 nor 1",
    ),
    (
        file_of({"x": entry(shape=(), offsets=(0, 4))}, bytes(4)),
        InvalidDataError,
        r"row axis; save it as \.reshape",
    ),
    (file_of({"lod.0": entry()}, TWO), DamagedFileError, "has an index but no data"),
    (
        file_of({"data": entry(), "lod.1": entry("I64", (1,), (8, 16))}, bytes(16)),
        DamagedFileError,
        "expected 1 levels",
    ),
    (
        file_of({"data": entry(), "lod.0": entry("F64", (1,), (8, 16))}, bytes(16)),
        InvalidDataError,
        "lod.0: offsets must be integers in one dimension",
    ),
    (
        file_of({"data": entry(), "lod.0": entry("I64", (1,), (8, 16))}, bytes(16)),
        InvalidLoDError,
        "tensor data: level 0, position 0: the last offset, the sum of the lengths, must be",
    ),
]


@pytest.mark.parametrize(("data", "error", "message"), DAMAGED)
def test_damage_is_named(tmp_path: Path, data: bytes, error: type[LodError], message: str) -> None:
    path = tmp_path / "given.safetensors"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message) as caught:
            io.read_all(path, format_name="safetensors")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("data", "error", "message"), DAMAGED)
def test_files_that_the_package_refuses_are_refused(
    tmp_path: Path, data: bytes, error: type[LodError], message: str
) -> None:
    """The other way round need not hold: it does not know of levels."""
    try:
        deserialize(data)
    except safetensors.SafetensorError:
        return
    assert issubclass(error, LodError)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    io.write(tmp_path / "x.safetensors", WORDS)
    whole = (tmp_path / "x.safetensors").read_bytes()
    assert not accepted(cut(whole), tmp_path / "x.safetensors", content)


def test_flipped_bytes_of_the_header_are_refused_or_distinguished(tmp_path: Path) -> None:
    io.write(tmp_path / "x.safetensors", WORDS)
    whole = (tmp_path / "x.safetensors").read_bytes()
    header = int.from_bytes(whole[:8], "little") + 8
    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(500):
        data = bytearray(whole)
        data[int(rng.integers(header))] = int(rng.integers(256))
        try:
            content_of(tmp_path, ".safetensors", bytes(data))
        except LodError:
            continue
        accepted += 1
        deserialize(bytes(data))  # what we take, the package takes
    assert accepted < 200
