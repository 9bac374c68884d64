"""See rnn/lstm.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.checks import Array
from lodcli.kernels.on_cupy.rnn.product import Product, product
from lodcli.kernels.on_cupy.rnn.spaces import Backward, Forward, activation, flag
from lodcli.kernels.on_cupy.rnn.steps import (
    BackwardStep,
    ForwardStep,
    Steps,
    column_sums,
    linear_gradients,
)
from lodcli.kernels.on_cupy.rnn.table import Launch
from lodcli.kernels.rnn.lstm import LSTMWeights


class LSTMSteps(Steps[LSTMWeights]):
    """A product and a launch for each step; with a projection, two of each."""

    FILE, KEPT, RECURRENT = "rnn_lstm", 4, 4

    @property
    def projects(self) -> bool:
        return self.weights.weight_hr is not None

    def options(self) -> tuple[str, ...]:
        weights = self.weights
        names = (weights.gate_activation, weights.cell_activation, weights.candidate_activation)
        return (*map(activation, names), flag(weights.coupled))

    def forward(self, space: Forward) -> ForwardStep:
        weights, place = self.weights, space.place()
        recur = product(space.table, space.hidden, weights.weight_hh, space.recurrent)
        project: Product | None = None
        if weights.weight_hr is not None:
            assert space.opened is not None
            project = product(space.table, space.opened, weights.weight_hr, space.hidden)

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            where = (alive, number, alive)
            launches = [
                recur.launch(alive, by_cublas=by_cublas),
                self.launch("lstm_step", self.options(), place, weights.hidden_size, *where),
            ]
            if project is not None:
                launches += [
                    project.launch(alive, by_cublas=by_cublas),
                    self.launch("lstm_rows", (), place, weights.output_size, *where),
                ]
            return launches

        return step

    def backward(self, space: Backward) -> BackwardStep:
        weights, place = self.weights, space.place()
        turned = cupy.ascontiguousarray(weights.weight_hh.T)
        flow = product(space.table, space.packed, turned, space.flow)
        unproject: Product | None = None
        if weights.weight_hr is not None:
            assert space.total is not None
            assert space.opened is not None
            wide = cupy.ascontiguousarray(weights.weight_hr.T)
            unproject = product(space.table, space.total, wide, space.opened)

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            where = (alive, number, alive, later)
            launches = []
            if unproject is not None:
                launches += [
                    self.launch("lstm_arriving", (), place, weights.output_size, *where),
                    unproject.launch(alive, by_cublas=by_cublas),
                ]
            return [
                *launches,
                self.launch("lstm_gradient", self.options(), place, weights.hidden_size, *where),
                flow.launch(alive, by_cublas=by_cublas),
            ]

        return step

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        kept, size = space.kept, self.weights.hidden_size
        gradients = linear_gradients(space, sums)
        if self.weights.peepholes is not None:
            assert kept.cells is not None
            by_i, by_f, _, by_o = (
                space.gradients[:, gate * size : (gate + 1) * size] for gate in range(4)
            )
            before = space.order.before(kept.cells, kept.begin[1])
            seen = (by_i * before, by_f * before, by_o * kept.cells)
            gradients["peepholes"] = cupy.stack([column_sums(gate) for gate in seen])
        if space.totals is not None:
            gradients["weight_hr"] = cupy.dot(space.totals.T, kept.inner)
        return gradients
