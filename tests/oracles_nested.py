"""Nested RNNs with modules and autograd of torch, one sequence at a time."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.rnn.nested.nested import NestedRNN
from lodcli.kernels.rnn.stack.state_dict import state_dict

MODULES = {"elman": "RNN", "gru": "GRU", "lstm": "LSTM"}


class TorchNested:
    """The same weights in torch, as leaves of the autograd graph."""

    def __init__(self, rnn: NestedRNN, torch: Any) -> None:
        self.torch = torch
        self.rnn = rnn
        self.modules, self.boots = [], []
        for level in rnn.levels:
            weights = level.weights
            module = getattr(torch.nn, MODULES[weights.cell])(
                weights.input_size,
                weights.hidden_size,
                num_layers=len(weights.layers),
                bidirectional=weights.directions == 2,
                dtype=torch.float64,
            )
            named = {name: torch.from_numpy(array) for name, array in state_dict(weights).items()}
            module.load_state_dict(named)
            self.modules.append(module)
            arrays = {} if level.boot is None else level.boot.arrays()
            self.boots.append(
                {name: torch.from_numpy(a).clone().requires_grad_() for name, a in arrays.items()}
            )

    def run(self, item: Any, depth: int, state: Any) -> tuple[Any, Any, list[list[Any]]]:
        """Return the output after the item, the state, and the outputs of every step.

        Args:
            item: a tensor of rows for the innermost RNN, else a list of items.
            depth: of the RNN in the chain.
            state: hidden, or (hidden, cell), of (layers*directions, H); None is zeros.

        Returns:
            The outputs as one list for each RNN from this one on, in the order of the rows.
        """
        innermost = depth == len(self.modules) - 1
        found: list[list[Any]] = [[] for _ in self.modules[depth:]]
        if not innermost and self.rnn.levels[depth + 1].boot is not None:
            return self._run_booted(item, depth, state, found)
        rows = item
        if not innermost:
            ran = [self.run(one, depth + 1, None) for one in item]
            for _, _, below in ran:
                _extend(found[1:], below)
            rows = self.torch.stack([vector for vector, _, _ in ran]) if ran else ()
        if len(rows):
            outputs, state = self._module(rows, depth, state)
            found[0].append(outputs)
        return self._vector(depth, state), state, found

    def _run_booted(
        self, item: Any, depth: int, state: Any, found: list[list[Any]]
    ) -> tuple[Any, Any, list[list[Any]]]:
        by_item: dict[int, list[list[Any]]] = {}
        numbers = range(len(item))
        for number in reversed(numbers) if self.rnn.levels[depth].reverse else numbers:
            boot = self._booted(depth + 1, state)
            vector, _, below = self.run(item[number], depth + 1, boot)
            outputs, state = self._module(vector[None], depth, state)
            by_item[number] = [[outputs], *below]
        for number in numbers:
            _extend(found, by_item[number])
        return self._vector(depth, state), state, found

    def _module(self, rows: Any, depth: int, state: Any) -> tuple[Any, Any]:
        if state is None and self.rnn.levels[depth].weights.cell == "lstm":
            state = self._zeros(depth), self._zeros(depth)
        if not self.rnn.levels[depth].reverse:
            return self.modules[depth](rows, state)  # type: ignore[no-any-return]
        outputs, state = self.modules[depth](rows.flip(0), state)
        return outputs.flip(0), state

    def _zeros(self, depth: int) -> Any:
        weights = self.rnn.levels[depth].weights
        count = len(weights.layers) * weights.directions
        return self.torch.zeros((count, weights.hidden_size), dtype=self.torch.float64)

    def _vector(self, depth: int, state: Any) -> Any:
        hidden = self._zeros(depth) if state is None else state
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return hidden[-self.rnn.levels[depth].weights.directions :].reshape(-1)

    def _booted(self, depth: int, above: Any) -> Any:
        boot, zeros = self.boots[depth], self._zeros(depth)
        state = self._vector(depth - 1, above)
        start = boot["weight"] @ state if "weight" in boot else state.repeat(len(zeros))
        start = (start + boot.get("bias", 0)).reshape(zeros.shape)
        return (start, zeros) if self.rnn.levels[depth].weights.cell == "lstm" else start


def _extend(found: list[list[Any]], more: list[list[Any]]) -> None:
    for whole, part in zip(found, more, strict=True):
        whole.extend(part)
