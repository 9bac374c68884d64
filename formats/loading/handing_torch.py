"""Sends batches from a worker process of a DataLoader.

torch sends every tensor in a file of shared memory, which takes about 0.5 ms whatever its size.
Here small tensors are sent through the pipe, and a padded batch is sent without its padding.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy.typing as npt
import torch
from torch.multiprocessing.reductions import reduce_tensor

from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.exchange.torch import rows_to_torch
from lodcli.kernels.tensor.lod_tensor import LoDTensor

MOST_BY_VALUE = 2 << 20  # bytes: for larger tensors shared memory is as fast

Rebuilt = tuple[Callable[..., Any], tuple[Any, ...]]


def in_worker() -> bool:
    """Return whether this is a worker process of a DataLoader."""
    return torch.utils.data.get_worker_info() is not None


def ready_to_hand(value: Any) -> Any:
    """Return a batch, once this worker process can send it fast."""
    # For all tensors that this process sends: they are sent only to the DataLoader.
    ForkingPickler.register(torch.Tensor, small_by_value)
    if isinstance(value, torch.Tensor) and value.is_nested:
        ForkingPickler.register(type(value), _jagged)
    return value


def padded(tensor: LoDTensor, pad_value: npt.ArrayLike) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a padded batch and its lengths, in a form that is fast to send from a worker."""
    rows, lengths = tensor.to_padded(value=pad_value)
    with torch.inference_mode(False):  # inference tensors do not count changes in place
        found = rows_to_torch(rows), rows_to_torch(lengths)
        return _Padded(ready_to_hand(found), tensor, pad_value) if in_worker() else found


def small_by_value(tensor: torch.Tensor) -> Rebuilt:
    """Return the reduced form of a tensor for pickle: its bytes if few, else that of torch."""
    simple = (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.nbytes <= MOST_BY_VALUE
        and not tensor.untyped_storage().is_shared()
    )
    if not simple:
        return reduce_tensor(tensor)  # type: ignore[no-any-return, no-untyped-call]
    # view() needs a stride of 1, which flatten() leaves as it is in a single axis.
    flat = tensor.contiguous().as_strided((tensor.numel(),), (1,))
    return _from_bytes, (flat.view(torch.uint8).numpy(), tensor.dtype, tuple(tensor.shape))


def _from_bytes(content: Array, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not content.size:
        return torch.empty(shape, dtype=dtype, device="cpu")
    return torch.from_numpy(content).view(dtype).view(shape)


def _jagged(batch: Any) -> Rebuilt:
    if batch.requires_grad or batch.lengths() is not None:
        return batch.__reduce_ex__(4)  # type: ignore[no-any-return]
    lengths = batch.offsets().diff()
    bounds = map(int, lengths.aminmax()) if len(lengths) else (0, 0)
    parts = (batch.values(), batch.offsets(), None, None, *bounds)
    return torch.nested.nested_tensor_from_jagged, parts


class _Padded(tuple[Any, Any]):
    """A padded batch and its lengths; pickled as its rows, and padded again when unpickled."""

    _rows: tuple[LoDTensor, npt.ArrayLike]

    def __new__(
        cls, value: tuple[Any, Any], tensor: LoDTensor, pad_value: npt.ArrayLike
    ) -> _Padded:
        made = super().__new__(cls, value)
        made._rows = tensor, pad_value
        return made

    def __reduce__(self) -> Rebuilt:
        if any(part._version for part in self):  # was changed in place
            return tuple, (list(self),)
        return padded, self._rows
