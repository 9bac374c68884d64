"""FlashRNN on a padded batch: recurrent weights in registers, or a kernel for each step."""

from __future__ import annotations

from typing import Any

import flashrnn
import torch
from torch.nn.utils.rnn import pad_sequence

from lodcli.bench.peers.torch import require_gpu, threads

__all__ = ["require_gpu", "rnn", "threads", "version"]

NAMES = {"lstm": "lstm", "gru": "gru", "elman": "elman"}
BACKENDS = ("cuda_fused", "cuda")


def version() -> str:
    """Return the measured version."""
    from importlib import metadata

    return metadata.version("flashrnn")


def rnn(which: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an RNN with FlashRNN whose kernels compile for this size."""
    if inputs["precision"] == "tf32":
        raise ValueError("FlashRNN has no tf32")
    ways, failed = {}, ""
    for backend in BACKENDS:
        call, arrays = _way(which, inputs, backend)
        try:
            call()
        except Exception as error:
            # It has no kernel for this size, or there is no compiler.
            failed = f"{type(error).__name__}: {error}"
            continue
        ways[backend] = (call, arrays)
    if not ways:
        raise RuntimeError(failed)
    return ways


def _way(which: str, inputs: dict[str, Any], backend: str) -> tuple[Any, Any]:
    device, lengths = str(inputs.get("device", "cpu")), inputs["lengths"].tolist()
    name = inputs["precision"]
    dtype = getattr(torch, name)

    def there(array: Any) -> Any:
        # A copy: tensors with gradients must not share memory with the inputs.
        return torch.as_tensor(array, device=device).to(dtype).clone()

    def padded(rows: Any) -> Any:
        return pad_sequence(list(torch.split(there(rows), lengths)), batch_first=True)

    hidden = inputs["weight_hh"].shape[1]
    box = padded(inputs["data"])
    weight_ih, weight_hh = there(inputs["weight_ih"]), there(inputs["weight_hh"])
    recurrent, bias = _by_gates(inputs["cell"], weight_hh, inputs, there)
    gates = weight_ih.shape[0] // hidden

    def run(rows: Any, weights: Any) -> Any:
        projected = (rows @ weight_ih.T).view(*rows.shape[:2], gates, 1, hidden)
        cell = NAMES[inputs["cell"]]
        states, _ = flashrnn.flashrnn(
            projected, weights, bias, function=cell, backend=backend, dtype=name
        )
        return states[0][:, :, 0]

    def rows_of(found: Any) -> Any:
        flat = found.detach().float().flatten(0, 1)
        return flat.cpu().numpy()[inputs["places"]]

    if which == "forward":

        def forward() -> Any:
            with torch.no_grad():
                return run(box, recurrent)

        return forward, lambda found: [rows_of(found)]
    upstream = padded(inputs["upstream"])

    def training() -> Any:
        rows = box.detach().requires_grad_(True)
        weights = recurrent.detach().requires_grad_(True)
        found = run(rows, weights)
        found.backward(upstream)
        return found, rows.grad, weights.grad

    def arrays(found: Any) -> list[Any]:
        weight = found[2][:, 0].float()
        if inputs["cell"] == "gru":
            weight = weight[[1, 2, 0]]
        return [*map(rows_of, found[:2]), weight.reshape(-1, hidden).cpu().numpy()]

    return training, arrays


def _by_gates(cell: str, weight_hh: Any, inputs: dict[str, Any], there: Any) -> tuple[Any, Any]:
    """Return recurrent weights (G, 1, H, H) and biases (G, 1, H) in FlashRNN's order of gates."""
    hidden = weight_hh.shape[1]
    weights = weight_hh.view(-1, 1, hidden, hidden)
    first, second = (there(inputs[name]).view(-1, 1, hidden) for name in ("bias_ih", "bias_hh"))
    if cell != "gru":
        return weights, first + second
    # The product multiplied by the reset gate comes first and has a separate bias.
    bias = torch.stack([second[2], first[0] + second[0], first[1] + second[1], first[2]])
    return weights[[2, 0, 1]].contiguous(), bias
