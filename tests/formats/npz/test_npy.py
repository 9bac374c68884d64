"""npy: exchange of files with NumPy, in both directions."""

from __future__ import annotations

import io as memory
import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import LodError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut
from tests.formats.cases.opening import batches_of, content, tensor_in
from tests.formats.cases.processes import lod
from tests.strategies import BFLOAT16, DTYPES

HELD = tuple(dtype for dtype in DTYPES if dtype != BFLOAT16)


@settings(deadline=None)
@given(
    st.sampled_from(HELD),
    st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple),
    st.sampled_from("CF"),
    st.booleans(),
)
def test_files_of_numpy_are_read(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: np.dtype,
    shape: tuple[int, ...],
    order: str,
    swapped: bool,
) -> None:
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    values = (np.arange(np.prod(shape)) % 2).reshape(shape)
    array = np.array(values, dtype.newbyteorder() if swapped else dtype, order=order)  # type: ignore[call-overload]
    np.save(path, array)
    found = content(path)["data"]
    assert found.lod.n_levels == 0
    assert found.data.dtype == dtype
    assert found.data.dtype.isnative
    np.testing.assert_array_equal(found.data, array)
    parts = [batch["data"] for batch in batches_of(path, 3)]
    assert LoDTensor.concatenate(parts).identical(found)


@pytest.mark.parametrize("shape", [(0,), (5, 0), (7, 3), (1000, 2, 3)])
def test_numpy_reads_what_is_written(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    io.write(tmp_path / "x.npy", LoDTensor(array))
    found = np.load(tmp_path / "x.npy", allow_pickle=False)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    made = memory.BytesIO()
    np.save(made, array)
    assert (tmp_path / "x.npy").read_bytes() == made.getvalue()


@pytest.mark.parametrize("descr", ["i4", "int32", "=i4", "|i4"])
def test_a_header_of_another_writer_may_leave_out_the_byte_order(
    descr: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.npy"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,)}}\n".encode()
    content = np.arange(3, dtype=np.int32).tobytes()
    path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + content)
    found = tensor_in(path)
    np.testing.assert_array_equal(found.data, np.load(path), strict=True)


def test_a_header_of_python_2_is_read(tmp_path: Path) -> None:
    # As NumPy wrote long whole numbers under Python 2; numpy.load still reads them, and warns.
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (3L, 2L), }"
    header = header.ljust(117) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "x.npy").write_bytes(data + np.arange(6, dtype="<i8").tobytes())
    with pytest.warns(UserWarning, match="Python 2"):
        expected = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(content(tmp_path / "x.npy")["data"].data, expected)


def test_rows_go_through_pipes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    with open(tmp_path / "x.npy", "rb") as file:
        done = lod("convert", "-", "-q", "--to", "npy", stdin=file, text=False)
    assert done.stdout == (tmp_path / "x.npy").read_bytes()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([None]), r"holds Python objects, .*, numpy.concatenate\(x\) and their lengths"),
        (np.array([["a"]]), r"texts of dtype <U1 in 2 dimensions; .* save array.ravel\(\)"),
        (np.array("a"), r"texts of dtype <U1 in 0 dimensions"),
        (np.array([1j], np.clongdouble), r"cannot hold; save array.astype\('c16'\) instead, or"),
        (np.array([b"abc"], "V3"), "cannot hold; save an array of numbers"),
        (np.zeros(2, ml_dtypes.bfloat16), r"; bfloat16 and float8 as array.astype\('f4'\)"),
        (np.zeros(2, [("a", "f4")]), "which tensors cannot hold; save each field of its records"),
        (np.zeros(2, [("é", "f4"), ("O", "i2")]), "which tensors cannot hold; save each field of"),
        (np.zeros(2, [("a", [("b", "O")])]), "holds Python objects"),
        (np.zeros(2, "M8[M]"), r"which tensors cannot hold; save array.astype\('M8\[D\]'\)"),
        (np.zeros(2, "m8[3h]"), r"which tensors cannot hold; save array.astype\('m8\[s\]'\)"),
        (np.array([["2020", "NaT"]], "M8[s]"), "row 0: holds NaT among several values"),
        (np.zeros(2, "g"), r"which tensors cannot hold; save array.astype\('f8'\) instead, or"),
        (np.float32(3), r"a tensor needs a row axis; save array.reshape\(1\)"),
    ],
)
def test_arrays_that_no_tensor_can_hold_are_refused(
    array: np.ndarray, message: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(LodError, match=message):
        content(tmp_path / "x.npy")


def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    whole = (tmp_path / "x.npy").read_bytes()
    assert not accepted(cut(whole, start=6), tmp_path / "x.npy", content)


@pytest.mark.parametrize("size", [6, 7, 8, 9, 60, 170])
def test_a_truncated_file_has_a_remedy(size: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    os.truncate(tmp_path / "x.npy", size)
    with pytest.raises(DamagedFileError, match=r"; fetch or copy it again$"):
        content(tmp_path / "x.npy")


def test_booleans_are_0_or_1(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0, 1, 2], np.uint8).view(np.bool_))
    with pytest.raises(LodError, match="holds booleans that are neither 0 nor 1"):
        content(tmp_path / "x.npy")


def test_more_axes_than_an_array_can_have_are_refused(tmp_path: Path) -> None:
    for axes in (64, 65):
        text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {(1,) * axes}}}".encode()
        head = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
        (tmp_path / f"{axes}.npy").write_bytes(head + bytes(8))
    assert content(tmp_path / "64.npy")["data"].data.shape == (1,) * 64
    with pytest.raises(DamagedFileError, match=r"65\.npy: shape .* is beyond what an array can"):
        content(tmp_path / "65.npy")
