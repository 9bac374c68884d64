"""Layers for torch over ragged sequences; needs torch, pip install 'lodcli[torch]'.

`LSTM`, `GRU` and `RNN` are torch.nn's with their names and state dicts. They take nested tensors,
packed sequences, LoDTensors and padded tensors with lengths, and train on the CPU with this engine.
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import by_module, lazy_names

_HOMES = by_module({"lodcli.kernels.torch.rnn": "GRU LSTM RNN replace restore"})
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, lambda: _HOMES)
