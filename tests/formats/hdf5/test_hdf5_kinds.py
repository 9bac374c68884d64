"""nwb, vtkhdf, hdf5-vlen, awkward-hdf5: HDF5 of other projects, reading only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Item
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut, flipped, read_each
from tests.formats.cases.opening import batches_of, content, nested, tensors_of
from tests.sampling import every

THEIRS = Path(__file__).parents[1] / "theirs"
UNITS, GRID, AWKWARD = THEIRS / "units.nwb", THEIRS / "grid.vtkhdf", THEIRS / "awkward.h5"
LEAVES = "/acquisition/trees/leaves"


def read_as(kind: str, path: Path, **options: Any) -> dict[str, LoDTensor]:
    with lodcli.open(path, format_name=kind, **options) as source:
        return tensors_of(source.read())


def crafted(theirs: Path, folder: Path, changes: dict[str, Any]) -> Path:
    """Return a copy of a file with some datasets replaced, or removed (None)."""
    path = folder / theirs.name
    path.write_bytes(theirs.read_bytes())
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            del file[name]
            if value is not None:
                file[name] = value
    return path


# -- nwb -----------------------------------------------------------------------------


def test_ragged_columns_of_nwb_are_read() -> None:
    found = content(UNITS, data="/units/spike_times")
    assert nested(found["spike_times"]) == [[0.5, 1.25, 2.0], [], [3.5]]
    found = content(UNITS, data=LEAVES, levels=("tree", "branch"))
    assert nested(found["leaves"]) == [[[1, 2], [3]], [], [[], [4, 5, 6]]]
    assert found["leaves"].lod.names == ("tree", "branch")
    found = content(UNITS, data=f"/units/spike_times, {LEAVES},/units/id")
    assert list(found) == ["spike_times", "leaves", "id"]
    assert found["id"].lod.n_levels == 0
    with lodcli.open(UNITS, data=LEAVES) as source:
        assert source.slice("leaves", (2, 1)).data.tolist() == [4, 5, 6]
        assert source.slice("leaves", (2, 1, slice(0, 1))).data.tolist() == [4]
    assert len(batches_of(UNITS, 1, data=LEAVES)) == 3


def test_pynwb_says_the_same_of_its_file() -> None:
    pynwb = pytest.importorskip("pynwb")
    with pynwb.NWBHDF5IO(str(UNITS), "r") as file:
        units = file.read().units
        theirs = [list(units.get_unit_spike_times(number)) for number in range(len(units))]
    assert theirs == nested(content(UNITS, data="/units/spike_times")["spike_times"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({LEAVES: None}, "leaves: there is no such dataset"),
        ({LEAVES: 3}, "leaves: is a single value"),
        ({LEAVES: [b"a"] * 6}, "leaves: holds data of variable length"),
        ({LEAVES: np.arange(5)}, "leaves: "),
        ({LEAVES + "_index": np.array([2, 3, 3, 7])}, "expected 6|7"),
        ({LEAVES + "_index": np.array([2, 3, 1, 6])}, "leaves_index: level 1"),
        ({LEAVES + "_index": np.array([-2, 3, 3, 6])}, "leaves_index: level 1"),
        ({LEAVES + "_index": np.array([2.5, 3, 3, 6])}, "leaves_index: "),
        ({LEAVES + "_index": np.zeros((4, 1), int)}, "leaves_index: must be 1-D"),
        ({LEAVES + "_index": np.array([2, 3, 3])}, "level"),
        ({LEAVES + "_index_index": np.array([2, 2, 5])}, "level"),
        ({LEAVES + "_index_index": np.array([2, 1, 4])}, "leaves_index_index: level 0"),
        ({LEAVES + "_index_index": np.array([2**63] * 3, np.uint64)}, "leaves_index_index: "),
        ({LEAVES + "_index_index": h5py.Empty("i8")}, "leaves_index_index: holds nothing"),
        (
            {LEAVES + "_index": h5py.SoftLink("/units/id")},
            "a soft link, .* name its target '/units/id'",
        ),
        ({LEAVES: h5py.ExternalLink("other.h5", "/x")}, "external link.* '/x' of 'other.h5'"),
    ],
)
def test_damage_in_nwb_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = crafted(UNITS, tmp_path, changes)
    with pytest.raises(LodError, match=message) as caught:
        content(path, data=LEAVES)
    assert str(caught.value).startswith(str(path))


def test_columns_must_be_named_and_differ() -> None:
    with pytest.raises(SelectionError, match="name a column with data="):
        content(UNITS)
    with pytest.raises(SelectionError, match="two columns are named id"):
        content(UNITS, data="/units/id,/acquisition/trees/id")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "theirs"), [("vtkhdf", GRID), ("nwb", UNITS)])
def test_a_file_truncated_at_any_length_is_an_error(
    kind: str, theirs: Path, tmp_path: Path
) -> None:
    whole = theirs.read_bytes()
    path = tmp_path / theirs.name
    options = {"data": LEAVES} if kind == "nwb" else {}
    copies = cut(whole[:-1], 31 * every(16))
    assert not accepted(copies, path, lambda path: read_as(kind, path, **options))


# -- variable length -----------------------------------------------------------------


@pytest.fixture
def vlen(tmp_path: Path) -> Path:
    path = tmp_path / "vlen.h5"
    with h5py.File(path, "w") as file:
        items = np.empty(3, object)
        items[:] = [np.array(part, np.int32) for part in ([1, 2], [], [3])]
        file.create_dataset("numbers", data=items, dtype=h5py.vlen_dtype(np.int32))
        file.create_dataset("none", (0,), h5py.vlen_dtype(np.float32))
        file["text"] = ["ab", "", "größe"]
        file["fixed"] = np.array([b"ab", b"c"])
        file["plain"] = np.arange(3)
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/numbers")
        file["soft"] = h5py.SoftLink("/")
        file.create_dataset("square", (2, 2), h5py.vlen_dtype(np.int8))
        file.create_dataset("nested", (2,), h5py.vlen_dtype(h5py.vlen_dtype(np.int8)))
        fields = [("n", "i4"), ("t", h5py.string_dtype()), ("v", h5py.vlen_dtype(np.float32))]
        table = file.create_dataset("table", (2,), np.dtype(fields))
        table[0], table[1] = (1, "größe", np.arange(1, 3, dtype="f4")), (2, "", np.ones(0, "f4"))
    return path


def test_sequences_and_texts_are_one_level(vlen: Path) -> None:
    found = read_as("hdf5-vlen", vlen, data="/numbers", levels=("item",))["data"]
    assert nested(found) == [[1, 2], [], [3]]
    assert found.dtype == np.int32
    assert found.lod.names == ("item",)
    found = read_as("hdf5-vlen", vlen, data="/text")["data"]
    assert found.data.tobytes().decode() == "abgröße"
    assert found.recursive_sequence_lengths() == [[2, 0, 7]]
    assert nested(read_as("hdf5-vlen", vlen, data="/fixed")["data"]) == [[97, 98], [99]]
    assert read_as("hdf5-vlen", vlen, data="/none")["data"].dtype == np.float32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"there are: .*, /nested \(format_name='hdf5-vlen'\), .*, /table \(a compound\)"),
        ("/nothing", "/nothing: is missing"),
        ("/", "/: is not a dataset"),
        ("/plain", "is int64, not variable-length data; format_name='hdf5'"),
        ("/square", r"expected one dimension of sequences, found \(2, 2\); store .*ravel"),
        ("/nested", "object, which tensors cannot hold; .* lengths, for data= and lengths=$"),
        ("/table/n", "/table/n: is int32, not variable-length data; format_name='hdf5'"),
        ("/table/x", "/table/x: there is no such field"),
        # HDF5 would look for its target in this file.
        ("/elsewhere", "'elsewhere' is an external link, .* read '/numbers' of 'other.h5' instead"),
        ("/soft/numbers", "'soft' is a soft link, .* name its target '/' instead"),
    ],
)
def test_datasets_that_are_no_sequences_are_errors_that_name_them(
    data: str | None, message: str, vlen: Path
) -> None:
    with pytest.raises(LodError, match=message):
        read_as("hdf5-vlen", vlen, data=data)


@pytest.mark.parametrize("name", ["points", "images", "big"])
def test_rows_and_byte_orders_of_pytables_are_read(name: str) -> None:
    path = THEIRS / "pytables.h5"
    shape = {"points": (2,), "images": (2, 3), "big": ()}[name]
    counts = [np.arange(length * np.prod(shape, dtype=int)) for length in (2, 0, 3)]
    expected = np.concatenate(counts).reshape(-1, *shape) - (name == "big")
    found = read_as("hdf5-vlen", path, data=f"/{name}")["data"]
    assert found.recursive_sequence_lengths() == [[2, 0, 3]]
    assert found.data.dtype.isnative
    np.testing.assert_array_equal(found.data, expected)
    with lodcli.open(path, format_name="hdf5-vlen", data=f"/{name}") as source:
        assert source.slice("data", (slice(1, 3),)).identical(found[1:3])
        part = source.slice("data", (2, slice(1, 2)))
        np.testing.assert_array_equal(part.data, expected[3:4])


@pytest.mark.parametrize("name", ["texts", "big"])
def test_texts_of_pytables_are_texts(name: str) -> None:
    path = THEIRS / "pytables_texts.h5"
    found = read_as("hdf5-vlen", path, data=f"/{name}")["data"]
    assert found.to_list() == ["größe", "", "ab😀"]
    with lodcli.open(path, format_name="hdf5-vlen", data=f"/{name}") as source:
        assert source.slice("data", (2,)).data.tobytes().decode() == "ab😀"
        assert source.slice("data", (slice(1, 3),)).to_list() == ["", "ab😀"]


def test_bytes_of_pytables_are_bytes_and_objects_are_not_unpickled() -> None:
    path = THEIRS / "pytables_texts.h5"
    assert read_as("hdf5-vlen", path, data="/strings")["data"].to_list() == [
        "größe".encode("latin1"),
        b"",
        b"ab?",
    ]
    with pytest.raises(UnsupportedError, match="/objects: holds pickled Python objects, which are"):
        read_as("hdf5-vlen", path, data="/objects")


def test_code_points_beyond_unicode_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (2,), h5py.vlen_dtype(np.dtype("u4")))
        made[0], made[1] = [104], [1 << 30]
        made.attrs["PSEUDOATOM"] = np.bytes_("vlunicode")
    with pytest.raises(InvalidDataError, match="/x: item 1: is not text: a value"):
        read_as("hdf5-vlen", tmp_path / "x.h5", data="/x")


@pytest.mark.parametrize("dtype", ["i2", "u8", "f4", "f8", "c8", "c16"])
def test_big_endian_sequences_of_h5py_are_read(dtype: str, tmp_path: Path) -> None:
    kind = h5py.vlen_dtype(np.dtype(f">{dtype}"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (2,), kind)
        table = file.create_dataset("t", (1,), np.dtype([("n", "i4"), ("v", kind)]))
        made[0] = np.array([1, 259], f">{dtype}")
        table[0] = (1, np.array([1, 259], f">{dtype}"))
    assert np.array(259, f">{dtype}").tobytes() in (tmp_path / "x.h5").read_bytes()
    found = read_as("hdf5-vlen", tmp_path / "x.h5", data="/x")["data"]
    assert found.data.tolist() == [1, 259]
    assert found.dtype == np.dtype(dtype)
    assert read_as("hdf5-vlen", tmp_path / "x.h5", data="/t/v")["data"].data.tolist() == [1, 259]


def test_fields_of_compounds_are_those_of_h5py(vlen: Path) -> None:
    found = read_as("hdf5-vlen", vlen, data="/table/t")["data"]
    assert found.data.tobytes().decode() == "größe"
    assert found.recursive_sequence_lengths() == [[7, 0]]
    assert nested(read_as("hdf5-vlen", vlen, data="/table/v")["data"]) == [[1, 2], []]


def test_filters_of_hdf5plugin_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "t.h5"
    form = '{"class": "NumpyArray", "primitive": "int64", "form_key": "a"}'
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2,), h5py.vlen_dtype(np.int32), chunks=(2,), **hdf5plugin.Zstd())
        file["x"][0] = [1, 2]
        file.create_dataset("g/a-data", data=np.arange(3), chunks=(3,), **hdf5plugin.Blosc())
        file["g"].attrs.update(form=form, length=3)
    assert nested(read_as("hdf5-vlen", path, data="/x")["data"]) == [[1, 2], []]
    assert read_as("awkward-hdf5", path)["data"].data.tolist() == [0, 1, 2]
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(UnsupportedError, match="the codec zstd needs the package hdf5plugin"):
        read_as("hdf5-vlen", path, data="/x")


@pytest.mark.slow
def test_damage_ends_in_the_child(vlen: Path) -> None:
    """Some of these make HDF5 hang or crash; none of it reaches this process."""
    whole = vlen.read_bytes()
    read = partial(read_as, "hdf5-vlen", data="/numbers")
    found = read_each(flipped(whole, 60, 5), vlen, read)
    assert all(one is None or len(one["data"]) <= 3 for one in found)


def test_a_hang_in_the_library_is_ended(vlen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: object, **options: object) -> list[Any]:
        while True:
            pass

    monkeypatch.setattr("lodcli.formats.sandbox.process.CPU_SECONDS", 1)
    monkeypatch.setattr("lodcli.formats.hdf5.trusting.texts", hang)
    with pytest.raises(LodError, match="exceeds the processor time"):
        read_as("hdf5-vlen", vlen, data="/text")


# -- awkward -------------------------------------------------------------------------


def test_a_group_of_awkward_is_read() -> None:
    for options in ({}, {"data": "/awkward"}):
        found = read_as("awkward-hdf5", AWKWARD, **options)
        assert nested(found["x"]) == [[[1, 2], [3]], []]
        assert nested(found["y"]) == [[97, 98], [99]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"awkward/node1-offsets": None}, "node1-offsets: this buffer is missing"),
        ({"awkward/node1-offsets": np.array([0, 2])}, "expected at least 3 numbers, found 2"),
        ({"awkward/node1-offsets": np.array([0, 2, 1])}, "node1-offsets: decrease"),
        ({"awkward/node1-offsets": 7}, "node1-offsets: "),
        ({"awkward/node3-data": np.array([b"a"])}, "node3-data: holds"),
        ({"awkward": None}, "no group has the attribute form; not an Awkward file"),
    ],
)
def test_damage_in_a_group_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LodError, match=message) as caught:
        read_as("awkward-hdf5", crafted(AWKWARD, tmp_path, changes))
    assert not isinstance(caught.value, SelectionError), "nobody named a group"


@pytest.mark.parametrize(
    ("name", "value"), [("form", None), ("form", "{"), ("length", "-1"), ("length", 2.5)]
)
def test_broken_attributes_are_named(name: str, value: Any, tmp_path: Path) -> None:
    path = crafted(AWKWARD, tmp_path, {})
    with h5py.File(path, "r+") as file:
        del file["awkward"].attrs[name]
        if value is not None:
            file["awkward"].attrs[name] = value
    with pytest.raises(LodError, match=r"form|length"):
        read_as("awkward-hdf5", path, data="/awkward")


# -- all -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nwb", "vtkhdf", "hdf5-vlen", "awkward-hdf5"])
def test_nothing_is_written(kind: str, tmp_path: Path) -> None:
    items: dict[str, Item] = {"data": LoDTensor(np.arange(3), LoD.from_lengths([[3]]))}
    with pytest.raises(UnsupportedError, match=f"{kind} is read-only"):
        io.write(tmp_path / "x", items, format_name=kind)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["hdf5-vlen", "awkward-hdf5"])
def test_no_length_of_a_cut_file_opens(kind: str, vlen: Path, tmp_path: Path) -> None:
    theirs = vlen if kind == "hdf5-vlen" else AWKWARD
    whole, path = theirs.read_bytes(), tmp_path / "cut.h5"
    options = ReadOptions(data="/numbers" if kind == "hdf5-vlen" else None)
    open_here: Callable[..., Any] = table.get(kind).open  # a child for each would take minutes
    for size in range(0, len(whole) - 1, 31):
        path.write_bytes(whole[:size])
        with Input(path) as source, pytest.raises(LodError):
            open_here(source, options)


# -- parts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path", "options"),
    [
        ("nwb", UNITS, {"data": LEAVES}),
        ("vtkhdf", GRID, {}),
        ("h5ad", THEIRS / "anndata.h5ad", {}),
        ("hdf5-vlen", None, {"data": "/numbers"}),
        ("awkward-hdf5", AWKWARD, {}),
    ],
)
def test_a_slice_is_that_of_the_tensor(
    kind: str, path: Path | None, options: dict[str, Any], vlen: Path
) -> None:
    branches: list[tuple[Key, ...]] = [
        *((0,), (1,), (-1,), (9,), (slice(1, None),), (slice(0, 1),), (0, 0), (1, slice(1, 2))),
        *((slice(0, 2), 0), (0, 0, 0), (0, 1, slice(0, 9)), (0, 0, 0, 0)),
    ]
    asked = ReadOptions(**options)
    with lodcli.open(path or vlen, format_name=kind, options=asked) as source:
        whole = tensors_of(source.read())
        for name, tensor in whole.items():
            assert source.read_index(name) == tensor.lod
            for branch in branches:
                for level in (0, 1):
                    try:
                        expected = tensor.select(*branch, level=level)
                    except LodError as error:
                        with pytest.raises(type(error)):
                            source.slice(name, branch, level)
                    else:
                        assert source.slice(name, branch, level).identical(expected)
