"""Recurrent networks over ragged sequences: cells, stacks, nesting, loops, training, weights.

The classes of the cells are derived from their table, kernels/rnn/cells/registry.py.
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import Home, by_module, lazy_names
from lodcli.kernels.rnn.cells.registry import CELLS

_RNN = "lodcli.kernels.rnn."
_NAMES = {
    "lodcli.formats.weights": "read_weights write_weights",
    _RNN + "cells.cell": "Cell CellWeights",
    _RNN + "cells.linear_cell": "LinearCell LinearWeights",
    _RNN + "cells.weights": "LayerWeights Sizes",
    _RNN + "cells.registry": "CELLS CellEntry",
    _RNN + "engine.engine": "RNNGradients RNNResult RNNTape States rnn_backward rnn_forward",
    _RNN + "loops.attention_lstm": "AttentionLSTMResult AttentionLSTMWeights attention_lstm",
    _RNN + "loops.dynamic_rnn": "DynamicOutput DynamicRNN",
    _RNN + "loops.while_loop": "Var WhileLoop while_loop",
    _RNN + "nested.backward": "LevelGradients NestedGradients nested_backward",
    _RNN + "nested.initial_states": "Boot",
    _RNN + "nested.nested": "NestedLevel NestedRNN NestedResult NestedTape nested_forward",
    _RNN + "nested.run": "NestedOutput run_nested",
    _RNN + "nested.state_dict": (
        "LevelShape nested_from_state_dict nested_state_dict seeded_nested"
    ),
    _RNN + "stack.chunked": "Chunk Chunking Chunks chunked_forward",
    _RNN + "stack.embedding": "embed embed_grad",
    _RNN + "stack.paddle_layout": ("gru_from_paddle gru_to_paddle lstm_from_paddle lstm_to_paddle"),
    _RNN + "stack.run": "RNNOutput run_rnn",
    _RNN + "stack.stack": (
        "RNNWeights StackGradients StackResult StackTape seeded_weights stack_backward "
        "stack_forward"
    ),
    _RNN + "stack.standardization": "Standardization",
    _RNN + "stack.state_dict": "StateDict state_dict weights_from_state_dict",
    _RNN + "training.adam": "Adam AdamState clipped",
    _RNN + "training.classifier": (
        "Classifier Scored classifier_from_arrays classifier_gradients classify seeded_classifier"
    ),
    _RNN + "training.loss": "Loss softmax_cross_entropy squared_error",
    _RNN + "training.train": (
        "Epoch Errors Evaluation Labelled Recipe accuracy evaluate prediction_errors train"
    ),
}


def _homes() -> dict[str, Home]:
    homes = by_module(_NAMES)
    for cell in CELLS.values():
        for kind in ("Cell", "Weights"):
            homes[cell.stem + kind] = f"{_RNN}cells.{cell.module}", cell.stem + kind
    return homes


__all__ = sorted(_homes())
__getattr__, __dir__ = lazy_names(__name__, _homes)
