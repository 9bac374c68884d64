"""awkward: reads the output of ak.to_buffers, and writes input for ak.from_buffers."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lodcli.formats.awkward.forms import PRIMITIVES, Reader
from lodcli.formats.core import io
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut, flipped, read_each
from tests.formats.cases.opening import content, nested, tensors_of
from tests.sampling import many
from tests.strategies import DTYPES, tensors

THEIRS = Path(__file__).parents[1] / "theirs" / "awkward.npz"
HELD = tuple(dtype for dtype in DTYPES if dtype.name in PRIMITIVES)


def saved(folder: Path, form: Any, length: Any, **buffers: Any) -> Path:
    path = folder / "given.npz"
    text = form if isinstance(form, str) else json.dumps(form)
    np.savez(path, form=text, length=length, **{k.replace("_", "-"): v for k, v in buffers.items()})
    return path


def stored(folder: Path, array: Any) -> Path:
    """Return a file of any Awkward array."""
    ak = pytest.importorskip("awkward")
    form, length, container = ak.to_buffers(array)
    np.savez(folder / "given.npz", form=form.to_json(), length=length, **container)
    return folder / "given.npz"


# -- the real tool -------------------------------------------------------------------


def test_records_of_awkward_are_tensors_by_field() -> None:
    found = content(THEIRS)
    assert list(found) == ["x", "y", "z.w"]
    assert nested(found["x"]) == [[[1, 2], [3]], [], [[]]]
    assert bytes(found["y"].data) == b"abcde"
    assert found["y"].recursive_sequence_lengths() == [[2, 0, 3]]
    assert found["z.w"].data.tolist() == [1.5, -2.5, 0.0]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda ak: ak.Array([[[1, 2], [3]], [], [[4]]])[[2, 0, 0, 1]], None),
        (lambda ak: ak.Array([[[1, 2], [3]], [], [[4]]])[1:], None),
        (lambda ak: ak.Array([[1, 2], [3], []])[:, ::-1], None),
        (lambda ak: ak.Array([[1, 2, 3], [4, 5]])[:, 1:], None),
        (lambda ak: ak.from_numpy(np.arange(12).reshape(2, 3, 2)), None),
        (lambda ak: ak.to_regular(ak.Array([[[1], [2, 3]], [[], [4]]]), axis=1), None),
        (lambda ak: ak.to_regular(ak.Array([[1, 2], [3, 4], [5, 6]])), None),
        (lambda ak: ak.Array([[], []]), None),
        (lambda ak: ak.Array([]), None),
        (lambda ak: ak.Array([True, False])[np.array([1, 1, 0])], None),
        (lambda ak: ak.str.to_categorical(ak.Array(["a", "bc", "a"])), [[97], [98, 99], [97]]),
        (lambda ak: ak.Array([b"a", b"bc"]), [[97], [98, 99]]),
        (
            lambda ak: ak.Array(
                ak.contents.UnmaskedArray(ak.contents.NumpyArray(np.array([1.5, 2.5])))
            ),
            None,
        ),
        (
            lambda ak: ak.Array(
                ak.contents.ListArray(
                    ak.index.Index32(np.array([4, 0, 1], np.int32)),
                    ak.index.Index32(np.array([6, 0, 4], np.int32)),
                    ak.contents.NumpyArray(np.arange(9)),
                )
            ),
            None,
        ),
    ],
)
def test_every_layout_without_missing_values_is_read(
    make: Any, expected: Any, tmp_path: Path
) -> None:
    ak = pytest.importorskip("awkward")
    array = make(ak)
    found = content(stored(tmp_path, array))["data"]
    assert nested(found) == (ak.to_list(array) if expected is None else expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda ak: ak.Array([1, None, 3]), r"missing values \(IndexedOption.*ak.fill_none or ak"),
        (lambda ak: ak.Array([[1], None]), "missing values"),
        (lambda ak: ak.mask(ak.Array([1, 2]), np.array([True, False])), r"missing values \(ByteM"),
        (lambda ak: ak.Array([1, "a"]), "a union of types"),
        (
            lambda ak: ak.Array([np.datetime64("2020-01-01")]),
            r"holds datetime64.*; lodcli\.write\(PATH, LoDTensor\.from_awkward\(array\)\) keeps",
        ),
        (
            lambda ak: ak.Array(np.zeros(2, np.clongdouble)),
            r"apply ak\.values_astype\(array, 'complex128'\)",
        ),
        (
            lambda ak: ak.Array(np.zeros(2, np.longdouble)),
            r"apply ak\.values_astype\(array, 'float64'\)",
        ),
        (lambda ak: ak.Array([{}]), "records without fields"),
    ],
)
def test_values_that_no_tensor_holds_are_errors(make: Any, message: str, tmp_path: Path) -> None:
    ak = pytest.importorskip("awkward")
    with pytest.raises((UnsupportedError, InvalidDataError), match=message):
        content(stored(tmp_path, make(ak)))


@given(tensor=tensors(HELD))
@settings(
    max_examples=many(40, share=4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_awkward_reads_what_we_write(tmp_path: Path, tensor: LoDTensor) -> None:
    ak = pytest.importorskip("awkward")
    io.write(tmp_path / "x.npz", tensor, format_name="awkward", overwrite=True)
    with np.load(tmp_path / "x.npz") as file:
        theirs = ak.from_buffers(file["form"].item(), file["length"].item(), dict(file))
    assert ak.is_valid(theirs)
    if 0 not in tensor.row_shape:
        assert repr(ak.to_list(theirs)) == repr(nested(tensor))


@pytest.mark.parametrize("names", [("title",), ("title", "alias"), ("title", "size")])
def test_awkward_reads_texts_with_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    ak = pytest.importorskip("awkward")
    words = LoDTensor.from_lists([["ab", ""], ["ö"]])
    known = {"title": words, "alias": words, "size": LoDTensor(np.arange(4), words.lod)}
    io.write(tmp_path / "x.npz", {name: known[name] for name in names}, format_name="awkward")
    with np.load(tmp_path / "x.npz") as file:
        theirs = ak.from_buffers(file["form"].item(), file["length"].item(), dict(file))
    assert ak.is_valid(theirs)
    for name in names:
        texts = [["ab", ""], ["ö"]]
        expected = [[[0, 1], []], [[2, 3]]] if name == "size" else texts
        assert ak.to_list(theirs[name]) == expected
        assert nested(content(tmp_path / "x.npz")[name]) == nested(known[name])


# -- round trips ---------------------------------------------------------------------


def test_tensors_over_one_index_share_it_again(tmp_path: Path) -> None:
    lod = LoD.from_lengths([[2, 0, 1], [1, 2, 3]])
    items = {
        "word": LoDTensor(np.arange(6), lod),
        "tag": LoDTensor(np.ones((6, 2), np.float16), lod),
        "mood": LoDTensor(np.arange(3), lod.above(-1)),
        "year": LoDTensor(np.arange(3)),
    }
    io.write(tmp_path / "x.npz", items, format_name="awkward")
    found = content(tmp_path / "x.npz")
    assert {name: nested(item) for name, item in found.items()} == {
        name: nested(item) for name, item in items.items()
    }
    del items["year"]
    io.write(tmp_path / "y.npz", items, format_name="awkward")
    found = content(tmp_path / "y.npz")
    assert found["tag"].lod.levels[0] is found["mood"].lod.levels[0]
    with np.load(tmp_path / "y.npz") as file:
        offsets = [name for name in file if name.endswith("offsets")]
        assert len(offsets) == 3  # the first level is stored once
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert file.namelist()[0] == "form.npy"


@pytest.mark.parametrize("null", [False, True])
def test_presence_of_records_is_written_only_if_one_is_null(null: bool, tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text('{"r":[{"a":1},{"a":2}]}\n{"r":[]}\n')
    read = io.read_all(given, nulls="keep")
    assert set(read) == {"r.a", "r.present"}
    path = tmp_path / "ours.npz"
    if null:
        told = read["r.present"]
        read["r.present"] = LoDTensor(np.array([True, False]), told.lod, told.marks)
        with pytest.raises(UnsupportedError, match=r"r\.present: a record is null; awkward has no"):
            io.write(path, read, format_name="awkward")
        return
    io.write(path, read, format_name="awkward")
    assert set(io.read_all(path)) == {"r.a"}


def test_tensors_of_different_numbers_of_items_are_no_record(tmp_path: Path) -> None:
    items = {"a": LoDTensor(np.arange(3)), "b": LoDTensor(np.arange(2))}
    with pytest.raises(
        UnsupportedError, match=r"same number of outermost items.* a has 3, b has 2"
    ):
        io.write(tmp_path / "x.npz", items, format_name="awkward")
    assert not list(tmp_path.iterdir())


# -- damage --------------------------------------------------------------------------

LEAF = {"class": "NumpyArray", "primitive": "int64", "inner_shape": [], "form_key": "n1"}
LIST = {"class": "ListOffsetArray", "offsets": "i64", "content": LEAF, "form_key": "n0"}
VIEW = {"class": "ListArray", "starts": "i64", "stops": "i64", "content": LEAF, "form_key": "n0"}
INDEX = {"class": "IndexedArray", "index": "i64", "content": LEAF, "form_key": "n0"}
REGULAR = {"class": "RegularArray", "size": 2, "content": LEAF, "form_key": "n0"}
RECORD = {"class": "RecordArray", "fields": ["a"], "contents": [LEAF], "form_key": "n0"}
ROWS = np.arange(3)


@pytest.mark.parametrize(
    ("form", "length", "buffers", "message"),
    [
        ("no json", 1, {}, "the form is not JSON"),
        ("[" * 100_000, 1, {}, "the form is not JSON"),
        ("[]", 1, {}, "the form is not a JSON object"),
        ({}, 1, {}, "a node of class 'None'"),
        ({"class": "Cuda"}, 1, {}, "a node of class 'Cuda'"),
        (LEAF, -1, {}, "length -1"),
        (LEAF, 2**62, {"n1_data": ROWS}, "expanding to 4611686018427387904 bytes"),
        (LEAF, 4, {"n1_data": ROWS}, "n1-data: expected at least 4 numbers, found 3"),
        (LEAF, 3, {}, "n1-data: this buffer is missing"),
        (LEAF, 3, {"n1_data": ROWS.astype(np.int32)}, "n1-data: expected int64, found int32"),
        (LEAF, 1, {"n1_data": np.zeros(7, np.uint8)}, "7 bytes are not a whole number of int64"),
        (LEAF | {"primitive": "float128"}, 1, {}, "holds float128.* 'float64'"),
        (LEAF | {"primitive": None}, 1, {}, "holds None"),
        (LEAF | {"inner_shape": [-1]}, 1, {}, r"inner_shape \[-1\] is not a shape"),
        (LEAF | {"inner_shape": 3}, 1, {}, "inner_shape 3 is not a shape"),
        (LEAF | {"inner_shape": [0]}, 2**40, {"n1_data": ROWS}, "expanding to"),
        (LEAF | {"inner_shape": [2**40, 2**40]}, 3, {"n1_data": ROWS}, "expected at least"),
        (LIST, 2, {"n0_offsets": ROWS[:2]}, "n0-offsets: expected at least 3 numbers, found 2"),
        (LIST, 2, {"n0_offsets": np.array([0, 2, 1])}, "n0-offsets: decrease"),
        (LIST, 2, {"n0_offsets": np.array([-1, 0, 1])}, "n0-offsets: decrease"),
        (LIST, 1, {"n0_offsets": np.array([0, 9]), "n1_data": ROWS}, "at least 9 numbers, found 3"),
        (LIST | {"offsets": "f8"}, 1, {}, "ListOffsetArray: offsets of dtype 'f8'"),
        (LIST | {"content": None}, 1, {"n0_offsets": ROWS}, "'None' where a node was expected"),
        (VIEW, 1, {"n0_starts": ROWS[1:], "n0_stops": ROWS}, "a list ends before it starts"),
        (VIEW, 1, {"n0_starts": ROWS - 1, "n0_stops": ROWS}, "a list ends before it starts"),
        (INDEX, 1, {"n0_index": ROWS - 1, "n1_data": ROWS}, "IndexedArray below 0"),
        (INDEX, 1, {"n0_index": ROWS + 9, "n1_data": ROWS}, "at least 10 numbers, found 3"),
        (REGULAR | {"size": -1}, 1, {}, "RegularArray: size '-1'"),
        (REGULAR | {"size": True}, 1, {}, "RegularArray: size 'True'"),
        (REGULAR, 2, {"n1_data": ROWS}, "expected at least 4 numbers, found 3"),
        (RECORD | {"fields": ["a", "b"]}, 1, {}, "not as many fields as contents"),
        (
            RECORD | {"fields": ["a", "a"], "contents": [LEAF, LEAF]},
            1,
            {"n1_data": ROWS},
            "two fields named 'a'",
        ),
        ({"class": "EmptyArray"}, 1, {}, "expected no items, 1 are referred to"),
    ],
)
def test_damage_is_named(
    form: Any, length: int, buffers: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(LodError, match=message):
        content(saved(tmp_path, form, length, **buffers))


def test_a_form_without_end_is_refused(tmp_path: Path) -> None:
    form: dict[str, Any] = LEAF
    for _ in range(50):
        form = {"class": "UnmaskedArray", "content": form}
    with pytest.raises(DamagedFileError, match="deeper than 40 nodes"):
        content(saved(tmp_path, form, 1, n1_data=ROWS))


def test_lists_that_share_their_items_come_to_no_more_than_allowed() -> None:
    """A megabyte of lists of the same megabyte would come to a terabyte."""
    count = 1 << 17
    buffers = {
        "n0-starts": np.zeros(count, np.int64),
        "n0-stops": np.full(count, count, np.int64),
        "n1-data": np.zeros(count, np.int64),
    }
    with pytest.raises(TooLargeError, match=r"expanding to 137438953472 bytes; ak.to_packed first"):
        Reader(buffers.__getitem__, 3 << 20, Bounds()).tensors(VIEW, count)


@pytest.mark.slow
def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    whole = THEIRS.read_bytes()
    read = partial(io.read_all, format_name="awkward")
    assert not accepted(cut(whole), tmp_path / "x.npz", read)


def test_a_flipped_byte_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    whole, expected = THEIRS.read_bytes(), content(THEIRS)
    read = partial(io.read_all, format_name="awkward")
    for found in read_each(flipped(whole, 300, 0), tmp_path / "x.npz", read):
        items = expected if found is None else tensors_of(found)
        assert all(items[name].identical(tensor) for name, tensor in expected.items())
