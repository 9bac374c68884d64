"""Cells with one product and one launch a step, or one launch for all steps."""

from __future__ import annotations

from abc import abstractmethod

import cupy

from lodcli.kernels.rnn.engine.cupy.product import product
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward
from lodcli.kernels.rnn.engine.cupy.steps import BackwardStep, ForwardStep, Steps, W
from lodcli.kernels.rnn.engine.cupy.table import Launch, step_launch


class CellSteps(Steps[W]):
    """See rnn_step.cu and rnn_persistent.cu, which take a cell as a type."""

    @abstractmethod
    def cell(self) -> str:
        """Return the C++ type of the cell: Elman, GRU or LSTM with its options."""

    def options(self) -> tuple[str, ...]:
        return (self.cell(),)

    def forward(self, space: Forward) -> ForwardStep:
        assert space.recurrent is not None
        recur = product(space.table, space.hidden, self.weights.weight_hh, space.recurrent)
        kernel = f"cell_step<{self.value}, {self.cell()}>"
        place, size = space.place, self.weights.hidden_size

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            return [
                recur.launch(alive, by_cublas=by_cublas),
                step_launch("rnn_step", kernel, place, size, alive, number, alive),
            ]

        return step

    def backward(self, space: Backward) -> BackwardStep:
        assert space.packed is not None
        turned = cupy.ascontiguousarray(self.weights.weight_hh.T)
        flow = product(space.table, space.packed, turned, space.flow)
        kernel = f"cell_gradient<{self.value}, {self.cell()}>"
        place, size = space.place, self.weights.hidden_size

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            return [
                step_launch("rnn_step", kernel, place, size, alive, number, alive, later),
                flow.launch(alive, by_cublas=by_cublas),
            ]

        return step
