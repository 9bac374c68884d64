"""The exponential moving average of every sequence. An example of an op for lod.

y[0] = x[0]
y[t] = decay y[t-1] + (1 - decay) x[t]
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli import InvalidDataError, LoDTensor
from lodcli.errors import NotFloatingError
from lodcli.ops import Op

Rows = npt.NDArray[Any]


def sequence_ema(tensor: LoDTensor, *, decay: float = 0.9, level: int | str = -1) -> LoDTensor:
    """Return the exponential moving average of the rows of every sequence.

    Args:
        tensor: data (N, ...) of floating numbers, at least one level.
        decay: the weight of the average so far, 0 to 1.
        level: the level whose sequences are averaged.
    """
    check(tensor, decay)
    x = tensor.data
    y = x.copy()
    for start, stop in pairwise(bounds(tensor, level)):
        for row in range(start + 1, stop):
            y[row] = decay * y[row - 1] + (1 - decay) * x[row]
    return tensor.with_data(y)


def sequence_ema_grad(
    upstream: LoDTensor | npt.ArrayLike,
    tensor: LoDTensor,
    *,
    decay: float = 0.9,
    level: int | str = -1,
) -> LoDTensor:
    """Return the gradient of `sequence_ema` for the rows."""
    check(tensor, decay)
    gradient = np.array(upstream.data if isinstance(upstream, LoDTensor) else upstream)
    for start, stop in pairwise(bounds(tensor, level)):
        for row in range(stop - 1, start, -1):
            gradient[row - 1] += decay * gradient[row]
            gradient[row] *= 1 - decay
    return tensor.with_data(gradient)


def check(tensor: LoDTensor, decay: float) -> None:
    """Raise for rows that are no floating numbers, and for another weight."""
    if not np.issubdtype(tensor.dtype, np.floating):
        raise NotFloatingError(f"ema: expected floating numbers, found {tensor.dtype}")
    if not 0 <= decay <= 1:
        raise InvalidDataError(f"ema: expected a decay from 0 to 1, found {decay}")


def bounds(tensor: LoDTensor, level: int | str) -> list[int]:
    """Return where the sequences of a level begin, in rows, and the last ends."""
    ends: list[int] = tensor.lod.absolute(tensor.lod.level(level)).tolist()
    return ends


EMA = Op(
    sequence_ema,
    "the exponential moving average of every sequence",
    "y[lo] = x[lo], y[r] = d y[r-1] + (1 - d) x[r]",
    itemwise=True,
    gradient=sequence_ema_grad,
    keeps="tensor",
)
