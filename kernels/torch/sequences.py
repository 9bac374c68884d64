"""Conversion of torch's forms of sequences to rows and NumPy offsets, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Offsets, check_rows, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.torch import (
    Varlen,
    index_from_torch,
    packed_index,
    require_tensors,
    rows_from_torch,
    rows_to_torch,
    step_order,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.torch.autograd import gather, indices, scatter

FROM_LIST = "torch.nested.nested_tensor(list, layout=torch.jagged) makes one of a list of tensors"


@dataclass(frozen=True)
class Sequences:
    """The input of a layer.

    Attributes:
        rows: (N, D), sequence by sequence; tracked by autograd.
        offsets: (S+1,) int64, in rows.
        back: converts other rows, (N, ..), to the form that was given.
        batched: False for a single sequence, whose states have no batch axis.
    """

    rows: torch.Tensor
    offsets: Offsets
    back: Callable[[torch.Tensor], Any]
    batched: bool = True


def sequences(values: Any, lengths: Any, batch_first: bool) -> Sequences:
    """Return the rows of a nested tensor, PackedSequence, Varlen, LoDTensor or padded tensor.

    Args:
        values: one of these; dense, (T, D) for one sequence, (T, B, D), or (B, T, D).
        lengths: rows of each sequence of a padded tensor; None: all T.
        batch_first: whether the batch is the first axis of a padded tensor.

    Raises:
        InvalidDataError: none of these, or lengths that do not fit.
        UnsupportedError: a nested tensor that is not jagged in its second dimension.
    """
    padded = isinstance(values, torch.Tensor) and not values.is_nested
    if lengths is not None and not padded:
        raise InvalidDataError("lengths: only for a padded tensor; other forms store their own")
    if isinstance(values, PackedSequence):
        return _of_packed(values)
    if isinstance(values, Varlen):
        return _of_varlen(values)
    if isinstance(values, LoDTensor):
        return _of_lod_tensor(values)
    if not isinstance(values, torch.Tensor):
        raise InvalidDataError(
            "input: expected a tensor of torch, jagged or padded, a PackedSequence, a Varlen or "
            f"a LoDTensor, found {type(values).__name__}{_remedy(values)}"
        )
    return _of_padded(values, lengths, batch_first) if padded else _of_jagged(values)


def _remedy(values: Any) -> str:
    """Return how to give a layer a pair of a padded tensor and lengths, or a list of tensors."""
    if not isinstance(values, tuple | list):
        return ""
    if isinstance(values, tuple) and len(values) == 2:
        return "; the lengths of a padded tensor are given as lengths="
    return f"; {FROM_LIST}"


def _of_packed(values: PackedSequence) -> Sequences:
    offsets, order = packed_index(values)
    rows, _ = step_order(offsets, order)
    places, _ = step_order(offsets, order, back=True)
    there = indices(rows, values.data)

    def back(found: torch.Tensor) -> PackedSequence:
        return PackedSequence(
            gather(found, there), values.batch_sizes, values.sorted_indices, values.unsorted_indices
        )

    return Sequences(gather(values.data, indices(places, values.data)), offsets, back)


def _of_varlen(values: Varlen) -> Sequences:
    require_tensors(values)
    rows, starts, longest = values
    offsets = LoD([index_from_torch(starts, "cu_seqlens")]).levels[0]
    check_rows((offsets,), len(rows))
    return Sequences(rows, offsets, lambda found: Varlen(found, starts, longest))


def _of_lod_tensor(values: LoDTensor) -> Sequences:
    if not values.lod.n_levels:
        raise InvalidDataError("input: expected a LoDTensor with at least 1 level, found none")

    def back(found: torch.Tensor) -> LoDTensor:
        return LoDTensor(rows_from_torch(found.detach()), values.lod)

    return Sequences(rows_to_torch(values.data), values.lod.levels[-1], back)


def _of_jagged(values: Any) -> Sequences:
    if values.layout != torch.jagged:
        raise UnsupportedError(
            "input: a nested tensor of the strided layout; make it with layout=torch.jagged"
        )
    if getattr(values, "_ragged_idx", 1) != 1:
        raise UnsupportedError("input: the ragged dimension must be the second; transpose it back")
    rows, begin = values.values(), values.offsets()
    offsets = index_from_torch(begin, "offsets").astype(np.int64)
    if values.lengths() is not None:  # gaps between sequences
        lengths = index_from_torch(values.lengths(), "lengths").astype(np.int64)
        starts, offsets = offsets[: lengths.size], lengths_to_offsets(lengths, level=0)
        rows, begin = gather(rows, indices(ranges(starts, offsets), rows)), indices(offsets, rows)

    def back(found: torch.Tensor) -> torch.Tensor:
        # With the same offsets tensor, so that torch treats both shapes as equal.
        jagged: torch.Tensor = torch.nested.nested_tensor_from_jagged(found, begin)
        return jagged

    return Sequences(rows, offsets, back)


def _of_padded(values: torch.Tensor, given: Any, batch_first: bool) -> Sequences:
    if values.dim() not in (2, 3):
        raise ShapeMismatchError(
            f"input: expected 2 or 3 dimensions, found shape {tuple(values.shape)}"
        )
    batched = values.dim() == 3
    box = values if batched and batch_first else values.unsqueeze(0)
    if batched and not batch_first:
        box = values.transpose(0, 1)
    count, steps = box.shape[:2]
    lengths = np.full(count, steps)
    if given is not None:
        where = f", one for each sequence of axis {0 if batch_first else 1} of the input"
        lengths = _checked_lengths(given, count, steps, where if batched else "")
    offsets = lengths_to_offsets(lengths, level=0)
    flat = box.reshape(count * steps, *box.shape[2:])
    # Without padding, no copy of the rows is needed.
    places = None
    if offsets[-1] != count * steps:
        places = indices(ranges(np.arange(count) * steps, offsets), flat)

    def back(found: torch.Tensor) -> torch.Tensor:
        whole = found if places is None else scatter(found, places, count * steps)
        whole = whole.reshape(count, steps, *found.shape[1:])
        if not batched:
            return whole.squeeze(0)
        return whole if batch_first else whole.transpose(0, 1)

    return Sequences(flat if places is None else gather(flat, places), offsets, back, batched)


def _checked_lengths(given: Any, count: int, steps: int, axis: str) -> Offsets:
    """Return the lengths of padded sequences as an array.

    Args:
        given: the lengths.
        count: number of sequences.
        steps: number of steps.
        axis: of the sequences, for the message.

    Raises:
        InvalidDataError: not a whole number for each sequence, from 0 to the number of steps.
    """
    if isinstance(given, torch.Tensor):
        given = index_from_torch(given, "lengths")
    array = np.asarray(given)
    if array.shape != (count,) or (array.size and array.dtype.kind not in "iu"):
        raise InvalidDataError(
            f"lengths: expected {count} whole numbers{axis}, found shape {array.shape} of "
            f"{array.dtype}"
        )
    wrong = np.flatnonzero((array < 0) | (array > steps))
    if wrong.size:
        first = int(wrong[0])
        raise InvalidDataError(
            f"lengths: position {first}: expected 0 to {steps} rows, found {array[first]}"
        )
    return array.astype(np.int64)
