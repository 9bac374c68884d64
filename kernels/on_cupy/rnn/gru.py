"""See rnn/gru.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.checks import Array
from lodcli.kernels.on_cupy.rnn.product import product
from lodcli.kernels.on_cupy.rnn.spaces import Backward, Forward
from lodcli.kernels.on_cupy.rnn.steps import (
    BackwardStep,
    ForwardStep,
    Steps,
    column_sums,
    hidden_before,
)
from lodcli.kernels.on_cupy.rnn.table import Launch
from lodcli.kernels.rnn.gru import GRUWeights


class GRUSteps(Steps[GRUWeights]):
    """A product and a launch for each step."""

    FILE, KEPT, RECURRENT, INNER = "rnn_gru", 3, 3, True

    def options(self) -> tuple[str, ...]:
        return ()

    def forward(self, space: Forward) -> ForwardStep:
        size, place = self.weights.hidden_size, space.place()
        recur = product(space.table, space.hidden, self.weights.weight_hh, space.recurrent)

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            return [
                recur.launch(alive, by_cublas=by_cublas),
                self.launch("gru_step", (), place, size, alive, number, alive),
            ]

        return step

    def backward(self, space: Backward) -> BackwardStep:
        size, place = self.weights.hidden_size, space.place()
        turned = cupy.ascontiguousarray(self.weights.weight_hh.T)
        flow = product(space.table, space.packed, turned, space.flow)

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            return [
                self.launch("gru_gradient", (), place, size, alive, number, alive, later),
                flow.launch(alive, by_cublas=by_cublas),
            ]

        return step

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        # Of n, what came through the reset gate; of r and z, what the inputs' gates got.
        both, before = 2 * self.weights.hidden_size, hidden_before(space)
        assert space.reset is not None
        parts = (space.gradients[:, :both], space.reset)
        found = {"weight_hh": cupy.concatenate([cupy.dot(part.T, before) for part in parts])}
        if sums is not None:
            found["bias_hh"] = cupy.concatenate([sums[:both], column_sums(space.reset)])
        return found
