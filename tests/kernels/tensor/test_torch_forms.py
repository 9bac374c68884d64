"""Forms of torch that no tensor can have."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([2, 3], "batch_sizes, position 1: expected at most 2, found 3"),
        ([2, 2], "batch_sizes: expected a total of 5 rows, found 4"),
        ([3, 3], "batch_sizes: expected a total of 5 rows, found 6"),
        ([], "batch_sizes: expected a total of 5 rows, found 0"),
    ],
)
def test_batch_sizes_that_do_not_fit_the_rows_are_refused(sizes: list[int], said: str) -> None:
    batch_sizes = torch.tensor(sizes, dtype=torch.int64)
    packed = torch.nn.utils.rnn.PackedSequence(torch.ones(5), batch_sizes)
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_torch(packed)


def strided(*parts: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that strided ones are no longer developed
        return torch.nested.nested_tensor(list(parts))


def test_a_nested_tensor_ragged_elsewhere_is_refused() -> None:
    wide = strided(torch.ones(2, 3), torch.ones(2, 5))
    with pytest.raises(UnsupportedError, match=r"shapes \(3,\) and \(5,\): the ragged .* back"):
        LoDTensor.from_torch(wide)
    assert LoDTensor.from_torch(wide.transpose(1, 2)).recursive_sequence_lengths() == [[3, 5]]
    with pytest.raises(InvalidDataError, match="expected sequences, found single values"):
        LoDTensor.from_torch(strided(torch.tensor(1.0)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (torch.ones(2, dtype=torch.float8_e4m3fn), r"; convert them, tensor.to\(torch.float32\)$"),
        (torch.eye(2).to_sparse(), r"Use Tensor.to_dense\(\) first.$"),
    ],
)
def test_the_remedy_fits_what_numpy_lacks(values: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_torch(values)
