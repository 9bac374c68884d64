# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from collections.abc import Sequence
from typing import Any, TypeVar

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

Padded = tuple[torch.Tensor, npt.ArrayLike]
Ragged = torch.Tensor | LoDTensor | PackedSequence | Varlen | Padded
Given = TypeVar("Given", torch.Tensor, LoDTensor, PackedSequence, Varlen, Padded)

def add(tensor: Given, other: Ragged, *, level: int = -1) -> Given: ...
def attention(
    q: Given,
    k: Ragged,
    v: Ragged,
    *,
    causal: bool = False,
    align: str = "last",
    scale: float | None = None,
    level: int = -1,
) -> Given: ...
def concat(tensors: Sequence[Ragged]) -> Any: ...
def conv(
    tensor: Ragged,
    weight: torch.Tensor | npt.ArrayLike,
    *,
    context_length: int,
    context_start: int,
    stride: int = 1,
    padding: torch.Tensor | npt.ArrayLike | None = None,
    level: int | None = None,
) -> Any: ...
def cumprod(
    tensor: Given,
    *,
    level: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
) -> Given: ...
def cumsum(
    tensor: Given,
    *,
    level: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
) -> Given: ...
def deinterleave(tensor: Ragged, count: int, *, level: int = 0) -> Any: ...
def div(tensor: Given, other: Ragged, *, level: int = -1) -> Given: ...
def dot(a: Ragged, b: Ragged, *, level: int = -1) -> Any: ...
def expand(x: Ragged, y: Ragged, *, ref_level: int = -1) -> Any: ...
def expand_as(x: Ragged, y: Given, *, level: int | None = None) -> Given: ...
def first(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def im2sequence(
    images: Ragged,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
) -> Any: ...
def interleave(tensors: Sequence[Ragged], *, level: int = 0) -> Any: ...
def last(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def layer_norm(
    tensor: Given,
    *,
    weight: torch.Tensor | npt.ArrayLike | None = None,
    bias: torch.Tensor | npt.ArrayLike | None = None,
    epsilon: float = 1e-05,
) -> Given: ...
def linear_scan(
    a: Ragged,
    b: Given,
    *,
    initial: torch.Tensor | npt.ArrayLike | None = None,
    reverse: bool = False,
    level: int = -1,
) -> Given: ...
def log_softmax(tensor: Given, *, level: int = -1) -> Given: ...
def max(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def max_index(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def mean(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def merge_by_mask(true: Ragged, false: Ragged, mask: torch.Tensor | npt.ArrayLike) -> Any: ...
def min(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def min_index(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def mul(tensor: Given, other: Ragged, *, level: int = -1) -> Given: ...
def pad(
    tensor: Ragged,
    *,
    pad_value: torch.Tensor | npt.ArrayLike = 0,
    maxlen: int = -1,
    pad_to_multiple: int = 1,
    truncate: bool = False,
    level: int | None = None,
) -> Any: ...
def reorder_by_rank(tensor: Ragged, table: torch.Tensor | npt.ArrayLike) -> Any: ...
def reshape(tensor: Ragged, new_dim: int, *, level: int | None = None) -> Any: ...
def reverse(tensor: Given, *, level: int = -1, items: bool = False) -> Given: ...
def rms_norm(
    tensor: Given,
    *,
    weight: torch.Tensor | npt.ArrayLike | None = None,
    epsilon: float = 1e-05,
) -> Given: ...
def row_conv(tensor: Given, weight: torch.Tensor | npt.ArrayLike, *, level: int = -1) -> Given: ...
def scatter(x: Ragged, ids: Ragged, updates: Ragged, *, level: int = -1) -> Any: ...
def slice(
    tensor: Ragged,
    offset: torch.Tensor | npt.ArrayLike,
    length: torch.Tensor | npt.ArrayLike,
    *,
    level: int | None = None,
) -> Any: ...
def softmax(tensor: Given, *, level: int = -1) -> Given: ...
def sort(tensor: Given, *, level: int = -1, descending: bool = False) -> Given: ...
def sort_by_length(tensor: Ragged, level: int = 0) -> Any: ...
def split_by_mask(tensor: Ragged, mask: torch.Tensor | npt.ArrayLike, level: int = 0) -> Any: ...
def sqrt(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def sub(tensor: Given, other: Ragged, *, level: int = -1) -> Given: ...
def sum(tensor: Ragged, *, level: int = -1, pad_value: float = 0) -> Any: ...
def topk(
    tensor: Ragged,
    k: torch.Tensor | npt.ArrayLike,
    *,
    level: int = -1,
    largest: bool = True,
) -> Any: ...
def truncate(tensor: Ragged, length: int, *, keep: str = "first", level: int = -1) -> Any: ...
def unpad(padded: torch.Tensor | npt.ArrayLike, lengths: torch.Tensor | npt.ArrayLike) -> Any: ...
def windows(
    tensor: Ragged,
    length: int,
    *,
    stride: int = 1,
    tail: str = "drop",
    level: int = -1,
) -> Any: ...

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
