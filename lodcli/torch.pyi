# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy.typing as npt
import torch
from torch.nn.utils.rnn import PackedSequence

from lodcli.formats.loading.batches_torch import Batches as Batches
from lodcli.formats.loading.dataset_torch import Batch as Batch
from lodcli.formats.loading.dataset_torch import Collate as Collate
from lodcli.formats.loading.dataset_torch import Dataset as Dataset
from lodcli.formats.loading.dataset_torch import collate as collate
from lodcli.formats.loading.samplers import BatchSampler as BatchSampler
from lodcli.kernels.tensor.exchange.torch import Varlen as Varlen
from lodcli.kernels.tensor.lod_tensor import LoDTensor as LoDTensor
from lodcli.kernels.torch.rnn import GRU as GRU
from lodcli.kernels.torch.rnn import LSTM as LSTM
from lodcli.kernels.torch.rnn import RNN as RNN
from lodcli.kernels.torch.rnn import replace as replace
from lodcli.kernels.torch.rnn import restore as restore

_Padded = tuple[torch.Tensor, npt.ArrayLike]
_Torch = torch.Tensor | PackedSequence | Varlen | _Padded
_Ragged = _Torch | LoDTensor
_Either = torch.Tensor | LoDTensor
_Given = TypeVar(
    "_Given", torch.Tensor, LoDTensor, PackedSequence, Varlen, _Padded, _Either, _Ragged
)

