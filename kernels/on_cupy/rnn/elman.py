"""See rnn/elman.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.checks import Array
from lodcli.kernels.on_cupy.rnn.product import product
from lodcli.kernels.on_cupy.rnn.spaces import Backward, Forward, activation
from lodcli.kernels.on_cupy.rnn.steps import (
    BackwardStep,
    ForwardStep,
    Steps,
    linear_gradients,
)
from lodcli.kernels.on_cupy.rnn.table import Launch
from lodcli.kernels.rnn.elman import ElmanWeights


class ElmanSteps(Steps[ElmanWeights]):
    """A product and a launch for each step; the outputs are all that the way back needs."""

    FILE, KEPT, RECURRENT = "rnn_elman", 0, 1

    def options(self) -> tuple[str, ...]:
        return (activation(self.weights.nonlinearity),)

    def forward(self, space: Forward) -> ForwardStep:
        size, place = self.weights.hidden_size, space.place()
        recur = product(space.table, space.hidden, self.weights.weight_hh, space.recurrent)

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            return [
                recur.launch(alive, by_cublas=by_cublas),
                self.launch("elman_step", self.options(), place, size, alive, number, alive),
            ]

        return step

    def backward(self, space: Backward) -> BackwardStep:
        size, place = self.weights.hidden_size, space.place()
        turned = cupy.ascontiguousarray(self.weights.weight_hh.T)
        flow = product(space.table, space.packed, turned, space.flow)

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            where = (place, size, alive, number, alive, later)
            return [
                self.launch("elman_gradient", self.options(), *where),
                flow.launch(alive, by_cublas=by_cublas),
            ]

        return step

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        return linear_gradients(space, sums)
