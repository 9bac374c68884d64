"""torch's LSTM, GRU and RNN over sequences of any lengths, without padding or sorting them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Array, offsets_to_lengths
from lodcli.kernels.rnn.cells.registry import weights_class
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.tensor.exchange.torch import Varlen, step_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.torch.autograd import (
    MakeCell,
    gather,
    indices,
    refuse_transforms,
    run_layers,
)
from lodcli.kernels.torch.sequences import Sequences, sequences

Model = TypeVar("Model", bound=torch.nn.Module)
States = tuple[torch.Tensor, ...]
_OWN_DTYPES = (torch.float32, torch.float64)


class _Ragged(torch.nn.RNNBase):
    """A layer of torch that takes sequences in any form and returns outputs in the same form."""

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Any, Any]:
        """Return the outputs, in the form of the input, and the last states.

        Args:
            input: a nested tensor of the jagged layout, a PackedSequence, a Varlen, a LoDTensor,
                or a padded tensor; sequences may be empty, but for a PackedSequence.
            hx: initial states as torch takes them, in the order of the batch; None is zeros.
            lengths: rows of each sequence of a padded tensor; outputs beyond are zeros.

        The last states of an empty sequence are its initial ones. The outputs of a LoDTensor
        are not tracked by autograd; its last states are.

        Raises:
            InvalidDataError, ShapeMismatchError: an argument is wrong, or does not fit.
            UnsupportedError: torch.export or torch.jit.trace, of sequences that are not dense.
        """
        if _is_exporting():  # a trace would record the results as constants
            nested = isinstance(input, torch.Tensor) and input.is_nested
            if lengths is not None or nested or isinstance(input, Varlen | LoDTensor):
                what = "lengths=" if lengths is not None else type(input).__name__
                raise UnsupportedError(
                    f"{type(self).__name__}: torch.export, torch.onnx.export and torch.jit.trace "
                    f"support a layer over a dense tensor only, found {what}"
                )
            exported: tuple[Any, Any] = super().forward(input, hx)
            return exported
        # Not torch.compiler.is_compiling(): it is false after the compiler has skipped an RNN.
        run = _not_compiled if "torch._dynamo" in sys.modules else _Ragged._forward
        found: tuple[Any, Any] = run(self, input, hx, lengths)
        return found

    def _forward(self, input: Any, hx: Any, lengths: Any) -> tuple[Any, Any]:
        dense = isinstance(input, torch.Tensor) and not input.is_nested and lengths is None
        tensor = input.data if isinstance(input, PackedSequence) else input
        own = None
        if dense or isinstance(input, PackedSequence):
            own = self._own_weights(tensor)
            if own is None:
                found: tuple[Any, Any] = super().forward(input, hx)
                return found
        refuse_transforms(type(self).__name__, input, hx, own or list(self.parameters()))
        given = sequences(input, lengths, self.batch_first)
        rows, count = given.rows, len(given.offsets) - 1
        if rows.dim() != 2 or rows.shape[1] != self.input_size:
            raise ShapeMismatchError(
                f"input: expected rows of {self.input_size} values, found {tuple(rows.shape[1:])}"
            )
        weights = self.weight_ih_l0.dtype
        if rows.dtype != weights and not torch.is_autocast_enabled(rows.device.type):
            layer = (
                f", or the layer with layer.to({rows.dtype})" if rows.is_floating_point() else ""
            )
            raise ShapeMismatchError(
                f"input: expected {weights}, the dtype of the weights, found {rows.dtype}; convert "
                f"the input{layer}"
            )
        if (device := self.weight_ih_l0.device) != rows.device:
            raise ShapeMismatchError(
                f"input: expected the device {device} of the weights, found {rows.device}; move "
                f"the input, or the layer with layer.to({str(rows.device)!r})"
            )
        states = self._checked_states(hx, rows, count, given.batched)
        own = own or self._own_weights(rows)
        run = self._run_by_torch if own is None else partial(self._run, own)
        outputs, *last = run(given, states)
        if not given.batched:
            last = [each.squeeze(1) for each in last]
        return given.back(outputs), tuple(last) if self.mode == "LSTM" else last[0]

    def _own_weights(self, rows: torch.Tensor) -> Sequence[Sequence[torch.Tensor]] | None:
        """Return the weights of each cell if lod's RNN engine computes this; None if torch does."""
        dtype, device = rows.dtype, rows.device
        if device.type != "cpu" or dtype not in _OWN_DTYPES or self.proj_size:
            return None
        cells = self.all_weights
        for cell in cells:
            for each in cell:
                if each.dtype != dtype or each.device != device:
                    return None
        return cells

    def _checked_states(
        self, hx: Any, rows: torch.Tensor, count: int, batched: bool
    ) -> tuple[torch.Tensor | None, ...]:
        pair = self.mode == "LSTM"
        if hx is None:
            return (None, None) if pair else (None,)
        if pair and not (isinstance(hx, tuple | list) and len(hx) == 2):
            raise InvalidDataError("hx: expected a pair of hidden and cell states")
        directions = 2 if self.bidirectional else 1
        found = []
        sizes = self.proj_size or self.hidden_size, self.hidden_size
        for each, size in zip(hx if pair else (hx,), sizes, strict=False):
            if not isinstance(each, torch.Tensor):
                raise InvalidDataError(f"hx: expected a tensor, found {type(each).__name__}")
            state = each if batched else each.unsqueeze(1)
            shape = self.num_layers * directions, count, size
            if state.shape != shape or state.dtype != rows.dtype:
                raise ShapeMismatchError(
                    f"hx: expected shape {shape} of {rows.dtype}, "
                    f"found {tuple(state.shape)} of {state.dtype}"
                )
            if state.device != rows.device:
                raise ShapeMismatchError(
                    f"hx: expected the device {rows.device} of the input, found {state.device}"
                )
            found.append(state)
        return tuple(found)

    def _run(
        self,
        cells: Sequence[Sequence[torch.Tensor]],
        given: Sequences,
        states: tuple[torch.Tensor | None, ...],
    ) -> States:
        directions, make = 2 if self.bidirectional else 1, _maker(self.mode)
        layers = [cells[i : i + directions] for i in range(0, len(cells), directions)]
        if not (self.dropout and self.training):
            return run_layers(given.rows, given.offsets, layers, states, make)
        rows, last = given.rows, []
        for number, layer in enumerate(layers):
            if number:
                rows = torch.nn.functional.dropout(rows, self.dropout)
            part = slice(number * directions, (number + 1) * directions)
            here = tuple(None if each is None else each[part] for each in states)
            rows, *after = run_layers(rows, given.offsets, [layer], here, make)
            last.append(after)
        return rows, *(torch.cat(each) for each in zip(*last, strict=True))

    def _run_by_torch(self, given: Sequences, states: tuple[torch.Tensor | None, ...]) -> States:
        """Run torch's implementation on a PackedSequence of the sequences that are not empty."""
        rows, lengths = given.rows, offsets_to_lengths(given.offsets)
        size, width = self.proj_size or self.hidden_size, 2 if self.bidirectional else 1
        initial = [
            rows.new_zeros(self.num_layers * width, lengths.size, each) if state is None else state
            for state, each in zip(states, (size, self.hidden_size), strict=False)
        ]
        order = np.argsort(-lengths, kind="stable")
        there, bounds = step_order(given.offsets, order)
        places, _ = step_order(given.offsets, order, back=True)
        order = order[lengths[order] > 0]
        if not order.size:
            return rows.new_zeros(0, size * width), *initial
        packed = PackedSequence(
            gather(rows, indices(there, rows)), torch.from_numpy(offsets_to_lengths(bounds))
        )
        picked = indices(order, rows)
        begin = [each.index_select(1, picked) for each in initial]
        outputs, last = super().forward(packed, tuple(begin) if len(begin) == 2 else begin[0])
        ended = last if len(begin) == 2 else (last,)
        return gather(outputs.data, indices(places, rows)), *(
            before.index_copy(1, picked, after)
            for before, after in zip(initial, ended, strict=True)
        )


