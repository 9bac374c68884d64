"""Weights in Paddle's LoDTensor streams: those of lstm, gru, fusion_lstm and fusion_gru.

A file contains the tensors of each cell: WeightX (D, gates*H) of a fusion op, which lstm and gru do
not have, Weight (H, gates*H), and Bias (1, ..); layer by layer, forward and then backward.
save_vars sorts by name, so Bias is first: that order is read as well. The layouts are in
kernels/rnn/stack/paddle_layout.py; options are not in the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Item, schema_of
from lodcli.formats.paddle.lod_tensor import Paddle
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.weights.common import gated, one_bias
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.stack.paddle_layout import (
    gru_from_paddle,
    gru_to_paddle,
    lstm_blocks_to_paddle,
    lstm_from_paddle,
    lstm_to_paddle,
)
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import StateDict, state_dict
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Accepted orders of the tensors of a cell: WeightX (x), Weight (w) and Bias (b).
_ORDERS = ("xwb", "wb", "bxw", "bwx", "bw", "xw", "w")
_REMEDY = (
    "from the file of a whole model take them in Python, with lodcli.read_all and "
    "lodcli.rnn.lstm_from_paddle or gru_from_paddle"
)


def read(source: Input) -> StateDict:
    """Return the weights of the cells in a file by torch's names.

    Inputs of lstm and gru are already projected: weight_ih is then the permutation of their blocks
    to the order of weight_hh, so that the RNN runs on the same data.
    """
    opened = Paddle().open(source, ReadOptions())
    arrays = [_array(item) for item in opened.read().values()]
    order = _order(arrays)
    parts = [
        dict(zip(order, arrays[start : start + len(order)], strict=True))
        for start in range(0, len(arrays), len(order))
    ]
    cells = [_cell(part) for part in parts]
    directions = _directions(cells)
    layers = tuple(
        tuple(cells[start : start + directions]) for start in range(0, len(cells), directions)
    )
    weights = RNNWeights(layers)
    found = state_dict(weights)
    return StateDict(found, found.said, untold=weights.option_names())


def write(weights: RNNWeights, output: Output) -> None:
    """Write the cells one after another; options are not stored, Paddle's ops need them again."""
    tensors: list[Array] = []
    for layer in weights.layers:
        for cell in layer:
            tensors += _to_paddle(gated(cell))
    if len(weights.layers) * weights.directions == 2:
        _refuse_ambiguous(weights)
    items: dict[str, Item] = {str(n): LoDTensor(array) for n, array in enumerate(tensors)}
    schema = schema_of(items)
    Paddle().write(output, schema, [items], WriteOptions())


def _array(item: Item) -> Array:
    if not isinstance(item, LoDTensor) or item.lod.n_levels or item.data.ndim != 2:
        found = f"shape {item.data.shape}" if isinstance(item, LoDTensor) else "a record"
        raise InvalidDataError(
            "expected matrices without levels, the weights of lstm or gru ops, "
            f"found {found}; {_REMEDY}"
        )
    if item.dtype.kind != "f":
        raise InvalidDataError(f"expected weights of float32 or float64, found {item.dtype}")
    return item.data


def _order(arrays: Sequence[Array]) -> str:
    """Return the order of x, w and b that matches all cells of the file."""
    fitting = [order for order in _ORDERS if _all_fit(arrays, order)]
    if fitting[:2] == ["bxw", "bwx"]:
        raise InvalidDataError(
            "WeightX and Weight have the same shape, and after Bias their order is unknown; write "
            "them in the order WeightX, Weight, Bias"
        )
    if fitting:
        return fitting[0]
    shapes = ", ".join(str(array.shape) for array in arrays[:6])
    raise InvalidDataError(
        "no weights of Paddle's lstm or gru: expected WeightX (D, kH) or none, Weight (H, kH), "
        f"Bias (1, kH) or none, with k 4 or 3, for each cell; found {shapes}; {_REMEDY}"
    )


