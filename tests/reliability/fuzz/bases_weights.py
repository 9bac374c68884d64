"""Files with the weights of RNNs, written by lod and by other libraries.

Other libraries store the same weights in other orders and shapes. The weights that lod reads from
their files are used as the known content only if they compute the same results.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.formats.weights import read_weights, write_weights
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_forward
from lodcli.kernels.rnn.stack.state_dict import rnn_prefixes, state_dict, weights_from_state_dict
from tests.reliability.fuzz.base import WEIGHTS, Base, base
from tests.reliability.fuzz.bases_theirs import MADE
from tests.reliability.fuzz.known import Content, known

CLOSE = 1e-6  # float32, sums of eight products, two layers
# By kind: the ending, a cell it holds as it is, and which mutators the file gets.
KINDS = {
    "safetensors": (".safetensors", "lstm", "safetensors"),
    "torch": (".pt", "lstm", "torch"),
    "keras": (".keras", "lstm", "keras"),
    "keras-h5": (".weights.h5", "lstm", "hdf5"),
    "onnx": (".onnx", "lstm", "onnx"),
    "paddle": (".lodt", "lstm", "paddle"),
}
# By name of a file: under which name what it computes is kept.
THEIRS = {
    "keras_lstm.keras": ("keras.npz", "lstm", "keras"),
    "keras_lstm.weights.h5": ("keras.npz", "lstm", "hdf5"),
    "keras_gru.h5": ("keras.npz", "gru", "hdf5"),
    "torch_gru.onnx": ("torch_onnx.npz", "gru", "onnx"),
    "torch_lstm.onnx": ("torch_onnx.npz", "lstm", "onnx"),
}


def _content(path: Path) -> Content:
    return {name: known(array) for name, array in read_weights(path).items()}


for _kind, (_ending, _cell, _damage) in KINDS.items():

    @base(f"weights, {_kind}")
    def ours(
        kind: str = _kind, ending: str = _ending, cell: str = _cell, damage: str = _damage
    ) -> Base:
        rng = np.random.default_rng(1)
        weights = seeded_weights(cell, 3, 4, rng=rng, dtype="float32", layers=2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"good{ending}")
            write_weights(path, weights, kind=kind)
            found = weights_from_state_dict(read_weights(path))
            data = rng.normal(size=(5, 3)).astype(np.float32)
            expected, there = (_outputs(one, data) for one in (weights, found))
            np.testing.assert_allclose(there, expected, rtol=0, atol=CLOSE)
            content = {name: known(array) for name, array in state_dict(weights).items()}
            if kind in ("keras", "keras-h5", "onnx", "paddle"):  # which join the two biases
                content = _content(path)
            return _base(path, content, damage)


for _name, (_file, _array, _damage) in THEIRS.items():

    @base(f"weights, theirs {_name}")
    def theirs(
        name: str = _name, file: str = _file, array: str = _array, damage: str = _damage
    ) -> Base:
        with np.load(MADE / file) as made:
            data, expected = made["x"], made[array]
        stored = read_weights(MADE / name)
        # A .weights.h5 does not store how its layers are connected.
        found = weights_from_state_dict(stored, prefix=",".join(rnn_prefixes(stored)))
        np.testing.assert_allclose(_outputs(found, data), expected, rtol=0, atol=CLOSE)
        return _base(MADE / name, _content(MADE / name), damage)


@base("weights, theirs rnn031.pdiparams")
def theirs_of_paddle() -> Base:
    path = MADE / "rnn031.pdiparams"
    return _base(path, _content(path), "paddle")


def _outputs(weights: Any, data: Any) -> Any:
    return stack_forward(data, np.array([0, len(data)]), weights).outputs


def _base(path: Path, content: Content, kind: str) -> Base:
    files = {path.name: path.read_bytes()}
    sealed = kind in ("keras", "torch")
    return Base(WEIGHTS, files, path.name, content, sealed=sealed, kinds={path.name: kind})
