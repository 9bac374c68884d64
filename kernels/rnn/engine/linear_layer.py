"""One layer of a linear cell in one direction: blocks of rows, then one scan over all sequences.

Only a and h are saved for the backward pass; gates are recomputed block by block, because that is
faster than writing them to memory and reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import State
from lodcli.kernels.rnn.cells.linear_cell import LinearCell, LinearWeights, contiguous
from lodcli.kernels.rnn.cells.registry import cell_of
from lodcli.kernels.rnn.engine.layer import LayerGradients, LayerRun, last_rows, last_states
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.runtime.threads import limited_threads

# Size of a block of one array of the state's width: its results stay in the L2 cache.
_BLOCK_BYTES = 1 << 19
# Products of fewer rows are slower. On a GPU each block costs launches.
_LEAST_ROWS, _LEAST_ROWS_ON_DEVICE = 256, 1 << 16


class _Kept(NamedTuple):
    """What a forward run saves for the backward pass: the initial state, a, and h."""

    begin: Array
    a: Array
    h: Array


# Infinities and NaN pass through, as through the scan.
@np.errstate(all="ignore")
def layer_forward(
    data: Array,
    plan: StepPlan,
    weights: LinearWeights,
    begin: State,
    *,
    reverse: bool,
    keep: bool,
    cells: bool,
    threads: int,
    scan: Callable[..., Array],
) -> LayerRun:
    """See layer.py. a and the states themselves are saved, and become read-only.

    Args:
        scan: a twin of segment_linear_scan.
    """
    cell: LinearCell[Any] = cell_of(weights)
    first = _as_complex(begin[-1]) if cell.COMPLEX else begin[-1]
    shape = len(data), first.shape[1]
    factor = cell.factor
    a = _room(data, shape, first.dtype) if factor is None else factor
    b = _room(data, shape, first.dtype)
    for rows in _blocks(data, shape):
        part = cell.coefficients(data[rows])
        if factor is None:
            a[rows] = part.a
        b[rows] = part.b
    with limited_threads(threads):
        h = scan(a, b, plan.offsets, initial=first, reverse=reverse)
    del b
    through: State = (_as_real(h) if cell.COMPLEX else h,)
    if len(begin) == 2:
        outputs = _room(data, (len(data), begin[0].shape[1]), data.dtype)
        for rows in _blocks(data, shape):
            outputs[rows] = cell.output(data[rows], h[rows])
        through = (outputs, *through)
    last = last_states(through, begin, plan, reverse)
    if keep and not is_on_device(h):
        h.flags.writeable = False
        through[-1].flags.writeable = False
    kept = _Kept(first, a, h) if keep else None
    return LayerRun(through if cells else through[:1], last, kept)


@np.errstate(all="ignore")
def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: LinearWeights,
    kept: _Kept,
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    reverse: bool,
    with_input: bool,
    threads: int,
    scan_gradient: Callable[..., Any],
) -> LayerGradients:
    """See layer.py.

    Args:
        scan_gradient: a twin of segment_linear_scan_grad.
    """
    cell: LinearCell[Any] = cell_of(weights)
    h = kept.h
    flows = [
        _flow(data, size, rows, ends, plan, reverse)
        for rows, ends, size in zip(by_row, by_sequence, weights.state_sizes, strict=True)
    ]
    sums: dict[str, Array] = {}
    grad_input = _room(data, data.shape, data.dtype) if with_input else None
    flow = _as_complex(flows[-1]) if cell.COMPLEX else flows[-1]
    if len(flows) == 2:
        whole = flow.copy() if flows[-1] is by_row[-1] else flow
        for rows in _blocks(data, h.shape):
            of_h, found = cell.output_backward(data[rows], h[rows], flows[0][rows])
            whole[rows] += of_h
            if grad_input is not None:
                grad_input[rows] = found.input()
            _add(sums, found.weights)
        flow = whole
    with limited_threads(threads):
        of_a, of_b, of_begin = scan_gradient(
            flow, kept.a, h, plan.offsets, initial=kept.begin, reverse=reverse
        )
    del flow, flows
    for rows in _blocks(data, h.shape):
        again = cell.coefficients(data[rows])
        found = cell.coefficients_backward(data[rows], again.kept, of_a[rows], of_b[rows])
        if grad_input is not None:
            if len(by_row) == 2:
                grad_input[rows] += found.input()
            else:
                grad_input[rows] = found.input()
        _add(sums, found.weights)
    zeros = weights.zeros_like()
    present = {
        field: sums[field].astype(zero.dtype) if field in sums else zero
        for field, zero in zeros.arrays().items()
    }
    return LayerGradients(
        grad_input,
        weights.with_arrays(present),
        _of_first(_as_real(of_begin) if cell.COMPLEX else of_begin, by_sequence, plan, weights),
    )


def _blocks(data: Array, shape: tuple[int, int]) -> Iterator[slice]:
    least = _LEAST_ROWS_ON_DEVICE if is_on_device(data) else _LEAST_ROWS
    step = max(least, _BLOCK_BYTES // max(1, shape[1] * data.itemsize))
    for start in range(0, len(data), step):
        yield slice(start, start + step)


def _room(data: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if is_on_device(data):
        return np.empty_like(data, shape=shape, dtype=dtype)
    return empty(shape, dtype)


def _flow(
    data: Array,
    size: int,
    by_row: Array | None,
    by_sequence: Array | None,
    plan: StepPlan,
    reverse: bool,
) -> Array:
    """Return the gradient of a part of the state after every row; without a copy if possible."""
    if by_sequence is None and by_row is not None:
        return by_row
    whole = np.zeros_like(data, shape=(len(data), size)) if by_row is None else by_row.copy()
    if by_sequence is not None:
        sequences, rows = last_rows(plan, reverse)
        whole[rows] += by_sequence[sequences]
    return whole


def _of_first(
    of_begin: Array, by_sequence: tuple[Array | None, ...], plan: StepPlan, weights: LinearWeights
) -> State:
    """Return the gradients of the initial states.

    Of an empty sequence the first state is the last one; what a sequence with rows has emitted
    before it is not used.
    """
    alive = int(plan.step_sizes[0]) if len(plan.step_sizes) else 0
    without_rows = plan.order[alive:]
    sizes = weights.state_sizes
    parts = [of_begin]
    if len(sizes) == 2:
        parts.insert(0, np.zeros_like(of_begin, shape=(len(of_begin), sizes[0])))
    for part, given in zip(parts, by_sequence, strict=True):
        if given is not None:
            part[without_rows] = given[without_rows]
    return tuple(parts)


def _add(sums: dict[str, Array], found: dict[str, Array]) -> None:
    for field, array in found.items():
        # In float32 the sum over many blocks would lose digits.
        wide = array.astype(np.float64)
        sums[field] = sums[field] + wide if field in sums else wide


def _as_complex(array: Array) -> Array:
    return contiguous(array).view(np.result_type(array.dtype, np.complex64))


def _as_real(array: Array) -> Array:
    return contiguous(array).view(array.real.dtype)
