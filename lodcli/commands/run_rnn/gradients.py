"""`lod run-rnn --grad` for each batch: forward, then backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.commands.run_rnn.runners import Feed, NestedRunner, PlainRunner, Runner
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.weights import require_real
from lodcli.kernels.rnn.nested.backward import nested_backward
from lodcli.kernels.rnn.nested.state_dict import nested_state_dict
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.embedding import EMBEDDING, embed_grad
from lodcli.kernels.rnn.stack.stack import stack_backward
from lodcli.kernels.rnn.stack.state_dict import state_dict
from lodcli.kernels.rnn.stack.states import last_of_gradient
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class _Gradients(Runner):
    """Sums the gradients of weights over batches, and reads upstream gradients from files.

    Attributes:
        upstream: upstream gradients by the name of the result; ones for other results.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.upstream: dict[str, Feed] = {}
        self._sums: dict[str, Array] = {}
        self.work.passes = 3

    def totals(self) -> dict[str, Array]:
        return self._sums

    def feeds(self) -> list[Feed]:
        return [*super().feeds(), *self.upstream.values()]

    def results(self) -> list[str]:
        """Return the names of the results that have an upstream gradient."""
        kinds = self.settings.kinds
        return [*(self.names if "all" in kinds else ()), *(("last",) if "last" in kinds else ())]

    def upstream_of(self, name: str, result: LoDTensor) -> Array:
        """Return the upstream gradient of a result."""
        feed = self.upstream.get(name)
        if feed is None:
            return np.ones_like(result.data)
        found = feed.take(result.rows)
        require_real("--upstream", found)
        if found.shape != result.data.shape:
            raise ShapeMismatchError(
                f"--upstream: expected rows of shape {result.row_shape} for {name}, "
                f"found {found.shape[1:]}"
            )
        return self.there(found.astype(result.dtype, copy=False))

    def written(self, tensor: LoDTensor, found: Any, level: int | str) -> dict[str, LoDTensor]:
        """Return the gradients of one batch that are written for each row and sequence.

        Those of initial states have a row for each sequence of `level`, in the form of --h0 and
        --c0; without these options, the rows of a single state are vectors.
        The gradient of the embedding, if there is one, is added to those of the weights.
        """
        if self.lookup is not None:
            table, ids = self.lookup.table, self.lookup.ids
            self.add({EMBEDDING: embed_grad(found.input, ids, len(table))})
        rows = found.input
        if self.standardization is not None:
            rows = rows / self.there(self.standardization.std.astype(rows.dtype))
        above = tensor.lod.above(level)
        results = {"input": tensor.with_data(rows.reshape(tensor.data.shape))}
        for name, array, feed in (
            ("h0", found.initial_hidden, self.settings.hidden),
            ("c0", found.initial_cell, self.settings.cell),
        ):
            if array is not None:
                as_vectors = len(array) == 1 and (feed is None or len(feed.row_shape) == 1)
                array = array[0] if as_vectors else array.swapaxes(0, 1)
                results[name] = LoDTensor(array, above)
        return results

    def add(self, found: dict[str, Array]) -> None:
        """Add the gradients of one batch."""
        for name, there in found.items():
            array = moved(there, "cpu")
            self._sums[name] = self._sums[name] + array if name in self._sums else array


class PlainGradients(_Gradients, PlainRunner):
    """The gradients of a plain RNN."""

    def __init__(self, *args: Any, chunking: Chunking, **more: Any) -> None:
        super().__init__(*args, **more)
        self.chunking = chunking if chunking != Chunking() else None

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        result = self.forward(tensor, keep=True, chunking=self.chunking)
        given: dict[str, Any] = {}
        if "all" in self.settings.kinds:
            given["grad_outputs"] = self.upstream_of("all", result.all)
        if "last" in self.settings.kinds:
            by_last = self.upstream_of("last", result.last)
            given["grad_last_hidden"] = last_of_gradient(self.weights, by_last)
        found = stack_backward(result.tape, **given, threads=self.settings.threads)
        self.add(state_dict(found.weights))
        return self.written(tensor, found, self.level)


class NestedGradients(_Gradients, NestedRunner):
    """The gradients of nested RNNs."""

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        result = self.forward(tensor, keep=True)
        top = self.rnn.levels[0]
        by_states, by_last = None, None
        if "all" in self.settings.kinds:
            by_states = tuple(map(self.upstream_of, self.names, result.states))
        if "last" in self.settings.kinds:
            by_last = last_of_gradient(top.weights, self.upstream_of("last", result.last))
        found = nested_backward(
            result.tape,
            grad_states=by_states,
            grad_last_hidden=by_last,
            threads=self.settings.threads,
        )
        self.add(nested_state_dict(found.levels, self.names))
        return self.written(tensor, found, top.level)
