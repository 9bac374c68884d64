"""Write the .onnx files beside this one, and what torch computes: torch 2.13.0, onnx 1.23.

python make_onnx.py
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent


class Outputs(torch.nn.Module):
    """An RNN without its last states, and a layer behind it."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn = rnn
        self.dense = torch.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.dense(self.rnn(x)[0])


torch.manual_seed(0)
x = torch.randn(5, 1, 3)
content: Any = {"x": x[:, 0].numpy()}
for kind in ("LSTM", "GRU", "RNN"):
    rnn = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)
    path = HERE / f"torch_{kind.lower()}.onnx"
    torch.onnx.export(Outputs(rnn), (x,), str(path), dynamo=False)
    content[kind.lower()] = rnn(x)[0][:, 0].detach().numpy()
np.savez(HERE / "torch_onnx.npz", **content)
