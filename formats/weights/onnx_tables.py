"""ONNX's names and orders of gates; the optional package onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lodcli.formats.catalogue.packages import Package
from lodcli.kernels.index.checks import Array

# Position of each of torch's blocks in ONNX's order: i f g o in i o f c; r z n in z r h.
ORDERS = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2), "gru_paddle": (0, 1, 2), "elman": (0,)}
PEEPHOLES = (0, 2, 1)  # i f o in i o f
ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def reordered(array: Array, order: Sequence[int] | Array) -> Array:
    """Return the gate blocks of an array in another order."""
    blocks = np.split(array, len(order))
    return np.concatenate([blocks[place] for place in order])


def onnx() -> Any:
    """Return the package.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import onnx as package
    except ModuleNotFoundError:
        raise Package("onnx", "lodcli[onnx]").missing("an ONNX model") from None
    return package