def _all_fit(arrays: Sequence[Array], order: str) -> bool:
    size = len(order)
    return len(arrays) % size == 0 and all(
        _fits(dict(zip(order, arrays[start : start + size], strict=True)))
        for start in range(0, len(arrays), size)
    )


def _fits(parts: dict[str, Array]) -> bool:
    size, width = parts["w"].shape
    gates = width // size if size else 0
    if gates not in (3, 4) or width != gates * size:
        return False
    widths = (4 * size, 7 * size) if gates == 4 else (3 * size,)
    bias, weight_x = parts.get("b"), parts.get("x")
    return (bias is None or (bias.shape[0] == 1 and bias.shape[1] in widths)) and (
        weight_x is None or weight_x.shape[1] == width
    )


def _cell(parts: dict[str, Array]) -> CellWeights:
    weight, bias, weight_x = parts["w"], parts.get("b"), parts.get("x")
    size, width = weight.shape
    if weight_x is None:
        weight_x = np.eye(width, dtype=weight.dtype)
    if width == 3 * size:
        return gru_from_paddle(weight, bias, weight_x=weight_x)
    peepholes = bias is not None and bias.shape[1] == 7 * size
    return lstm_from_paddle(weight, bias, peepholes, weight_x=weight_x)


def _directions(cells: Sequence[CellWeights]) -> int:
    """Return whether the cells are layers (1) or layers in two directions (2).

    Raises:
        InvalidDataError: neither fits, or both.
    """
    widths = [cell.input_size for cell in cells]
    hidden = cells[0].hidden_size
    one = all(width == hidden for width in widths[1:])
    two = len(cells) % 2 == 0 and widths[0] == widths[1]
    two = two and all(width == 2 * hidden for width in widths[2:])
    if one and two:
        raise InvalidDataError(
            "two cells of the same shape: a Paddle file does not store whether they are layers or "
            "directions; write each cell to a separate file"
        )
    if not one and not two:
        raise InvalidDataError(
            f"{len(cells)} cells of hidden size {hidden} that take {widths} values are neither "
            "layers nor directions of one RNN"
        )
    return 1 if one else 2


def _refuse_ambiguous(weights: RNNWeights) -> None:
    first, last = weights.layers[0][0], weights.layers[-1][-1]
    if first.input_size == last.input_size == first.hidden_size:
        raise UnsupportedError(
            "a Paddle file does not store whether two cells of the same shape are layers or "
            "directions; write another kind of weights"
        )


def _to_paddle(cell: CellWeights) -> list[Array]:
    total = one_bias(cell)
    if total is None:
        # Paddle's lstm requires it, and without it WeightX (1, 3H) of a gru would look like it.
        total = np.zeros(cell.GATES * cell.hidden_size, cell.weight_hh.dtype)
    if isinstance(cell, LSTMWeights):
        if cell.weight_hr is not None:
            raise UnsupportedError("Paddle's lstm has no projection")
        if cell.coupled:
            raise UnsupportedError("Paddle's lstm has no coupled gates")
        plain = LSTMWeights(
            weight_ih=None, weight_hh=cell.weight_hh, bias_ih=total, peepholes=cell.peepholes
        )
        weight, bias = lstm_to_paddle(plain)
        weight_x = None if cell.weight_ih is None else lstm_blocks_to_paddle(cell.weight_ih.T)
    elif isinstance(cell, PaddleGRUWeights):
        plain_gru = PaddleGRUWeights(weight_ih=None, weight_hh=cell.weight_hh, bias_ih=total)
        weight, bias = gru_to_paddle(plain_gru)
        weight_x = None if cell.weight_ih is None else cell.weight_ih.T
    else:
        raise UnsupportedError(
            f"Paddle's ops are lstm and gru with the reset before the matmul; {cell.KIND} is none"
        )
    if weight_x is not None and np.array_equal(weight_x, np.eye(*weight_x.shape)):
        weight_x = None
    return [np.ascontiguousarray(part) for part in (weight_x, weight, bias) if part is not None]
