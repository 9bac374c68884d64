"""Conversion of torch's forms of sequences to rows and offsets as torch tensors, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import offsets_to_lengths
from lodcli.kernels.tensor.exchange.torch import Varlen, require_tensors, step_order
from lodcli.kernels.torch.autograd import gather, indices, scatter
from lodcli.kernels.torch.sequences import FROM_LIST, sequences

Make = Callable[[torch.Tensor, torch.Tensor], Any]


@dataclass(frozen=True)
class Ragged:
    """Rows with at most one level.

    Attributes:
        rows: (N, ..), sequence by sequence; tracked by autograd.
        offsets: (S+1,); None for a dense tensor.
        back: converts rows under the same offsets to the form that was given.
        make: converts rows and offsets to the form that was given.
    """

    rows: torch.Tensor
    offsets: torch.Tensor | None
    back: Callable[[torch.Tensor], Any]
    make: Make


def ragged(values: Any, name: str) -> Ragged:
    """Return the rows and offsets of a nested tensor, a PackedSequence, a Varlen, or a pair of a
    padded tensor, (B, T, ..), and lengths; a dense tensor has rows without offsets.

    Raises:
        InvalidDataError: none of these.
        UnsupportedError: a nested tensor that is not jagged in its second dimension.
    """
    if isinstance(values, torch.Tensor) and not values.is_nested:
        return Ragged(values, None, _same, jagged)
    plain = isinstance(values, torch.Tensor) and values.layout == torch.jagged
    if plain and values.lengths() is None and values._ragged_idx == 1:
        rows, offsets = values.values(), values.offsets()
        # With the same offsets tensor, so that torch treats both shapes as equal.
        return Ragged(rows, offsets, lambda found: jagged(found, offsets), jagged)
    if isinstance(values, Varlen):
        return _of_varlen(values)
    # torch.compile would trace its NumPy code.
    read = _not_compiled if "torch._dynamo" in sys.modules else _others
    found: Ragged = read(values, name)
    return found


def jagged(rows: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return a nested tensor over rows."""
    return torch.nested.nested_tensor_from_jagged(rows, offsets)


def varlen(rows: torch.Tensor, offsets: torch.Tensor) -> Varlen:
    """Return rows with cu_seqlens."""
    lengths = offsets.diff()
    return Varlen(rows, offsets.to(torch.int32), int(lengths.max()) if len(lengths) else 0)


def _of_varlen(values: Varlen) -> Ragged:
    require_tensors(values)
    rows, starts, longest = values
    return Ragged(
        rows, starts.to(torch.int64), lambda found: Varlen(found, starts, longest), varlen
    )


def _same(rows: torch.Tensor) -> torch.Tensor:
    return rows


def _others(values: Any, name: str) -> Ragged:
    lengths = None
    if isinstance(values, tuple | list) and not isinstance(values, PackedSequence):
        if len(values) != 2 or not isinstance(values[0], torch.Tensor):
            raise InvalidDataError(
                f"{name}: expected a nested tensor, or a padded tensor and lengths as a pair; "
                f"{FROM_LIST}"
            )
        values, lengths = values
        if values.is_nested or values.dim() < 2:
            raise InvalidDataError(
                f"{name}: expected a padded tensor (B, T, ..) beside lengths; {FROM_LIST}"
            )
    elif not isinstance(values, PackedSequence | torch.Tensor):
        raise InvalidDataError(
            f"{name}: expected a tensor of torch, a PackedSequence, a pair of a padded tensor and "
            f"lengths, or a LoDTensor, found {type(values).__name__}"
        )
    if lengths is not None:
        return _of_padded(values, lengths)
    given = sequences(values, None, batch_first=True)
    make = packed if isinstance(values, PackedSequence) else jagged
    return Ragged(given.rows, indices(given.offsets, given.rows), given.back, make)


def _of_padded(values: torch.Tensor, lengths: Any) -> Ragged:
    # Not reshape(.., -1), which cannot infer the width if there are no rows.
    trailing = values.shape[2:]
    flat = values.flatten(2) if trailing else values.unsqueeze(2)
    given = sequences(flat, lengths, batch_first=True)

    def back(found: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return given.back(found), lengths

    rows = given.rows.reshape(given.rows.shape[0], *trailing)
    return Ragged(rows, indices(given.offsets, rows), back, padded)


def padded(rows: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows as a padded tensor, (B, T, ..), and the lengths."""
    lengths = offsets.diff()
    count, steps = len(lengths), int(lengths.max()) if len(lengths) else 0
    there = torch.arange(steps, device=rows.device) < lengths[:, None]
    places = there.flatten().nonzero().flatten()
    return scatter(rows, places, count * steps).reshape(count, steps, *rows.shape[1:]), lengths


def packed(rows: torch.Tensor, offsets: torch.Tensor) -> PackedSequence:
    """Return rows as a PackedSequence, in the order of the batch.

    Raises:
        InvalidDataError: an empty sequence.
    """
    bounds = offsets.numpy(force=True)
    lengths = offsets_to_lengths(bounds)
    if not lengths.size or lengths.min() < 1:
        raise InvalidDataError("a PackedSequence holds no empty sequence, and at least one")
    order = np.argsort(-lengths, kind="stable")
    places, steps = step_order(bounds, order)
    return PackedSequence(
        gather(rows, indices(places, rows)),
        torch.from_numpy(offsets_to_lengths(steps)),
        indices(order, rows),
        indices(np.argsort(order), rows),
    )


_not_compiled: Any = torch._disable_dynamo(_others)  # type: ignore[attr-defined]
