"""Arrow's tensors of a fixed shape become rows of that shape; tables that are not read yet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

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


def test_an_unread_frame_is_made_a_table_first() -> None:
    lazy = pytest.importorskip("polars").LazyFrame({"a": [[1, 2], [3]]})
    with pytest.raises(InvalidDataError, match=r"found LazyFrame; its collect\(\) makes one"):
        LoDTensor.from_arrow(lazy)
    assert LoDTensor.from_arrow(lazy.collect()).to_list() == [[1, 2], [3]]
    held = pytest.importorskip("datasets").Dataset.from_dict({"a": [[1, 2], [3]]}).select([1, 0])
    with pytest.raises(InvalidDataError, match=r"its with_format\('arrow'\)\[:\] is one"):
        LoDTensor.from_arrow(held)
    assert LoDTensor.from_arrow(held.with_format("arrow")[:]).to_list() == [[3], [1, 2]]
