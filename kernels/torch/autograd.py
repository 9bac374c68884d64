"""Autograd functions on NumPy views of torch's memory: an RNN, and gather and scatter of rows.

`torch.set_num_threads` and LOD_THREADS both limit the threads.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.stack.stack import (
    RNNWeights,
    StackGradients,
    StackTape,
    stack_backward,
    stack_forward,
)
from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.tensor.exchange.torch import rows_to_torch, shared_with_torch

# Makes the weights of one layer in one direction from its arrays, in torch's order.
MakeCell = Callable[[Sequence[Array]], LayerWeights]


def run_layers(
    rows: torch.Tensor,
    offsets: Offsets,
    weights: Sequence[Sequence[Sequence[torch.Tensor]]],
    states: tuple[torch.Tensor | None, ...],
    make: MakeCell,
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of the last layer, the last hidden states, and last cell states if any.

    Args:
        rows: (N, D), float32 or float64, in main memory.
        offsets: (S+1,) int64, in rows.
        weights: arrays by layer and direction, in the dtype of the rows.
        states: initial hidden states and, of an LSTM, cell states; None is zeros.
        make: makes the weights of one cell; the same object for the same kind and options.
    """
    flat = [array for layer in weights for direction in layer for array in direction]
    hidden, cell = (*states, None)[:2]
    wanted = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (rows, hidden, cell, *flat)
    )
    shape = len(weights), len(weights[0]), len(weights[0][0])
    found: tuple[torch.Tensor, ...] = _Layers.apply(  # type: ignore[no-untyped-call]
        rows, hidden, cell, offsets, make, shape, wanted, *flat
    )
    return found


_is_batched: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor
# Whether a backward pass keeps its graph, and the hooks of saved tensors, if there are any. Both
# are private in torch: without them, a tape lives as long as its graph.
_keeps_graph: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)
_hooks: Callable[[bool], object] = getattr(
    torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None
)


@lru_cache(maxsize=64)
def _checked(
    make: MakeCell, shape: tuple[int, int, int], shapes: tuple[tuple[int, ...], ...]
) -> RNNWeights:
    """Return weights of these shapes, which are checked, with arrays that take no memory."""
    layers, directions, arrays = shape
    parts = [np.broadcast_to(np.float32(0), each) for each in shapes]
    cells = [make(parts[i : i + arrays]) for i in range(0, len(parts), arrays)]
    return RNNWeights(
        tuple(tuple(cells[i : i + directions]) for i in range(0, layers * directions, directions))
    )


class _Layers(torch.autograd.Function):
    """`stack_forward` and `stack_backward` as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        hidden: torch.Tensor | None,
        cell: torch.Tensor | None,
        offsets: Offsets,
        make: MakeCell,
        shape: tuple[int, int, int],
        keep: bool,
        *flat: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        parts = [_numbers(array) for array in flat]
        weights = _checked(make, shape, tuple([part.shape for part in parts]))
        rest = iter(parts)
        weights = weights.like(
            lambda one: one.with_arrays(dict(zip(one.arrays(), rest, strict=False)))
        )
        result = stack_forward(
            _numbers(rows),
            offsets,
            weights,
            initial_hidden=None if hidden is None else _numbers(hidden),
            initial_cell=None if cell is None else _numbers(cell),
            keep=keep,
            threads=threads(),
        )
        if keep:
            # The tape refers to their memory. Saved tensors let torch detect in-place changes.
            given = rows, hidden, cell, *flat
            ctx.count, ctx.tape = len(given), result.tape
            buffers: list[torch.Tensor] = []
            if _hooks(True) is not None:
                # torch.utils.checkpoint drops what is saved, and computes it again; others move it.
                ctx.tape, buffers = _divided(result.tape)
            ctx.save_for_backward(*given, *buffers)
            ctx.set_materialize_grads(False)
        found = result.outputs, result.last_hidden, result.last_cell
        return tuple(rows_to_torch(each) for each in found if each is not None)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors  # raises if one was written to, or the graph was used up
        saved, arrays = saved[: ctx.count], saved[ctx.count :]
        tape = ctx.tape if isinstance(ctx.tape, StackTape) else _joined(ctx.tape, arrays)
        if not _keeps_graph():  # a loss that the caller keeps would keep the tape
            ctx.tape = None
        if any(grad is not None and _is_batched(grad) for grad in grads):
            raise UnsupportedError(
                "LSTM, GRU and RNN of lodcli.torch: gradients in batches are not supported; call "
                "autograd without is_grads_batched=True, jacobian without vectorize=True"
            )
        rows, hidden, cell, *_ = ctx.needs_input_grad
        outputs, last_hidden, last_cell = (
            None if grad is None else _numbers(grad) for grad in (*grads, None)[:3]
        )
        found = stack_backward(
            tape,
            grad_outputs=outputs,
            grad_last_hidden=last_hidden,
            grad_last_cell=last_cell,
            input_gradient=rows,
            threads=threads(),
        )
        gradients = (
            None if found.input is None else rows_to_torch(found.input),
            rows_to_torch(found.initial_hidden) if hidden else None,
            rows_to_torch(found.initial_cell) if cell and found.initial_cell is not None else None,
            *(None,) * 4,
            *_by_weight(found),
        )
        if not torch.is_grad_enabled():
            return gradients
        return _First.apply(gradients, *grads, *saved)  # type: ignore[no-untyped-call]


def _divided(tape: StackTape) -> tuple[bytes, list[torch.Tensor]]:
    """Return a tape as bytes without its arrays, and these as tensors of bytes, not copied."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(tape, protocol=5, buffer_callback=buffers.append)
    return rest, [shared_with_torch(np.frombuffer(each.raw(), np.uint8)) for each in buffers]


