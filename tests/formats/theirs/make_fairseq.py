"""Makes fairseq.bin and fairseq.idx with fairseq (0.12.2): python make_fairseq.py WHEEL

Of the wheel only the file with the writer is loaded: the package does not import in Python 3.11.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

SEQUENCES = [[5, 6, 7, 2], [2], [], [9, 10, 11, 12, 2]]


def writer(wheel: str) -> Any:
    """Return fairseq.data.indexed_dataset, whose imports of fairseq are replaced."""
    names = ("dataclass", "dataclass.constants", "data", "data.fasta_dataset", "file_io")
    for name in ("", *names, "data.huffman"):
        sys.modules[f"fairseq.{name}".rstrip(".")] = MagicMock()
    module = ModuleType("fairseq.data.indexed_dataset")
    module.__package__ = "fairseq.data"
    data: Any = sys.modules["fairseq.data"]
    data.FairseqDataset = object
    text = zipfile.ZipFile(wheel).read("fairseq/data/indexed_dataset.py")
    exec(compile(text, "indexed_dataset.py", "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    prefix = str(Path(__file__).parent / "fairseq")
    builder = writer(sys.argv[1]).MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for sequence in SEQUENCES:
        builder.add_item(torch.tensor(sequence, dtype=torch.int64))
    builder.finalize(f"{prefix}.idx")