def add(tensor: _Given, other: _Ragged, *, level: int = -1) -> _Given: ...
def attention(
    q: _Given,
    k: _Ragged,
    v: _Ragged,
    *,
    causal: bool = False,
    align: str = "last",
    scale: float | None = None,
    level: int = -1,
) -> _Given: ...
def concat(tensors: Sequence[_Given]) -> _Given: ...
def conv(
    tensor: _Given,
    weight: torch.Tensor | npt.ArrayLike,
    *,
    context_length: int,
    context_start: int,
    stride: int = 1,
    padding: torch.Tensor | npt.ArrayLike | None = None,
    level: int | None = None,
) -> _Given: ...
def cumprod(
    tensor: _Given,
    *,
    level: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
) -> _Given: ...
def cumsum(
    tensor: _Given,
    *,
    level: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
) -> _Given: ...
def deinterleave(tensor: _Given, count: int, *, level: int = 0) -> Sequence[_Given]: ...
def diff(
    tensor: _Given,
    lag: int = 1,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> _Given: ...
def div(tensor: _Given, other: _Ragged, *, level: int = -1) -> _Given: ...
@overload
def dot(a: LoDTensor, b: LoDTensor, *, level: int = -1) -> LoDTensor: ...
@overload
def dot(a: _Torch, b: _Torch, *, level: int = -1) -> torch.Tensor: ...
def expand(x: _Given, y: _Ragged, *, ref_level: int = -1) -> _Given: ...
def expand_as(x: _Ragged, y: _Given, *, level: int | None = None) -> _Given: ...
@overload
def first(tensor: LoDTensor, *, level: int = -1, pad_value: float | None = None) -> LoDTensor: ...
@overload
def first(tensor: _Torch, *, level: int = -1, pad_value: float | None = None) -> torch.Tensor: ...
def im2sequence(
    images: _Given,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
) -> _Given: ...
def interleave(tensors: Sequence[_Given], *, level: int = 0) -> _Given: ...
@overload
def last(tensor: LoDTensor, *, level: int = -1, pad_value: float | None = None) -> LoDTensor: ...
@overload
def last(tensor: _Torch, *, level: int = -1, pad_value: float | None = None) -> torch.Tensor: ...
def layer_norm(
    tensor: _Given,
    *,
    weight: torch.Tensor | npt.ArrayLike | None = None,
    bias: torch.Tensor | npt.ArrayLike | None = None,
    epsilon: float = 1e-05,
) -> _Given: ...
def linear_scan(
    a: _Ragged,
    b: _Given,
    *,
    initial: torch.Tensor | npt.ArrayLike | None = None,
    reverse: bool = False,
    level: int = -1,
) -> _Given: ...
def log_softmax(tensor: _Given, *, level: int = -1) -> _Given: ...
@overload
def max(tensor: LoDTensor, *, level: int = -1, pad_value: float | None = None) -> LoDTensor: ...
@overload
def max(tensor: _Torch, *, level: int = -1, pad_value: float | None = None) -> torch.Tensor: ...
@overload
def max_index(
    tensor: LoDTensor,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> tuple[LoDTensor, LoDTensor]: ...
@overload
def max_index(
    tensor: _Torch,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def mean(tensor: LoDTensor, *, level: int = -1, pad_value: float = 0) -> LoDTensor: ...
@overload
def mean(tensor: _Torch, *, level: int = -1, pad_value: float = 0) -> torch.Tensor: ...
def merge_by_mask(true: _Given, false: _Ragged, mask: torch.Tensor | npt.ArrayLike) -> _Given: ...
@overload
def min(tensor: LoDTensor, *, level: int = -1, pad_value: float | None = None) -> LoDTensor: ...
@overload
def min(tensor: _Torch, *, level: int = -1, pad_value: float | None = None) -> torch.Tensor: ...
@overload
def min_index(
    tensor: LoDTensor,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> tuple[LoDTensor, LoDTensor]: ...
@overload
def min_index(
    tensor: _Torch,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def mul(tensor: _Given, other: _Ragged, *, level: int = -1) -> _Given: ...
@overload
def pad(
    tensor: LoDTensor,
    *,
    pad_value: torch.Tensor | npt.ArrayLike = 0,
    maxlen: int = -1,
    pad_to_multiple: int = 1,
    truncate: bool = False,
    level: int | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
@overload
def pad(
    tensor: _Torch,
    *,
    pad_value: torch.Tensor | npt.ArrayLike = 0,
    maxlen: int = -1,
    pad_to_multiple: int = 1,
    truncate: bool = False,
    level: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def reorder_by_rank(tensor: _Given, table: torch.Tensor | npt.ArrayLike) -> _Given: ...
def reshape(tensor: _Given, new_dim: int, *, level: int | None = None) -> _Given: ...
def reverse(tensor: _Given, *, level: int = -1, items: bool = False) -> _Given: ...
def rms_norm(
    tensor: _Given,
    *,
    weight: torch.Tensor | npt.ArrayLike | None = None,
    epsilon: float = 1e-05,
) -> _Given: ...
def row_conv(
    tensor: _Given,
    weight: torch.Tensor | npt.ArrayLike,
    *,
    level: int = -1,
) -> _Given: ...
def scatter(x: _Given, ids: _Ragged, updates: _Ragged, *, level: int = -1) -> _Given: ...
def shift(
    tensor: _Given,
    lag: int = 1,
    *,
    level: int = -1,
    pad_value: float | None = None,
) -> _Given: ...
def slice(
    tensor: _Given,
    offset: torch.Tensor | npt.ArrayLike,
    length: torch.Tensor | npt.ArrayLike,
    *,
    level: int | None = None,
) -> _Given: ...
def softmax(tensor: _Given, *, level: int = -1) -> _Given: ...
def sort(tensor: _Given, *, level: int = -1, descending: bool = False) -> _Given: ...
def sort_by_length(tensor: _Given, level: int = 0) -> _Given: ...
def split_by_mask(
    tensor: _Given,
    mask: torch.Tensor | npt.ArrayLike,
    level: int = 0,
) -> tuple[_Given, _Given]: ...
@overload
def sqrt(tensor: LoDTensor, *, level: int = -1, pad_value: float = 0) -> LoDTensor: ...
@overload
def sqrt(tensor: _Torch, *, level: int = -1, pad_value: float = 0) -> torch.Tensor: ...
def sub(tensor: _Given, other: _Ragged, *, level: int = -1) -> _Given: ...
@overload
def sum(tensor: LoDTensor, *, level: int = -1, pad_value: float = 0) -> LoDTensor: ...
@overload
def sum(tensor: _Torch, *, level: int = -1, pad_value: float = 0) -> torch.Tensor: ...
def topk(
    tensor: _Given,
    k: torch.Tensor | npt.ArrayLike,
    *,
    level: int = -1,
    largest: bool = True,
) -> tuple[_Given, _Given]: ...
def truncate(tensor: _Given, length: int, *, keep: str = "first", level: int = -1) -> _Given: ...
def unpad(
    padded: torch.Tensor | npt.ArrayLike,
    lengths: torch.Tensor | npt.ArrayLike,
) -> torch.Tensor: ...
def windows(
    tensor: _Given,
    length: int,
    *,
    stride: int = 1,
    tail: str = "drop",
    head: str = "drop",
    level: int = -1,
) -> _Given: ...

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Batch",
    "BatchSampler",
    "Batches",
    "Collate",
    "Dataset",
    "Varlen",
    "collate",
    "replace",
    "restore",
]
