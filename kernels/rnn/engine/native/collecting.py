"""Backward pass through one layer: its arrays, chunks, and final gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.engine.layer import LayerGradients
from lodcli.kernels.rnn.engine.native.arrays import aligned, borrowed, zeros
from lodcli.kernels.rnn.engine.native.layout import SHAPES
from lodcli.kernels.rnn.engine.native.packing import layout, packed_backward
from lodcli.kernels.rnn.engine.native.structures import (
    BackwardRun,
    BackwardSpace,
    Chunk,
    Gradients,
    Sequences,
    Team,
    words,
)
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.rnn.engine.products import BackwardRoom, Products

_CHUNK_BYTES = 1 << 23
_LINE_BYTES = 64
_TILE_ROWS = 16  # of sums that AMX adds up at once


class Collector:
    """Runs the steps backward and collects the gradients; see backward_numba.py.

    Attributes:
        row_bytes: of the hidden state of one sequence.
        recur: the kernel that runs steps backward.
        collect: the kernel that adds up the gradients of a chunk.
    """

    def __init__(
        self,
        products: Products,
        data: Array,
        plan: StepPlan,
        weights: CellWeights,
        kept: Any,
        by_row: tuple[Array | None, ...],
        by_sequence: tuple[Array | None, ...],
        *,
        with_input: bool,
    ) -> None:
        self.products, self.weights, self.plan = products, weights, plan
        self.cell, self.recurrent, self.input = packed_backward(weights, products.matrix_panels)
        self.blocks = SHAPES[type(self.cell)]
        size, dtype = weights.hidden_size, data.dtype
        self.dtype = dtype
        self.row_bytes = size * dtype.itemsize
        # Padded by a line beyond a multiple of a page, to avoid cache conflicts between rows.
        line = _LINE_BYTES // dtype.itemsize
        self.stride = -(-self.blocks.slopes * size // line) * line + line
        sequences = len(kept.begin[0])
        self.shape, self.other_shape = (sequences, size), (sequences, weights.state_sizes[-1])
        self.recur = products.backward[weights.KIND][dtype.char]
        self.collect = products.collect[dtype.char]
        self.slots = self._slots(len(data))
        self.run = self._run(kept, by_row, by_sequence)
        self.sums = self._sums(data, with_input)

    def _in_order_of_weights(self, array: Array) -> Array:
        """Return rows n, r, z of a GRU as r, z, n; those of other cells as they are."""
        if self.blocks.slopes == self.blocks.gates:
            return array
        first = self.weights.hidden_size
        return np.concatenate([array[first:], array[:first]])

    def _run(
        self, kept: Any, by_row: tuple[Array | None, ...], by_sequence: tuple[Array | None, ...]
    ) -> BackwardRun:
        none = np.zeros(0, self.dtype)
        has_cell = len(kept.begin) == 2
        grad_h, grad_c = by_row[0], by_row[1] if has_cell else None
        carries = [
            np.zeros(shape, self.dtype) if part is None else np.array(part, order="C")
            for part, shape in (
                (by_sequence[0], self.shape),
                (by_sequence[1] if has_cell else None, self.other_shape),
            )
        ]
        return BackwardRun(
            np.ascontiguousarray(kept.begin[0]),
            np.ascontiguousarray(kept.begin[1]) if has_cell else none,
            kept.outputs, kept.cells, kept.gates,
            grad_h is not None, none if grad_h is None else np.ascontiguousarray(grad_h),
            grad_c is not None, none if grad_c is None else np.ascontiguousarray(grad_c),
            *carries,
        )  # fmt: skip

    def _sums(self, data: Array, with_input: bool) -> Gradients:
        size, panel = self.weights.hidden_size, layout().panel_width(self.dtype.itemsize)
        rows = -(-self.weights.GATES * size // _TILE_ROWS) * _TILE_ROWS
        input_room = -(-self.input.columns // panel) * panel if self.input.depth else 0
        hidden_room = -(-size // panel) * panel
        # One allocation; whole panels are whole cache lines.
        both, end = zeros(rows * (input_room + hidden_room), self.dtype), rows * input_room
        return Gradients(
            np.ascontiguousarray(data),
            with_input,
            aligned(data.size if with_input else 0, self.dtype),
            both[:end],
            input_room,
            both[end:],
            hidden_room,
            np.zeros((2, self.blocks.slopes * size), self.dtype),
        )

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of steps, from last to first; each replaces the previous one."""
        sizes, slots = self.plan.step_sizes, self.slots
        ends = np.zeros(len(sizes) + 1, np.int64)
        sizes.cumsum(out=ends[1:])
        slopes = aligned(slots * self.stride, self.dtype)
        rows, before = np.empty(slots, np.int64), np.empty(slots, np.int64)
        step_to = len(sizes)
        while step_to:
            step_from = int(ends.searchsorted(ends[step_to] - slots))
            filled = int(ends[step_to] - ends[step_from])
            bases = ends[step_from:step_to] - ends[step_from]
            yield Chunk(step_from, step_to, bases, filled, slopes, self.stride, rows, before)
            step_to = step_from

    def _slots(self, rows: int) -> int:
        """Return the maximum number of rows of a chunk: whole steps, at least one."""
        sizes = self.plan.step_sizes
        widest = int(sizes[0]) if len(sizes) else 0
        return min(rows, max(widest, _CHUNK_BYTES // (self.stride * self.dtype.itemsize)))

    def room(self) -> tuple[tuple[Any, ...], BackwardSpace]:
        """Return the scratch memory of one thread, and the key to return it under."""
        room = self.products.backward_room(self.recurrent, self.input, self.slots)
        count = max(self.slots, self.blocks.slopes * self.weights.hidden_size)
        count = 1 << (count - 1).bit_length()
        key = ("backward", self.dtype, count, room)
        return key, borrowed(key, lambda: _new_space(self.dtype, count, room))

    def recur_arguments(
        self, group: Sequences, chunk: Chunk, space: BackwardSpace, place: Team
    ) -> tuple[Any, ...]:
        """Return the arguments that run the steps of a chunk backward."""
        return (
            *words(self.cell), *words(self.recurrent), *group, *self.run, *chunk, *space, *place,
        )  # fmt: skip

    def collect_arguments(
        self, chunk: Chunk, space: BackwardSpace, member: int, members: int
    ) -> tuple[Any, ...]:
        """Return the arguments that add one member's part of the gradients of a chunk."""
        size = self.cell.hidden
        return (
            self.blocks.gates * size, self.blocks.slopes * size, size, *words(self.input),
            *self.run, *chunk, *self.sums, *space, member, members,
        )  # fmt: skip

    def gradients(self) -> LayerGradients:
        """Return the collected gradients."""
        weights, sums, size = self.weights, self.sums, self.weights.hidden_size
        blocks = weights.GATES * size
        found = {
            "weight_hh": self._in_order_of_weights(
                sums.weight_hh.reshape(-1, sums.hidden_room)[:blocks, :size]
            ),
            "bias_hh": self._in_order_of_weights(sums.bias[0, :blocks]),
            "bias_ih": sums.bias[0, -blocks:].copy(),
        }
        if weights.weight_ih is not None:
            wide = sums.weight_ih.reshape(-1, sums.input_room)
            found["weight_ih"] = wide[:blocks, : weights.input_size]
        present = {name: np.ascontiguousarray(found[name]) for name in weights.arrays()}
        first_h, other = self.run.carry_h, self.run.carry_other
        if weights.KIND == "gru":
            first_h += other
        first = (first_h, other) if len(weights.state_sizes) == 2 else (first_h,)
        of_input = sums.of_input.reshape(-1, weights.input_size) if sums.with_input else None
        return LayerGradients(of_input, weights.with_arrays(present), first)


def _new_space(dtype: np.dtype[Any], count: int, room: BackwardRoom) -> BackwardSpace:
    """Return room for positions of so many slots or slopes."""
    # As many rows as `sums` holds, so that tiles of any shape have all their rows in both.
    width = layout().panel_width(dtype.itemsize)
    return BackwardSpace(
        aligned(room.sums, dtype),
        np.arange(room.sums // width) * width,
        aligned(room.panel, dtype),
        aligned(room.rounded, dtype),
        *np.empty((2, count), np.int64),
    )
