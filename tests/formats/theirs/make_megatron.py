"""Makes the Megatron datasets in this folder with megatron-core (0.19): python make_megatron.py"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

DOCUMENTS = [[[5, 6, 7], [8]], [], [[9, 10], [], [11, 12, 13, 14]]]


def make(prefix: str, dtype: type, *, modes: bool = False) -> None:
    """Write DOCUMENTS as megatron-core does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype, multimodal=modes)
    mode = 0
    import torch

    for document in DOCUMENTS:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64), mode)
            mode += 1
        builder.end_document()
    builder.finalize(f"{prefix}.idx")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    make(str(folder / "megatron"), np.uint16)
    make(str(folder / "megatron_modes"), np.int32, modes=True)
