"""Layers and sequence ops for torch over ragged sequences; pip install 'lodcli[torch]'.

`LSTM`, `GRU` and `RNN` are torch.nn's with their names and state dicts. They take nested tensors,
packed sequences, LoDTensors and padded tensors with lengths, and train on the CPU with this engine.
So do the ops: `softmax`, `sum`, `concat` and all others of `lodcli.ops` that have a gradient. `from
lodcli.torch import *` leaves them out, because they would hide Python's `sum`, `max` and `slice`.
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import Home, by_module, lazy_names
from lodcli.kernels.ops.registry import OPS

_NAMES = by_module(
    {
        "lodcli.formats.loading.batches_torch": "Batches",
        "lodcli.formats.loading.dataset_torch": "Batch Collate Dataset collate",
        "lodcli.formats.loading.samplers": "BatchSampler",
        "lodcli.kernels.tensor.exchange.torch": "Varlen",
        "lodcli.kernels.torch.rnn": "GRU LSTM RNN replace restore",
    }
)


def _homes() -> dict[str, Home]:
    ops = {op.name: ("lodcli.kernels.torch.ops", op.name) for op in OPS.values() if op.tracked}
    return {**_NAMES, **ops}


__all__ = sorted(_NAMES)
_get, __dir__ = lazy_names(__name__, _homes)


def __getattr__(name: str) -> object:
    if name in OPS and not OPS[name].tracked:
        raise AttributeError(
            f"module 'lodcli.torch' has no attribute {name!r}: it has the ops with a gradient; "
            f"lodcli.ops.{name} takes LoDTensors"
        )
    if name in _NAMES:
        import lodcli.kernels.torch  # noqa: F401 - an error with a remedy without torch
    return _get(name)
