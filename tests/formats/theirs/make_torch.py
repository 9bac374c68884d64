"""Write torch/VERSION/*.pt beside this file with the torch that runs it: python make_torch.py.

Kept are those of torch 2.5.0, 2.13.0 and 2.15.0, installed from PyPI for Python 3.11.
"""

import warnings
from pathlib import Path

import torch
from torch.nn.utils.rnn import pack_sequence

warnings.simplefilter("ignore")  # of nested tensors, that they are a prototype
FOLDER = Path(__file__).parent / "torch" / torch.__version__.partition("+")[0]


def sequences() -> list[torch.Tensor]:
    """Return new ones each time: those that a nested tensor was made of bear marks of it."""
    return [torch.arange(6.0).reshape(3, 2), torch.zeros(0, 2), torch.ones(2, 2)]


def parts() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows and offsets of the sequences."""
    return torch.cat(sequences()), torch.tensor([0, 3, 3, 5])


def jagged(rows: torch.Tensor) -> torch.Tensor:
    """Return these rows as a nested tensor."""
    return torch.nested.nested_tensor_from_jagged(rows, parts()[1])


VALUES = {
    "jagged": jagged(parts()[0]),
    "jagged_of_list": torch.nested.nested_tensor(sequences(), layout=torch.jagged),
    "jagged_bfloat16": jagged(parts()[0].bfloat16()),
    "jagged_with_holes": torch.nested.narrow(
        torch.arange(24.0).reshape(2, 4, 3),
        1,
        torch.tensor([0, 1]),
        torch.tensor([2, 3]),
        layout=torch.jagged,
    ),
    "strided": torch.nested.nested_tensor(sequences()),
    "packed": pack_sequence([torch.ones(2, 2), sequences()[0]], enforce_sorted=False),
    "list": sequences(),
    "dict": dict(zip(("data", "lod.0"), parts(), strict=True)),
    "several": {
        "nested": jagged(parts()[0]),
        "turned": torch.arange(6).reshape(2, 3).T,
        "conjugate": torch.tensor([1 + 2j, 3 - 1j]).conj(),
        "weight": torch.nn.Parameter(torch.ones(2, 2)),
        "model": torch.nn.Linear(2, 1, bias=False).state_dict(),
    },
}

FOLDER.mkdir(parents=True, exist_ok=True)
for name, value in VALUES.items():
    torch.save(value, FOLDER / f"{name}.pt")