def _is_exporting() -> bool:
    """Return whether torch traces a layer for export: it supports only its own implementation."""
    if torch._C._is_tracing():  # also torch.onnx.export(dynamo=False)
        return True
    known = getattr(torch.compiler, "is_exporting", None)  # not in torch 2.5
    return known is not None and known()


# A graph break for torch.compile, which compiles nothing below. Not torch.compiler.disable, which
# imports the compiler immediately: that takes a second.
_not_compiled: Any = torch._disable_dynamo(_Ragged._forward)  # type: ignore[attr-defined]


@cache
def _maker(mode: str) -> MakeCell:
    """Return a function that makes the weights of a cell of a mode of torch, such as RNN_TANH."""
    name = "elman" if mode.startswith("RNN") else mode.lower()
    options = {"nonlinearity": mode[4:].lower()} if name == "elman" else {}
    return partial(_cell, weights_class(name), options)


def _cell(
    kind: type[LayerWeights], options: dict[str, Any], arrays: Sequence[Array]
) -> LayerWeights:
    fields: dict[str, Any] = dict(zip(kind.names(), arrays, strict=False))
    return kind(**fields, **options)


class LSTM(_Ragged, torch.nn.LSTM):
    """torch.nn.LSTM, with its arguments, names and state dict, over sequences of any lengths.

    >>> layer = LSTM(3, 4)
    >>> jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(0, 3)],
    ...                                     layout=torch.jagged)
    >>> outputs, (hidden, cell) = layer(jagged)
    >>> outputs.values().shape, hidden.shape
    (torch.Size([2, 4]), torch.Size([1, 2, 4]))
    """


class GRU(_Ragged, torch.nn.GRU):
    """torch.nn.GRU, with its arguments, names and state dict, over sequences of any lengths."""


class RNN(_Ragged, torch.nn.RNN):
    """torch.nn.RNN, with its arguments, names and state dict, over sequences of any lengths."""


_TWINS: dict[type[torch.nn.Module], type[torch.nn.Module]] = {
    torch.nn.LSTM: LSTM,
    torch.nn.GRU: GRU,
    torch.nn.RNN: RNN,
}
for _layer in (LSTM, GRU, RNN):
    _layer.__module__ = "lodcli.torch"  # the name that pickles hold


def replace(model: Model) -> Model:
    """Make every LSTM, GRU and RNN of a model one of this module, and return the model.

    Parameters, hooks and options stay the same objects, so an optimizer stays valid.
    Classes derived from torch's are left alone.

    >>> model = torch.nn.ModuleDict({"words": torch.nn.GRU(3, 4)})
    >>> type(replace(model)["words"]).__module__
    'lodcli.torch'
    >>> type(restore(model)["words"]).__module__
    'torch.nn.modules.rnn'
    """
    return _exchanged(model, _TWINS)


def restore(model: Model) -> Model:
    """Make every layer that `replace` changed one of torch again, and return the model."""
    return _exchanged(model, {ours: theirs for theirs, ours in _TWINS.items()})


def _exchanged(model: Model, twins: dict[type[torch.nn.Module], type[torch.nn.Module]]) -> Model:
    if not isinstance(model, torch.nn.Module):
        raise InvalidDataError(f"model: expected a torch.nn.Module, found {type(model).__name__}")
    for module in model.modules():
        if type(module) in twins:
            module.__class__ = twins[type(module)]
    return model
