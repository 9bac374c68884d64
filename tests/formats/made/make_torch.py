"""Write the .pt files beside this one; made with torch 2.13.0: python make_torch.py."""

from pathlib import Path

import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

HERE = Path(__file__).parent
SEQUENCES = [torch.arange(6.0).reshape(3, 2), torch.arange(2.0).reshape(1, 2) - 9, torch.ones(2, 2)]

packed = pack_sequence(SEQUENCES, enforce_sorted=False)
nested = torch.nested.nested_tensor(SEQUENCES, layout=torch.jagged)
torch.save(nested, HERE / "nested.pt")
torch.save(packed, HERE / "packed.pt")
torch.save(pad_packed_sequence(packed, batch_first=True), HERE / "padded.pt")
torch.save(SEQUENCES, HERE / "list.pt")
torch.save(
    {
        "nested": nested,
        "packed": packed,
        "deep": [SEQUENCES, [], SEQUENCES[:1]],
        "plain": torch.tensor([1, 2], dtype=torch.int16),
        "half": torch.ones(2, 1, dtype=torch.bfloat16),
    },
    HERE / "several.pt",
)