def _joined(rest: bytes, arrays: Sequence[torch.Tensor]) -> StackTape:
    found: StackTape = pickle.loads(rest, buffers=[_numbers(each) for each in arrays])
    return found


class _First(torch.autograd.Function):
    """First derivatives of layers: their derivative is an error.

    Not once_differentiable(), which returns constants if the gradient of the outputs is constant.
    `given` is all that they depend on: without it in the graph, torch takes the derivative for 0.
    """

    @staticmethod
    def forward(
        ctx: Any, gradients: tuple[torch.Tensor | None, ...], *given: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        return gradients

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise UnsupportedError(
            "LSTM, GRU and RNN of lodcli.torch: second derivatives are not supported; "
            "lodcli.torch.restore(model) makes its layers those of torch, which have them"
        )


def _by_weight(found: StackGradients[Array | None]) -> list[torch.Tensor]:
    return [
        rows_to_torch(array)
        for layer in found.weights.layers
        for direction in layer
        for array in direction.arrays().values()
    ]


def _numbers(values: torch.Tensor) -> Array:
    array: Array = values.detach().numpy(force=True)
    return array


def refuse_transforms(name: str, *given: Any) -> None:
    """Raise UnsupportedError if torch.func or forward-mode differentiation tracks an argument.

    Not left to torch, in which a custom op returns a tangent of zeros.
    """
    if torch.compiler.is_compiling():  # which cannot trace the rest
        return
    active = torch._C._are_functorch_transforms_active()
    if (active or forward_ad._current_level >= 0) and any(map(_is_transformed, _tensors(given))):
        raise UnsupportedError(
            f"{name}: transforms of torch.func (grad, vmap, jvp, ..) and forward-mode "
            "differentiation are not supported; call backward() or torch.autograd.grad"
        )


def _is_transformed(values: torch.Tensor) -> bool:
    if torch._C._functorch.is_functorch_wrapped_tensor(values):
        return True
    return forward_ad.unpack_dual(values).tangent is not None  # type: ignore[no-untyped-call]


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given.values() if given.is_nested else given
    elif isinstance(given, tuple | list):
        for each in given:
            yield from _tensors(each)


def threads() -> int:
    """Return the number of threads that both torch and LOD_THREADS allow."""
    return min(torch.get_num_threads(), thread_count())


def gather(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return rows[places], with unique places: (N, ...) and (M,) to (M, ...).

    Not by indexing: its gradient adds row by row, with one thread.
    """
    if not (rows.requires_grad and torch.is_grad_enabled()):
        return rows.index_select(0, places)
    found: torch.Tensor = _Gather.apply(rows, places)  # type: ignore[no-untyped-call]
    return found


def scatter(rows: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
    """Return rows at unique places, zeros elsewhere: (M, ...) and (M,) to (size, ...)."""
    found: torch.Tensor = _Scatter.apply(rows, places, size)  # type: ignore[no-untyped-call]
    return found


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.size = len(rows)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (places,) = ctx.saved_tensors
        return scatter(grad, places, ctx.size), None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
        ctx.save_for_backward(places)
        return rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (places,) = ctx.saved_tensors
        return gather(grad, places), None, None


def indices(places: Offsets, like: torch.Tensor) -> torch.Tensor:
    """Return places as a torch tensor on the device of `like`."""
    return rows_to_torch(places).to(like.device)
