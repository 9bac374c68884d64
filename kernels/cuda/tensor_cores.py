"""Whether products are computed on tensor cores: tensor_cores.cuh."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.cuda.launch import limits
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.runtime.precision import Precision, current_precision

# Lowest compute capability that supports all instructions of tensor_cores.cuh.
TENSOR_CORES = (8, 0)


def precision_of(dtype: np.dtype[np.generic]) -> Precision:
    """Return the requested precision of products of a dtype.

    Raises:
        UnsupportedError: this GPU has no tensor cores for it.
    """
    precision = current_precision()
    if dtype != np.float32 or precision == "float32":
        return "float32"
    capability = limits().capability
    if capability < TENSOR_CORES:
        raise UnsupportedError(
            f"precision {precision} needs a GPU of compute capability 8.0 or later, this one is "
            f"of {'.'.join(map(str, capability))}; leave it float32"
        )
    return precision
