"""Arrow's tensors of a fixed shape and bytes of a fixed size become rows; encodings are removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

BOXES = np.arange(24.0).reshape(4, 2, 3)
TENSORS = pa.FixedShapeTensorArray.from_numpy_ndarray(BOXES)


def test_tensors_are_rows_of_their_shape() -> None:
    found = LoDTensor.from_arrow(TENSORS)
    np.testing.assert_array_equal(found.data, TENSORS.to_numpy_ndarray(), strict=True)


def test_tensors_in_lists_and_null_ones() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, 4], pa.int32()), TENSORS)
    found = LoDTensor.from_arrow(lists)
    assert found.recursive_sequence_lengths() == [[3, 0, 1]]
    np.testing.assert_array_equal(found.data, BOXES)
    some = LoDTensor.from_arrow(TENSORS.take(pa.array([1, None])))
    assert some.to_list() == [BOXES[1].tolist(), None]


def test_tensors_in_lists_of_a_fixed_size_are_axes_of_rows() -> None:
    pairs = pa.FixedSizeListArray.from_arrays(TENSORS, 2)
    np.testing.assert_array_equal(LoDTensor.from_arrow(pairs).data, BOXES.reshape(2, 2, 2, 3))


def test_permuted_axes_are_an_error() -> None:
    kind = pa.fixed_shape_tensor(pa.float64(), [2, 3], permutation=[1, 0])
    permuted = pa.ExtensionArray.from_storage(kind, TENSORS.storage)
    with pytest.raises(UnsupportedError, match=r"permuted as \[1, 0\]; take their to_numpy_ndarr"):
        LoDTensor.from_arrow(permuted)


def test_booleans_of_a_byte_are_true_unless_they_are_0() -> None:
    values = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2, -1, None], pa.int8()))
    found = LoDTensor.from_arrow(values.slice(1))
    assert found.dtype == np.bool_
    assert found.to_list() == [True, True, True, None]
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, 4], pa.int32()), values)
    assert LoDTensor.from_arrow(lists).to_list() == [[False, True, True], [], [True]]


def runs_of(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays([2, 3], values)


RUNS = pa.RunEndEncodedArray.from_arrays([2, 3, 7], pa.array([5, None, 6]))


@pytest.mark.parametrize(
    ("array", "lists"),
    [
        (pa.array([None, None]), [None, None]),
        (pa.array([[], [None], None]), [[], [None], None]),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)).slice(1), [None, [99, 100]]),
        (pa.array([[b"ab"], [], [b"cd"]], pa.list_(pa.binary(2))), [[[97, 98]], [], [[99, 100]]]),
        (pa.array([[b"a", b"b"]], pa.list_(pa.binary(1), 2)), [[[97], [98]]]),
        (RUNS, [5, 5, None, 6, 6, 6, 6]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "bc"]).slice(1), ["a", "bc"]),
        (pa.ListArray.from_arrays([0, 2, 7], RUNS), [[5, 5], [None, 6, 6, 6, 6]]),
        (runs_of(pa.array(["a", "b"]).dictionary_encode()), ["a", "a", "b"]),
        (runs_of(pa.array([7, None]).dictionary_encode()), [7, 7, None]),
        (runs_of(pa.array(["a", None], pa.string_view())).slice(1), ["a", None]),
        (runs_of(pa.array([b"a", b"b"], pa.binary_view())), [b"a", b"a", b"b"]),
        (
            runs_of(pa.array([["a"], ["b", "c"]], pa.list_(pa.string_view()))),
            [["a"], ["a"], ["b", "c"]],
        ),
    ],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else "",
)
def test_arrays_are_read_as_files_of_them(array: pa.Array, lists: object, tmp_path: Path) -> None:
    found = LoDTensor.from_arrow(array)
    assert found.to_list() == lists
    path = tmp_path / "x.arrow"
    table = pa.table({"x": array})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    read = lodcli.read(path)
    assert isinstance(read, LoDTensor)
    assert read.identical(found)


def test_an_unread_frame_is_made_a_table_first() -> None:
    lazy = pytest.importorskip("polars").LazyFrame({"a": [[1, 2], [3]]})
    with pytest.raises(InvalidDataError, match=r"found LazyFrame; its collect\(\) makes one"):
        LoDTensor.from_arrow(lazy)
    assert LoDTensor.from_arrow(lazy.collect()).to_list() == [[1, 2], [3]]
    held = pytest.importorskip("datasets").Dataset.from_dict({"a": [[1, 2], [3]]}).select([1, 0])
    with pytest.raises(InvalidDataError, match=r"its with_format\('arrow'\)\[:\] is one"):
        LoDTensor.from_arrow(held)
    assert LoDTensor.from_arrow(held.with_format("arrow")[:]).to_list() == [[3], [1, 2]]


def test_addresses_of_objects_are_no_rows() -> None:
    polars = pytest.importorskip("polars")
    column = polars.Series("a", [object()])
    for values in (column, polars.DataFrame([column])):
        with pytest.raises(UnsupportedError, match="tensors cannot hold objects, the dtype of a"):
            LoDTensor.from_arrow(values)
    assert LoDTensor.from_arrow(polars.Series(["Object"])).to_list() == ["Object"]
