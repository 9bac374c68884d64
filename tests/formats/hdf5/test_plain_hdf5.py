"""Files of other programs: rows and offsets, or lengths, in datasets one names."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, TooLargeError
from lodcli.formats.core.options import ReadOptions
from lodcli.kernels.errors import InvalidLoDError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.broken.broken_hdf5 import OTHER_BYTES, OTHER_HDF5, put_others
from tests.formats.cases.opening import refused

LENGTHS = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
ARTICLES = LoD.from_lengths(LENGTHS, ["article", "sentence"])
ROWS = np.arange(30, dtype=np.float32).reshape(15, 2)


@pytest.fixture
def theirs(tmp_path: Path) -> h5py.File:
    """Give a new file, open for writing."""
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file["x"] = ROWS
        file["starts"] = ARTICLES.levels[1]
        yield file


def _read(file: h5py.File, **options: Any) -> LoDTensor:
    """Return what the file holds, by way of a container of ours."""
    path = Path(file.filename)
    file.close()
    with lodcli.open(path, **options) as source:
        whole = source.read()["data"]
        parts = [batch["data"] for batch in source.batches(limit_bytes=20)]
        assert LoDTensor.concatenate(parts).identical(whole)
        assert source.read_index("data") == whole.lod
        assert source.slice("data", (slice(0, 1),)).identical(whole[0:1])
        ours = path.with_name("ours.lod.h5")
        io.write_batches(ours, source.schema, source.batches(), overwrite=True)
    assert io.read(ours).identical(whole)
    return whole


def _refused(file: h5py.File, error: type[LodError], message: str, **options: Any) -> None:
    path = Path(file.filename)
    file.close()
    refused(path, error, message, **options)


def test_rows_and_offsets(theirs: h5py.File) -> None:
    found = _read(theirs, data="/x", offsets=("/starts",))
    assert found.identical(LoDTensor(ROWS, LoD.from_lengths(LENGTHS[1:])))


def test_rows_alone(theirs: h5py.File) -> None:
    assert _read(theirs, data="x").identical(LoDTensor(ROWS))


def test_lengths_of_several_levels_with_names(theirs: h5py.File) -> None:
    for number, lengths in enumerate(LENGTHS):
        theirs[f"deep/lengths{number}"] = np.array(lengths, np.uint16)
    levels = ("article", "sentence")
    found = _read(theirs, data="/x", lengths=("/deep/lengths0", "deep/lengths1"), levels=levels)
    assert found.identical(LoDTensor(ROWS, ARTICLES))


@pytest.mark.parametrize("kind", ["i4", ">i8", "u8", ">u4", "i2"])
def test_offsets_of_any_integers(theirs: h5py.File, kind: str) -> None:
    theirs["other"] = ARTICLES.levels[1].astype(kind)
    found = _read(theirs, data="/x", offsets=("/other",))
    assert found.lod.levels[0].dtype == np.int64
    assert found.lod.recursive_sequence_lengths() == LENGTHS[1:]


@pytest.mark.parametrize(
    "kind",
    [">f4", ">f8", ">i2", ">u8", ">c16", "<f2", ">f2", "c8", "?", "i1"],
)
def test_rows_of_any_numbers_arrive_in_native_order(theirs: h5py.File, kind: str) -> None:
    rows = (ROWS % 2).astype(kind)
    theirs["other"] = rows
    found = _read(theirs, data="/other", offsets=("/starts",))
    assert found.dtype == np.dtype(kind).newbyteorder("=")
    np.testing.assert_array_equal(found.data, rows)


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (4, 1), "compression": "gzip", "shuffle": True},
        {"chunks": (4, 2), "fletcher32": True},
        {"chunks": (15, 2), "scaleoffset": 2},
        {"maxshape": (None, 2)},
    ],
    ids=str,
)
def test_chunks_and_the_filters_of_hdf5(theirs: h5py.File, options: dict[str, Any]) -> None:
    theirs.create_dataset("other", data=ROWS, **options)
    found = _read(theirs, data="/other", offsets=("/starts",))
    np.testing.assert_array_equal(found.data, ROWS)


def test_attributes_are_ignored(theirs: h5py.File) -> None:
    theirs.attrs["made by"] = "another program"
    theirs["x"].attrs["units"] = np.array(["mm", "s"], dtype=h5py.string_dtype())
    theirs["starts"].dims[0].label = "sentence"
    theirs["starts"].make_scale("sentence")
    assert _read(theirs, data="/x", offsets=("/starts",)).rows == 15


@pytest.mark.parametrize("shape", [(0,), (0, 3), (15, 0)])
def test_no_rows_and_rows_without_bytes(theirs: h5py.File, shape: tuple[int, ...]) -> None:
    theirs["none"] = np.zeros(shape)
    theirs["one"] = np.array([0, shape[0]])
    assert _read(theirs, data="/none", offsets=("/one",)).data.shape == shape


def test_a_file_of_matlab_is_hdf5_after_a_user_block(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = [1.0, 2.0]
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\0\2IM")
    assert io.read(path, data="/x").to_list() == [1, 2]
    with pytest.raises(SelectionError, match=r"there are: /x \(float64, 2\)"):
        io.read(path)


# -- what is refused ---------------------------------------------------------------


def test_a_wrong_name_is_an_error(theirs: h5py.File) -> None:
    _refused(
        theirs,
        SelectionError,
        "/rows: there is no such dataset; beside it are: starts, x",
        data="/rows",
    )


def test_a_name_with_its_file_is_an_error_with_a_remedy(theirs: h5py.File) -> None:
    said = "x.h5::starts: there is no such dataset; give its name alone: starts"
    _refused(theirs, SelectionError, said, data="x.h5::starts")


def test_a_name_with_its_file_that_is_not_there_gets_no_remedy(theirs: h5py.File) -> None:
    said = "x.h5::x/starts: there is no such dataset; beside it are: starts, x"
    _refused(theirs, SelectionError, said, data="x.h5::x/starts")


def test_names_of_several_datasets_are_an_error_with_a_remedy(theirs: h5py.File) -> None:
    path = Path(theirs.filename)
    theirs["a,b"] = [1, 2]
    assert _read(theirs, data="/a,b").data.tolist() == [1, 2]
    message = "data='/x,starts': names several datasets; read them one by one"
    refused(path, SelectionError, message, data="/x,starts")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("/pair,s/zz", "/pair,s/zz: there is no such field; there are: data='/pair,s/a'"),
        ("/x,", "/x,: there is no such dataset; beside it are: "),
        ("/typo,x", "/typo,x: there is no such dataset; beside it are: "),
    ],
)
def test_a_wrong_name_with_a_comma_is_not_several(
    theirs: h5py.File, data: str, message: str
) -> None:
    theirs["pair,s"] = np.zeros(2, [("a", "i4"), ("b", "i4")])
    _refused(theirs, SelectionError, message, data=data)


def test_a_wrong_name_of_offsets_is_an_error(theirs: h5py.File) -> None:
    message = "/deep/ends: there is no such dataset"
    _refused(theirs, SelectionError, message, data="/x", offsets=("/deep/ends",))


def test_a_group_is_no_dataset(theirs: h5py.File) -> None:
    group = theirs.create_group("deep")
    group["a"] = group["b"] = [1]
    message = "/deep: expected a dataset, found a group with a, b"
    _refused(theirs, SelectionError, message, data="/deep")


def test_no_name_at_all_is_an_error(theirs: h5py.File) -> None:
    for name in list(theirs):
        del theirs[name]
    theirs["g/x"], theirs["one"], theirs["word"] = np.ones((3, 2)), 1, np.array([b"ab"])
    theirs["g/again"], theirs["soft"] = theirs["g"], h5py.SoftLink("/one")
    path = theirs.filename
    theirs.close()
    there = "/one (int64, a single value), /word (text, 1), /g/x (float64, 3 x 2), /g/again/x"
    message = "name the dataset of the rows with data=, .*; there are: " + re.escape(there)
    with pytest.raises(SelectionError, match=message):
        lodcli.open(path, format_name="hdf5")
    with h5py.File(path, "w"):
        pass
    with pytest.raises(NotThisFormatError, match=r"an HDF5 file, .*; there are: none$"):
        lodcli.open(path)


def test_offsets_and_lengths_exclude_each_other(theirs: h5py.File) -> None:
    message = "give offsets or lengths, not both"
    _refused(theirs, SelectionError, message, data="/x", offsets=("a",), lengths=("b",))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 3, 5, 4, 15], "/wrong: level 0, position 3: offsets decrease"),
        ([1, 3, 15], "/wrong: level 0, position 0: first offset: expected 0, found 1"),
        ([0, 3, 14], "/wrong: level 0, position 2: the last offset"),
        ([1, 4, 10], "expected 0, found 1; these seem to be lengths: use lengths"),
        ([], "/wrong: level 0: no offsets"),
        ([0, 2**63], "/wrong: level 0, position 1: offsets: expected at most 2**63 - 1"),
        ([0.5, 15.0], "/wrong: level 0: offsets must be integers, found float64"),
        ([[0, 7], [7, 15]], "/wrong: must be 1-D, found shape (2, 2); store it with one axis"),
    ],
    ids=str,
)
def test_wrong_offsets_name_dataset_level_and_position(
    theirs: h5py.File, values: Any, message: str
) -> None:
    theirs["wrong"] = np.array(values, np.uint64 if 2**63 in values else None)
    _refused(theirs, InvalidLoDError, message, data="/x", offsets=("/wrong",))


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 6, 1)])
def test_lengths_may_be_a_matrix_of_doubles_as_in_matlab(
    theirs: h5py.File, shape: tuple[int, ...]
) -> None:
    theirs["lengths"] = np.reshape(np.array(LENGTHS[1], np.float64), shape)
    found = _read(theirs, data="/x", lengths=("/lengths",))
    assert found.identical(LoDTensor(ROWS, LoD.from_lengths(LENGTHS[1:])))


@pytest.mark.parametrize("length", [15, 15.0])
def test_a_single_length_may_have_no_axis_as_in_octave(theirs: h5py.File, length: float) -> None:
    theirs["length"] = length
    found = _read(theirs, data="/x", lengths=("/length",))
    assert found.identical(LoDTensor(ROWS, LoD.from_lengths([[15]])))


@pytest.mark.parametrize("option", ["lengths", "offsets"])
def test_indexes_of_cf_are_not_taken_for_lengths(theirs: h5py.File, option: str) -> None:
    theirs["station"] = [0] * 5 + [1] * 5 + [2] * 5  # as many as there are rows, and their sum
    theirs["station"].attrs["instance_dimension"] = "station"
    message = "/station: has the sequence of each row (an indexed ragged array of CF), not lengths"
    _refused(theirs, UnsupportedError, message, data="/x", **{option: ("/station",)})


@pytest.mark.parametrize("lengths", [[7.5, 7.5], [np.nan, 15], [2.0**60, 15]], ids=str)
def test_lengths_that_are_no_whole_numbers_are_refused(theirs: h5py.File, lengths: Any) -> None:
    theirs["lengths"] = lengths
    message = "/lengths: level 0: lengths must be integers, found float64"
    _refused(theirs, InvalidLoDError, message, data="/x", lengths=("/lengths",))


def test_transposed_rows_are_named(theirs: h5py.File) -> None:
    theirs["turned"] = ROWS.T
    message = "(expected 2, found 15); /turned has shape (2, 15): MATLAB, Octave, R and Julia store"
    _refused(theirs, InvalidLoDError, message, data="/turned", offsets=("/starts",))


def test_offsets_given_as_lengths_name_the_option_for_offsets(theirs: h5py.File) -> None:
    theirs["rising"] = [0, 3, 15]
    message = "/rising: level 0: the sum of the lengths: expected 15, found 18; these seem"
    _refused(theirs, InvalidLoDError, message, data="/x", lengths=("/rising",))


def test_lengths_of_fewer_rows_than_a_transposed_array_has_name_it(theirs: h5py.File) -> None:
    theirs["short"] = [1, ROWS.shape[1] - 1]
    message = f"(expected 15, found 2); /x has shape {ROWS.shape}: MATLAB, Octave, R and Julia"
    _refused(theirs, InvalidLoDError, message, data="/x", lengths=("/short",))


def test_offsets_without_their_total_are_not_taken_for_transposed_rows(theirs: h5py.File) -> None:
    theirs["openings"] = [0, ROWS.shape[1]]
    message = f"(expected {len(ROWS)}, found {ROWS.shape[1]})"
    with pytest.raises(InvalidLoDError) as info:
        _read(theirs, data="/x", offsets=("/openings",))
    assert str(info.value).endswith(message)


def test_the_sizes_of_an_empty_array_are_not_taken_for_its_values(theirs: h5py.File) -> None:
    path = Path(theirs.filename)
    theirs["matlab"] = [0, 2]
    theirs["octave/value"] = [0, 2]
    theirs["matlab"].attrs["MATLAB_empty"] = np.uint8(1)
    theirs["octave"].attrs["OCTAVE_EMPTY_MATRIX"] = np.uint8(1)
    theirs.close()
    for name in ("/matlab", "/octave/value"):
        refused(path, UnsupportedError, f"{name}: is an empty array", data=name)


def test_levels_that_do_not_chain_name_the_upper_one(theirs: h5py.File) -> None:
    theirs["upper"] = np.array([0, 3, 5])
    message = "/upper: level 0, position 2: the last offset, the sum of the lengths, must be"
    _refused(theirs, InvalidLoDError, message, data="/x", offsets=("/upper", "/starts"))


def test_a_negative_length_names_its_position(theirs: h5py.File) -> None:
    theirs["wrong"] = np.array([10, -1, 6])
    message = "/wrong: level 0, position 1: length: expected 0 or more, found -1"
    _refused(theirs, InvalidLoDError, message, data="/x", lengths=("/wrong",))


def test_too_few_level_names_are_refused(theirs: h5py.File) -> None:
    message = "1 levels need 1 names"
    options = {"data": "/x", "offsets": ("/starts",), "levels": ("a", "b")}
    _refused(theirs, InvalidLoDError, message, **options)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (None, h5py.vlen_dtype(np.int32)),
        (None, h5py.string_dtype()),
        (None, h5py.ref_dtype),
        (None, np.dtype([("a", "i4"), ("b", "f8")])),
        (None, np.dtype([("a", h5py.string_dtype())])),
        (h5py.Empty("f4"), None),
    ],
    ids=str,
)
def test_a_dataset_without_numbers_is_refused(theirs: h5py.File, data: Any, dtype: Any) -> None:
    shape, chunks = (None, None) if data is not None else ((15,), (15,))
    theirs.create_dataset("other", shape, data=data, dtype=dtype, chunks=chunks)
    _refused(theirs, UnsupportedError, "/other: ", data="/other")


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        (np.dtype("V5"), "store bytes as uint8, and times as int64"),
        (h5py.opaque_dtype(np.dtype("M8[s]")), "store bytes as uint8, and times as int64"),
        (np.dtype("longdouble"), "store it as float64 or complex128"),
    ],
    ids=str,
)
def test_other_types_say_what_to_store(theirs: h5py.File, dtype: Any, remedy: str) -> None:
    theirs.create_dataset("other", (2,), dtype=dtype)
    _refused(theirs, UnsupportedError, f"; {remedy}", data="/other")


def test_references_as_in_cell_arrays_say_what_to_store(theirs: h5py.File) -> None:
    theirs["cells"] = np.array([[theirs["x"].ref]], h5py.ref_dtype)
    message = "/cells: holds references to other datasets, as cell arrays c of MATLAB do; store the"
    _refused(theirs, UnsupportedError, message, data="/cells")


def test_a_single_value_is_refused(theirs: h5py.File) -> None:
    theirs["one"] = 7
    message = "/one: is a single value; rows need an axis; store it with one, [value]"
    _refused(theirs, UnsupportedError, message, data="/one")


def _refusals(folder: Path) -> dict[str, str]:
    """Make a file whose datasets are elsewhere; return what is said of each."""
    put_others(folder)
    with h5py.File(folder / "tempting.h5", "w") as file:
        place = [(str(folder / OTHER_BYTES), 0, 120)]
        file.create_dataset("external", (15, 2), "f4", external=place)
        file["linked"] = h5py.ExternalLink(str(folder / OTHER_HDF5), "/data")
        file["soft"] = h5py.SoftLink("/linked")
        layout = h5py.VirtualLayout((15, 2), "f4")
        layout[:] = h5py.VirtualSource(str(folder / OTHER_HDF5), "data", (15, 2))
        file.create_virtual_dataset("virtual", layout)
    return {
        "external": "is stored in another file",
        "linked": f"is an external link, .*; read '/data' of '{folder / OTHER_HDF5}' instead$",
        "soft": "is a soft link, which is not followed; name its target '/linked' instead$",
        "virtual": r"is a virtual dataset.*; copy it with h5py, file\[NEW\] = file\[NAME\]",
    }


@pytest.mark.parametrize("name", ["external", "linked", "soft", "virtual"])
def test_rows_in_another_file_are_refused(name: str, tmp_path: Path) -> None:
    message = _refusals(tmp_path)[name]
    options = ReadOptions(data=f"/{name}")
    with pytest.raises(UnsupportedError, match=rf"tempting.h5: .*{name}'?:? {message}"):
        lodcli.open(tmp_path / "tempting.h5", options=options)


def test_more_than_such_a_file_may_declare_is_refused(theirs: h5py.File) -> None:
    theirs.create_dataset("huge", (2**50,), "f8")
    _refused(theirs, TooLargeError, "allow more with limits=", data="/huge")


def test_more_chunks_than_can_be_stored_are_refused(theirs: h5py.File) -> None:
    theirs.create_dataset("huge", (2**50,), "f8", chunks=(1 << 20,))
    _refused(theirs, TooLargeError, "allow more with limits=", data="/huge")


def test_offsets_of_more_than_such_a_file_may_declare_are_refused(theirs: h5py.File) -> None:
    theirs.create_dataset("huge", (2**50,), "i8")
    _refused(theirs, TooLargeError, "/huge: declares ", data="/x", offsets=("/huge",))


@pytest.mark.parametrize("block", [0, 1024])
def test_a_truncated_file_is_refused(tmp_path: Path, block: int) -> None:
    with h5py.File(tmp_path / "whole.h5", "w", userblock_size=block) as file:
        file["x"] = ROWS
    whole = (tmp_path / "whole.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(whole[:-3])
    size = len(whole)
    said = f"file: is truncated (expected {size} bytes, found {size - 3}); fetch or copy it again"
    refused(tmp_path / "cut.h5", DamagedFileError, said, data="/x")


@pytest.mark.parametrize("kind", ["hdf5", "hdf5-vlen"])
@pytest.mark.parametrize("fault", ["truncated", "unreadable"])
def test_data_that_can_no_longer_be_read_is_an_error(
    kind: str, fault: str, theirs: h5py.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs["rows"] = np.ones(40_000)
    theirs.create_dataset("lists", (2_000,), h5py.vlen_dtype("i8"))[:] = [np.ones(20, "i8")] * 2_000
    path = Path(theirs.filename)
    theirs.close()
    now, read_at = path.with_name("now"), files.read_at

    def failing(*args: Any) -> int:
        if now.exists():
            raise OSError(errno.EIO, "failed")
        return read_at(*args)

    monkeypatch.setattr(files, "read_at", failing)  # in the child process, too
    options = ReadOptions(data="/rows" if kind == "hdf5" else "/lists")
    with lodcli.open(path, options=options, format_name=kind) as source:
        if fault == "truncated":
            os.truncate(path, path.stat().st_size // 9)
        else:
            now.touch()
        with pytest.raises((DamagedFileError, OSError), match=r"was truncated while|failed"):
            source.read()


def test_plain_hdf5_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"is read-only: write lod\.h5"):
        io.write(tmp_path / "t.h5", LoDTensor(ROWS), format_name="hdf5")
    assert not list(tmp_path.iterdir())


def test_files_other_than_hdf5_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs.h5"
    path.write_bytes(b"no HDF5 at all")
    with pytest.raises(NotThisFormatError, match="has the extension of hdf5"):
        lodcli.open(path)
    with pytest.raises(NotThisFormatError, match="is not an HDF5 file"):
        lodcli.open(path, data="/x")


def test_narrow_addresses_are_unsupported(tmp_path: Path) -> None:
    path = tmp_path / "theirs.h5"
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(4, 4)
    h5py.h5f.create(str(path).encode(), fcpl=plist).close()
    with pytest.raises(UnsupportedError, match="addresses are not of eight bytes"):
        lodcli.open(path, data="/x")


@pytest.mark.parametrize("user_block", [0, 512, 2048])
def test_a_heap_that_returns_to_itself_is_refused(user_block: int, tmp_path: Path) -> None:
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w", userblock_size=user_block) as file:
        file["x"] = ROWS
    content = path.read_bytes()
    heap = content.index(b"HEAP")
    free, address = struct.unpack("<QQ", content[heap + 16 : heap + 32])
    place = user_block + address + free
    assert content[place : place + 8] == struct.pack("<Q", 1)
    path.write_bytes(content[:place] + struct.pack("<Q", free) + content[place + 8 :])
    with pytest.raises(DamagedFileError, match="refers to itself"):
        lodcli.open(path, data="/x")


def test_a_file_that_h5py_wrote_in_the_newest_form_is_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=ROWS, chunks=(4, 2), maxshape=(None, 2), compression=9)
    found = lodcli.read(path, data="/x")
    np.testing.assert_array_equal(found.data, ROWS)


def test_ragged_arrays_and_characters_of_netcdf_are_read() -> None:
    path = Path(__file__).parents[1] / "theirs" / "stations.nc"
    heights = lodcli.read(path, data="/height", lengths="/row_size")
    assert heights.to_list() == [[1.5, 2, 3], [], [-1, 0]]
    names = lodcli.read(path, data="/name", levels="station")
    assert (names.lod.names, names.to_list()) == (("station",), ["Oslo", "Łod", "x"])
    with lodcli.open(path, data="/name") as file:
        assert file["data"][1:].to_list() == ["Łod", "x"]
    assert lodcli.read(path, data="/class").to_list() == ["a", "", "b"]
    with lodcli.open(path, data="/nothing") as file:
        assert file["data"][1:].to_list() == ["", ""]
        assert file.read()["data"].to_list() == ["", "", ""]
    texts = lodcli.read(path, data="/text", format_name="hdf5-vlen")
    assert texts.to_list() == ["Oslo", "Łódź", ""]


@pytest.mark.parametrize("mark", ["_Encoding", "DIMENSION_LIST", "_NCProperties", None])
def test_characters_are_texts_only_in_netcdf(theirs: h5py.File, mark: str | None) -> None:
    theirs["alleles"] = np.array([[b"T", b"", b""], [b"T", b"A", b""]])
    theirs["names"] = np.array([[b"a", b"bc"]])
    theirs["letters"] = np.array([b"a", b"b", b""])
    theirs["none"] = np.zeros((2, 0), "S1")
    marked = [theirs] if mark == "_NCProperties" else [theirs["alleles"], theirs["none"]]
    for one in marked if mark else []:
        one.attrs[mark] = "utf-8"
    file = Path(theirs.filename)
    theirs.close()
    alleles, none = [[["T", "", ""], ["T", "A", ""]], ["T", "TA"]], [[[], []], ["", ""]]
    assert lodcli.read(file, data="/alleles").to_list() == alleles[mark is not None]
    assert lodcli.read(file, data="/none").to_list() == none[mark is not None]
    assert lodcli.read(file, data="/names").to_list() == [["a", "bc"]]
    assert lodcli.read(file, data="/letters").to_list() == ["a", "b", ""]


def test_characters_of_pytables_are_texts_of_one(theirs: h5py.File) -> None:
    theirs["pairs"] = np.array([([b"a", b"b"],)], [("p", "S1", (2,))])
    file = Path(theirs.filename)
    theirs.close()
    assert lodcli.read(file, data="/pairs/p").to_list() == [["a", "b"]]


def test_the_last_axis_of_characters_is_the_text(theirs: h5py.File) -> None:
    theirs.attrs["_NCProperties"] = "version=2,netcdf=4.9.3,hdf5=1.14.6"
    cells = np.array([[[b"a", b"b", b""], [b"", b"", b""]], [[b"c", b"", b""], [b"", b"d", b""]]])
    theirs["cells"] = cells
    file = Path(theirs.filename)
    theirs.close()
    assert lodcli.read(file, data="/cells").to_list() == [["ab", ""], ["c", "\0d"]]
