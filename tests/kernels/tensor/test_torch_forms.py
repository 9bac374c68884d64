"""Forms of torch that no tensor can have."""

from __future__ import annotations

import re
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
        ([3, 3, -1], "batch_sizes, position 2: expected 0 or more, found -1"),
    ],
)
def test_batch_sizes_that_do_not_fit_the_rows_are_refused(sizes: list[int], said: str) -> None:
    batch_sizes = torch.tensor(sizes, dtype=torch.int64)
    packed = torch.nn.utils.rnn.PackedSequence(torch.ones(5), batch_sizes)
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_torch(packed)


@pytest.mark.parametrize("order", [[0, 0], [0, 5], [-1, 0], [0], [0, 1, 2]])
def test_an_order_that_does_not_have_each_sequence_once_is_refused(order: list[int]) -> None:
    packed = torch.nn.utils.rnn.PackedSequence(
        torch.ones(4), torch.tensor([2, 2]), torch.tensor(order), torch.tensor([0, 1])
    )
    said = rf"sorted_indices: expected each of the 2 sequences once, found {re.escape(str(order))}"
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_torch(packed)


def test_an_order_of_32_bits_is_read() -> None:
    packed = torch.nn.utils.rnn.PackedSequence(
        torch.tensor([3, 1, 4, 5]),
        torch.tensor([2, 1, 1]),
        torch.tensor([1, 0], dtype=torch.int32),
        torch.tensor([1, 0], dtype=torch.int32),
    )
    found = LoDTensor.from_torch(packed)
    assert (found.data.tolist(), found.recursive_sequence_lengths()) == ([1, 3, 4, 5], [[1, 3]])


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
