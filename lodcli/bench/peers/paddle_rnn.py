"""PaddlePaddle's recurrent layers on a padded batch, with sequence lengths."""

from __future__ import annotations

from typing import Any

# Imported before paddle: after it, modules of NumPy fail to load.
import numpy as np
import numpy.random
import paddle


def version() -> str:
    """Return the measured version."""
    return str(paddle.__version__)


def rnn(which: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of an RNN with Paddle."""
    model = _model(inputs)
    lengths, places = inputs["lengths"], inputs["places"]
    given = paddle.to_tensor(lengths)
    box = _boxed(inputs["data"], lengths, places)

    def rows(found: Any) -> Any:
        return found.numpy().reshape(-1, found.shape[2])[places]

    def forward() -> Any:
        with paddle.no_grad():
            return model(box, sequence_length=given)[0]

    if which == "forward":
        return {"sequence_length": (forward, lambda found: [rows(found)])}
    upstream = _boxed(inputs["upstream"], lengths, places)

    def training() -> Any:
        model.clear_gradients()
        source = box.detach()
        source.stop_gradient = False
        found = model(source, sequence_length=given)[0]
        found.backward(upstream)
        return found, source.grad

    def arrays(found: Any) -> list[Any]:
        return [rows(found[0]), rows(found[1]), model.weight_hh_l0.grad.numpy()]

    return {"sequence_length": (training, arrays)}


def _boxed(rows: Any, lengths: Any, places: Any) -> Any:
    box = np.zeros((lengths.size * int(lengths.max()), rows.shape[1]), rows.dtype)
    box[places] = rows
    return paddle.to_tensor(box.reshape(lengths.size, -1, rows.shape[1]))


def _model(inputs: dict[str, Any]) -> Any:
    kinds = {"lstm": paddle.nn.LSTM, "gru": paddle.nn.GRU, "elman": paddle.nn.SimpleRNN}
    # Layer.to(dtype=...) fails in Paddle 2.6: the flat weights are empty on a CPU.
    paddle.set_default_dtype(str(inputs["data"].dtype))
    model = kinds[inputs["cell"]](inputs["data"].shape[1], inputs["weight_hh"].shape[1])
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(model, name + "_l0").set_value(paddle.to_tensor(inputs[name]))
    return model
