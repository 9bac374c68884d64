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


def plain(kind: str) -> Any:
    """Return a tensor whose values no array can share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that quantized and compressed ones may change
        if kind == "csr":
            return torch.eye(2).to_sparse_csr()
        return torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.qint8)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("csr", "Use Tensor.to_dense() first."),
        ("quantized", "data: is quantized, torch.qint8; give tensor.dequantize()"),
    ],
)
def test_a_tensor_that_is_not_dense_is_refused_with_what_makes_it_dense(
    kind: str, said: str
) -> None:
    with pytest.raises(InvalidDataError) as found:
        LoDTensor.from_torch(plain(kind))
    assert str(found.value).endswith(said)
    dense = plain(kind).dequantize() if kind == "quantized" else plain(kind).to_dense()
    assert LoDTensor.from_torch(dense).rows == len(dense)


def test_tensors_without_values_are_refused() -> None:
    with pytest.raises(
        InvalidDataError, match=r"^data: is on the meta device, which has no values"
    ):
        LoDTensor.from_torch(torch.ones(3, device="meta"))
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.ones(3)
    with pytest.raises(InvalidDataError, match=r"^data: expected a plain tensor, found FakeTensor"):
        LoDTensor.from_torch(fake)


def test_a_tracked_tensor_of_a_subclass_is_refused_with_what_to_give() -> None:
    class Named(torch.Tensor):  # type: ignore[misc]
        pass

    tracked = torch.ones(2, requires_grad=True).as_subclass(Named)
    for given in (tracked, torch.nn.Parameter(torch.ones(2))):
        with pytest.raises(InvalidDataError, match=r"tracked by autograd; give tensor\.detach\(\)"):
            LoDTensor.from_torch(given)
        assert LoDTensor.from_torch(given.detach()).data.tolist() == [1, 1]
