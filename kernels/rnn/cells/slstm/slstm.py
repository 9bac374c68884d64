"""The sLSTM of xLSTM: exponential gates with a stabiliser, and heads.

    i = weight_i x + recurrent_i h + bias_i, and f, z, o likewise
    m' = max(i, log sigmoid(f) + m)
    I = exp(i - m')    F = exp(log sigmoid(f) + m - m')
    c' = F c + I tanh(z)    n' = F n + I
    h' = sigmoid(o) c' / n'

If n is 0, there is no previous state: F is 0 and m' is i. So all initial states may be zeros.

    weight_i, weight_f, weight_z, weight_o (heads, K, D / heads) or (1, H, D), K = H / heads
    recurrent_kernel (heads, 4K, K), rows i, f, z, o    bias (4H,), gates i, f, z, o, or None

Each head has K values of the state, which other heads do not use, and if the inputs are divided
as well, D / heads inputs. The cell state is c, n and m concatenated, (.., 3H). Without
the four weights the data are the projected inputs, (N, 4H), gate by gate.

The names are those of the vanilla backend of the cell in NX-AI/xlstm. In its layer the weights
named fgate belong to i and those named igate to f; so they do here. Beck et al., xLSTM, 2024
(arXiv 2405.04517).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.rnn.cells.activations import sigmoid
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights, State, StepGradients
from lodcli.kernels.rnn.cells.weights import LayerWeights, Shapes, Sizes
from lodcli.kernels.runtime.argument_types import types_explained

_INPUTS = ("weight_i", "weight_f", "weight_z", "weight_o")


@dataclass(frozen=True, eq=False, kw_only=True)
class SLSTMWeights(LayerWeights):
    """The weights of an sLSTM; shapes and gate order are at the head of this file."""

    KIND: ClassVar[str] = "slstm"
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"bias", "heads"})
    INPUT_WEIGHT: ClassVar[str] = "weight_i"
    STATE_WEIGHT: ClassVar[str] = "recurrent_kernel"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType(
        dict.fromkeys(("recurrent_kernel", *_INPUTS), 3)
    )
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "weight_i": "fgate.weight",
            "weight_f": "igate.weight",
            "weight_z": "zgate.weight",
            "weight_o": "ogate.weight",
            "recurrent_kernel": "slstm_cell._recurrent_kernel_",
            "bias": "slstm_cell._bias_",
        }
    )

    recurrent_kernel: Array
    weight_i: Array | None = None
    weight_f: Array | None = None
    weight_z: Array | None = None
    weight_o: Array | None = None
    bias: Array | None = None

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        width = sizes.hidden // sizes.heads
        divided = sizes.input % sizes.heads == 0 and "full" not in sizes.extras
        heads = sizes.heads if divided else 1
        shapes: Shapes = {"recurrent_kernel": (sizes.heads, 4 * width, width)}
        shapes |= dict.fromkeys(_INPUTS, (heads, sizes.hidden // heads, sizes.input // heads))
        return shapes | ({"bias": (4 * sizes.hidden,)} if "bias" in sizes.extras else {})

    def sizes(self) -> Sizes:
        heads, _, width = self.recurrent_kernel.shape
        if self.weight_i is None:
            return Sizes(4 * heads * width, heads * width, 0, frozenset({"bias"}), heads)
        full = self.weight_i.shape[0] != heads
        extras = frozenset({"bias", "full"} if full else {"bias"})
        inputs = int(self.weight_i.shape[0] * self.weight_i.shape[2])
        return Sizes(inputs, int(heads * width), 0, extras, int(heads))

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, 3 * self.hidden_size)

    @property
    def is_plain(self) -> bool:
        return True

    @property
    def takes_projected(self) -> bool:
        return self.weight_i is None

    @classmethod
    @types_explained
    def drawn(
        cls, field: str, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> Array:
        """Return random values as published: forget gates from 5 down to -7 in every head."""
        if field == "bias":
            bias = np.zeros((4, sizes.heads, sizes.hidden // sizes.heads))
            bias[1] = 5 - 12 * np.linspace(0, 1, bias.shape[2]) ** 0.3
            return bias.reshape(shape)
        if field in _INPUTS:
            return rng.normal(size=shape) * math.sqrt(2 / (5 * sizes.input))
        return super().drawn(field, shape, sizes, rng)

    def check_ranks(self, suffix: str) -> None:
        super().check_ranks(suffix)
        missing = [self.name_of(name) for name in _INPUTS if getattr(self, name) is None]
        if 0 < len(missing) < len(_INPUTS):
            raise InvalidDataError(
                f"{missing[0]}{suffix}: missing; expected the weights of all four gates or of none"
            )
        if not self.recurrent_kernel.size:
            raise ShapeMismatchError(
                f"{self.name_of('recurrent_kernel')}{suffix}: expected shape (heads, 4K, K), "
                f"found {self.recurrent_kernel.shape}"
            )

    def heads(self) -> tuple[SLSTMHead, ...]:
        """Return each head as a separate cell; its arrays may share memory with these."""
        # Compiled code packs weights only once if the arrays are immutable.
        arrays = self.arrays().values()
        if all(isinstance(one, np.ndarray) and is_immutable(one) for one in arrays):
            return self._frozen_heads
        return self._heads

    @cached_property
    def _frozen_heads(self) -> tuple[SLSTMHead, ...]:
        return tuple(head.frozen() for head in self._heads)

    @property
    def _heads(self) -> tuple[SLSTMHead, ...]:
        heads, _, width = self.recurrent_kernel.shape
        inputs = [getattr(self, name) for name in _INPUTS]
        bias = None if self.bias is None else self.bias.reshape(4, heads, width)
        made = []
        for head in range(heads):
            weight_ih = None
            if not self.takes_projected:
                rows = [one.reshape(heads, width, one.shape[2])[head] for one in inputs]
                weight_ih = np.concatenate(rows)
            made.append(
                SLSTMHead(
                    weight_ih=weight_ih,
                    weight_hh=self.recurrent_kernel[head],
                    bias_ih=None if bias is None else bias[:, head].reshape(-1),
                )
            )
        return tuple(made)

    def of_heads(self, heads: Sequence[SLSTMHead]) -> SLSTMWeights:
        """Return the weights of heads combined, in the shapes of these weights."""
        arrays: dict[str, Any] = {"recurrent_kernel": np.stack([one.weight_hh for one in heads])}
        width = self.recurrent_kernel.shape[2]
        for number, name in enumerate(_INPUTS):
            wanted = getattr(self, name)
            if wanted is not None:
                rows = slice(number * width, (number + 1) * width)
                parts = [one.weight_ih[rows] for one in heads if one.weight_ih is not None]
                arrays[name] = np.concatenate(parts).reshape(wanted.shape)
        if self.bias is not None:
            parts = [one.bias_ih.reshape(4, -1) for one in heads if one.bias_ih is not None]
            arrays["bias"] = np.concatenate(parts, axis=1).reshape(-1)
        return SLSTMWeights(**arrays)


@dataclass(frozen=True, eq=False, kw_only=True)
class SLSTMHead(CellWeights):
    """One head, a cell with K values: gates i, f, z, o, and one bias."""

    KIND: ClassVar[str] = "slstm"
    GATES: ClassVar[int] = 4

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, 3 * self.hidden_size)

    @property
    def is_plain(self) -> bool:
        return True


class SLSTMCell(Cell[SLSTMHead]):
    """One step of one head, with the equations at the top of this file."""

    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        hidden, cell = state
        c, n, m = np.split(cell, 3, axis=1)
        i, f, z, o = np.split(projected + self.recur(hidden), 4, axis=1)
        z, o = np.tanh(z), sigmoid(o)
        log_f = np.minimum(f, 0) - np.log1p(np.exp(-np.abs(f)))
        before = np.where(n == 0, f.dtype.type(-np.inf), log_f + m)
        lead = i - before
        enter, keep = _shares(lead)
        new_c, new_n = keep * c + enter * z, keep * n + enter
        new_cell = np.concatenate([new_c, new_n, np.maximum(i, before)], axis=1)
        new_hidden = o * new_c / new_n
        return (new_hidden, new_cell), (hidden, cell, new_cell, lead, sigmoid(-f), z, o)

    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        _, cell, new_cell, lead, slope_f, z, o = kept
        c, n, _ = np.split(cell, 3, axis=1)
        new_c, new_n, _ = np.split(new_cell, 3, axis=1)
        grad_c, grad_n, grad_m = np.split(grad[1], 3, axis=1)
        enter, keep = _shares(lead)
        shown = new_c / new_n
        grad_o = grad[0] * shown * o * (1 - o)
        grad_c = grad_c + grad[0] * o / new_n
        grad_n = grad_n - grad[0] * o / new_n * shown
        grad_z = grad_c * enter * (1 - z * z)
        # One of I and F is always 1; the other is the exp of a difference.
        flow_i = (grad_c * z + grad_n) * enter
        flow_f = (grad_c * c + grad_n * n) * keep
        leads = lead > 0
        grad_i = np.where(leads, grad_m - flow_f, flow_i)
        grad_before = np.where(leads, flow_f, grad_m - flow_i)
        inner = np.concatenate([grad_i, grad_before * slope_f, grad_z, grad_o], axis=1)
        previous = np.concatenate([grad_c * keep, grad_n * keep, grad_before], axis=1)
        return StepGradients(inner, (inner @ self.weights.weight_hh, previous), (inner,))


def _shares(lead: Array) -> tuple[Array, Array]:
    """Return I and F from i - (log sigmoid(f) + m)."""
    return np.exp(np.minimum(lead, 0)), np.exp(np.minimum(-lead, 0))
