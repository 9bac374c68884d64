"""Work arrays of a run, forward and backward: the structs Run and Back of rnn.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import C_TYPES
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights, State
from lodcli.kernels.rnn.engine.cupy.table import Table
from lodcli.kernels.rnn.engine.plan import StepPlan


class Kept(NamedTuple):
    """Values saved by a forward pass for the backward pass; one per row, unless noted otherwise.

    Attributes:
        begin: the states before the first step, (S, ..), longest sequence first.
        outputs, cells: the states after each row.
        gates: (N, G*H), activated; None of an Elman cell.
        inner: (N, H), see rnn.cuh; None but for a GRU and an LSTM with a projection.
    """

    begin: State
    outputs: Array
    cells: Array | None
    gates: Array | None
    inner: Array | None

    def wide(self) -> Kept:
        """Return the same in float32."""

        def widened(part: Any) -> Any:
            return None if part is None else part.astype(np.float32, copy=False)

        return Kept(tuple(map(widened, self.begin)), *map(widened, self[1:]))


@dataclass(frozen=True, eq=False)
class Order:
    """A plan on the device.

    Attributes:
        plan: in main memory.
        sequences, starts, lengths: its order, starts and lengths, on the device.
        reverse: from last row to first.
    """

    plan: StepPlan
    sequences: Array
    starts: Array
    lengths: Array
    reverse: bool

    def first_rows(self) -> Array:
        """Return the row of each sequence's first step, of those that have one."""
        alive = int(self.plan.step_sizes[0])
        starts = self.starts[:alive]
        return starts + (self.lengths[:alive] - 1) if self.reverse else starts

    def before(self, through: Array, begin: Array) -> Array:
        """Return the state before each row: (N, ..) from those after each, and the first ones."""
        made = cupy.empty_like(through)
        if self.reverse:
            made[:-1] = through[1:]
        else:
            made[1:] = through[:-1]
        first = self.first_rows()
        made[first] = begin[: len(first)]
        return made  # type: ignore[no-any-return]

    def in_batch_order(self, part: Array) -> Array:
        """Return (S, ..) that is longest first in the order of the batch."""
        made = cupy.empty_like(part)
        made[self.sequences] = part
        return made  # type: ignore[no-any-return]


def order_of(plan: StepPlan, reverse: bool) -> Order:
    """Return a plan on the device, in one copy."""
    whole = cupy.asarray(np.stack([plan.order, plan.starts, plan.lengths]))
    return Order(plan, whole[0], whole[1], whole[2], reverse)


@dataclass(frozen=True, eq=False)
class Forward:
    """See Run in rnn.cuh, whose fields these are.

    Attributes:
        table: has its struct at `place`.
    """

    table: Table
    order: Order
    weights: CellWeights
    projected: Array
    recurrent: Array | None
    hidden: Array
    cell: Array | None
    opened: Array | None
    candidate: Array | None
    outputs: Array
    cells: Array | None
    gates: Array | None
    inner: Array | None
    begin: Array

    @cached_property
    def place(self) -> int:
        """The place of the struct, which is put into the table when it is first asked for."""
        return self.table.add(
            *_order(self.order),
            *(self.projected, self.weights.bias_ih, self.weights.bias_hh),
            getattr(self.weights, "peepholes", None),
            *(self.recurrent, self.hidden, self.cell, self.opened, self.candidate),
            *(self.outputs, self.cells, self.gates, self.inner),
            *(self.weights.hidden_size, self.weights.output_size, self.begin),
        )


@dataclass(frozen=True, eq=False)
class Backward:
    """See Back in rnn.cuh, whose fields these are."""

    table: Table
    order: Order
    weights: CellWeights
    kept: Kept
    by_row: Array | None
    by_row_cell: Array | None
    flow: Array
    carried: Array
    carried_cell: Array | None
    opened: Array | None
    total: Array | None
    totals: Array | None
    gradients: Array
    packed: Array | None
    packed_candidate: Array | None
    reset: Array | None

    @cached_property
    def place(self) -> int:
        """The place of the struct, which is put into the table when it is first asked for."""
        kept = self.kept
        return self.table.add(
            *_order(self.order),
            *(getattr(self.weights, "peepholes", None), kept.outputs, kept.cells),
            *(
                kept.gates,
                kept.inner,
                kept.begin[0],
                kept.begin[1] if len(kept.begin) == 2 else None,
            ),
            *(self.by_row, self.by_row_cell, self.flow, self.carried, self.carried_cell),
            *(self.opened, self.total, self.totals, self.gradients, self.packed),
            *(self.packed_candidate, self.reset),
            *(self.weights.hidden_size, self.weights.output_size),
        )


def _order(order: Order) -> tuple[Array, Array, int]:
    return order.starts, order.lengths, int(order.reverse)


def value_type(array: Array) -> str:
    """Return the C++ type of an array's values."""
    return C_TYPES[array.dtype.name]


def activation(name: str) -> str:
    """Return the name of an activation in rnn.cuh."""
    return name.upper()


def flag(value: bool) -> str:
    """Return a truth value in C++."""
    return "true" if value else "false"
