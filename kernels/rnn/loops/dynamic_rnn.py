"""An RNN with a custom step function, over sequences of any length, without padding.

Sort by length, cut into time steps, run the step on the sequences still alive, pack the outputs
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.reverse import ranges_backwards
from lodcli.kernels.tensor.exchange.rows import rows_of
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import STEP_LEVEL, IndexMap

# State carried from step to step: an array with one row per sequence, several, or None at first.
Memory = Array | tuple[Array, ...] | None
Step = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class DynamicOutput:
    """Result of a DynamicRNN.

    Attributes:
        all: the outputs, one for each item of the input, with the index of the input.
        last: the memory after each sequence's last step, (S, ...) in the order of the batch,
            in the form that the step returns; for an empty sequence its initial memory, or
            zeros if none was given.
    """

    all: LoDTensor
    last: Any


class DynamicRNN:
    """An RNN that calls `step(inputs, memory)`, which returns `(outputs, memory)`.

    It has no gradients.

    Args:
        step: called for each time step with the n sequences still alive, longest first. `inputs`
            is an array (n, ...), or on an upper level a LoDTensor of n items. `memory` is the one
            that the step before returned, cut to these sequences; at the first step that of the
            caller, or None. `outputs` must have n rows (or items), and the new `memory` must be an
            array (n, ...), a tuple of such arrays, or None.
        level: the level of the sequences, whose items are the steps.
        reverse: run from the last item of every sequence to the first.

    References:
        PaddlePaddle's "Design for TensorArray" and "Varient Length supported RNN Design".

    >>> from lodcli.kernels.index.lod import LoD
    >>> def add_up(x, total):
    ...     total = x if total is None else total + x
    ...     return total, total
    >>> words = LoDTensor(np.array([1.0, 2.0, 5.0, 1.0, 1.0]), LoD.from_lengths([[2, 3]]))
    >>> result = DynamicRNN(add_up)(words)
    >>> result.all.data.tolist(), result.last.tolist()
    ([1.0, 3.0, 5.0, 6.0, 7.0], [3.0, 7.0])
    """

    def __init__(self, step: Step, *, level: int | str = -1, reverse: bool = False) -> None:
        if not callable(step):
            raise InvalidDataError(
                "DynamicRNN: step: expected a function of (inputs, memory), found "
                f"{type(step).__name__}"
            )
        self._step = step
        self._level = level
        self._reverse = reverse

    def __call__(self, tensor: LoDTensor, memory: Memory = None) -> DynamicOutput:
        """Return the outputs of all steps and the memory after every sequence.

        Args:
            tensor: at least one level. NumPy rows, or rows on a GPU (cupy).
            memory: before the first step, (S, ...) in the order of the batch.

        Raises:
            InvalidDataError: the tensor has no level, or a step does not return a pair.
            ShapeMismatchError: outputs or memory do not have a row for each sequence alive, or
                the row shape of the memory changed.
            SelectionError: there is no such level.
        """
        if not isinstance(tensor, LoDTensor):
            # Not types_explained, which would hide an error of the step.
            raise InvalidDataError(
                f"DynamicRNN: tensor: expected a LoDTensor, found {type(tensor).__name__}; "
                "LoDTensor(rows, lengths) makes one"
            )
        if not tensor.lod.n_levels:
            raise InvalidDataError(
                "DynamicRNN: expected a tensor of at least one level, found none"
            )
        number = tensor.lod.level(self._level)
        if self._reverse:
            tensor = _turned(tensor, number)
        inputs, index_map = TensorArray.unpack(tensor, number, sort_by_length=True)
        initial = _mapped(memory, lambda part: _sorted(part, index_map))
        outputs, last = self._run(inputs, index_map, initial)
        packed = outputs.pack(number, index_map)
        if self._reverse:
            packed = _turned(packed, number)
        unsorted = np.argsort(index_map.order)
        return DynamicOutput(packed, _mapped(last, lambda part: np.take(part, unsorted, axis=0)))

    def _run(
        self, inputs: TensorArray, index_map: IndexMap, memory: Memory
    ) -> tuple[TensorArray, Memory]:
        """Return the outputs, and the last memory of the sequences in sorted order."""
        outputs = TensorArray()
        sizes = [*index_map.step_sizes.tolist(), 0]
        ended = [_after(memory, sizes[0])]
        memory = _before(memory, sizes[0])
        for number, value in enumerate(inputs):
            given = value if value.lod.n_levels else value.data
            output, memory = self._called(number, given, memory, sizes[number])
            # The step may write its next results into the same memory, as `memory += inputs` does.
            outputs.write(number, output, data_shared=False)
            ended.append(_after(memory, sizes[number + 1]))
            memory = _before(memory, sizes[number + 1])
        if not len(outputs):
            outputs, memory = self._without_steps(inputs, memory)
            ended.append(memory)
        return outputs, _joined(ended[::-1], len(index_map.order))

    def _called(self, number: int, inputs: Any, memory: Memory, alive: int) -> tuple[Any, Memory]:
        """Call the step; return outputs and memory, checked: one row per sequence still alive."""
        returned = self._step(inputs, memory)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise InvalidDataError(
                f"step {number}: expected the pair (outputs, memory), found "
                f"{type(returned).__name__}"
            )
        output = _checked(returned[0], f"step {number}: outputs", alive)
        what = f"step {number}: memory"
        carried = _mapped(returned[1], lambda part: _checked(part, what, alive))
        if (number or memory is not None) and _form(carried) != _form(memory):
            raise InvalidDataError(
                f"{what}: expected {_form(memory)} as before, found {_form(carried)}"
            )
        if memory is not None:
            for before, after in zip(_row_shapes(memory), _row_shapes(carried), strict=True):
                if before != after:
                    raise ShapeMismatchError(
                        f"{what}: expected rows of shape {before} as before, found {after}"
                    )
        return output, carried

    def _without_steps(self, inputs: TensorArray, memory: Memory) -> tuple[TensorArray, Memory]:
        """Return the outputs of zero steps; calls the step with no rows to learn their dtype."""
        steps = inputs.steps
        nothing = LoDTensor(steps.data, steps.lod.below(0))
        output, memory = self._called(
            0, nothing if nothing.lod.n_levels else nothing.data, memory, 0
        )
        kind = output if isinstance(output, LoDTensor) else LoDTensor(output)
        lod = LoD([[0], *kind.lod.levels], [STEP_LEVEL, *kind.lod.names])
        return TensorArray.from_steps(LoDTensor(kind.data, lod)), memory


def _turned(tensor: LoDTensor, number: int) -> LoDTensor:
    """Return the tensor with the items of every sequence in reverse order."""
    lod = tensor.lod
    inner = LoDTensor(tensor.data, lod.below(number))
    taken = take_items(inner, ranges_backwards(lod.levels[number]))
    if number == lod.n_levels - 1:
        return LoDTensor(taken.data, lod)
    return LoDTensor(taken.data, LoD((*lod.levels[: number + 1], *taken.lod.levels), lod.names))


def _checked(value: Any, what: str, alive: int) -> Any:
    """Return `value` as an array or tensor, checked to have a row for every sequence alive."""
    if isinstance(value, LoDTensor) and value.lod.n_levels and what.endswith("memory"):
        raise InvalidDataError(f"{what}: expected an array, found a LoDTensor with levels")
    if getattr(value, "requires_grad", False):
        raise InvalidDataError(
            f"{what}: is tracked by autograd, but lod computes no gradients of a step; return "
            "tensor.detach()"
        )
    if not isinstance(value, LoDTensor):
        try:
            value = rows_of(value)
        except InvalidDataError as error:
            raise InvalidDataError(f"{what}: {error}") from None
    found = len(value) if isinstance(value, LoDTensor) or value.ndim else "a single value"
    if found != alive:
        raise ShapeMismatchError(
            f"{what}: expected {alive} rows, one per sequence still alive, found {found}"
        )
    return value


def _form(memory: Memory) -> str:
    if memory is None:
        return "none"
    return f"a tuple of {len(memory)}" if isinstance(memory, tuple) else "an array"


def _row_shapes(memory: Memory) -> list[tuple[int, ...]]:
    parts = memory if isinstance(memory, tuple) else (memory,)
    return [_rows_of(part).shape[1:] for part in parts if part is not None]


def _rows_of(part: Any) -> Array:
    """Return a part of a memory as an array; ops may have returned a tensor without levels."""
    return part.data if isinstance(part, LoDTensor) else part


def _mapped(memory: Memory, function: Callable[[Array], Array]) -> Memory:
    if isinstance(memory, tuple):
        return tuple(function(part) for part in memory)
    return None if memory is None else function(memory)


def _sorted(part: Array, index_map: IndexMap) -> Array:
    order: Offsets = index_map.order
    part = rows_of(_rows_of(part))
    found = len(part) if part.ndim else "a single value"
    if found != len(order):
        raise ShapeMismatchError(
            f"memory: expected {len(order)} rows, one per sequence, found {found}"
        )
    return np.take(part, order, axis=0)


def _before(memory: Memory, count: int) -> Memory:
    return _mapped(memory, lambda part: part[:count])


def _after(memory: Memory, count: int) -> Memory:
    return _mapped(memory, lambda part: part[count:])


def _joined(ended: list[Memory], sequences: int) -> Memory:
    """Return the last memories of all sequences, longest first.

    Sequences without a step come last; they have no memory if the caller gave none.
    """
    known = [memory for memory in ended if memory is not None]
    if not known:
        return None
    first = known[0]
    if not isinstance(first, tuple):
        return _filled([memory for memory in known if not isinstance(memory, tuple)], sequences)
    return tuple(_filled(list(parts), sequences) for parts in zip(*known, strict=True))


def _filled(parts: list[Array], sequences: int) -> Array:
    whole = np.concatenate([_rows_of(part) for part in parts])
    missing = sequences - len(whole)
    if not missing:
        return whole
    return np.concatenate([whole, np.zeros_like(whole, shape=(missing, *whole.shape[1:]))])
