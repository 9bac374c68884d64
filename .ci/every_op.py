"""Calls every op with compiled kernels for each supported dtype, on a few rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention import attention
from lodcli.kernels.ops.conv import conv, conv_grad, im2sequence
from lodcli.kernels.ops.elementwise import elementwise, elementwise_grad
from lodcli.kernels.ops.ids import edit_distance as distance
from lodcli.kernels.ops.ids import ids
from lodcli.kernels.ops.joining import concat, expand, windows
from lodcli.kernels.ops.norms import norms
from lodcli.kernels.ops.padding import pad
from lodcli.kernels.ops.pooling import pool, pool_grad
from lodcli.kernels.ops.pooling import topk_avg_pooling as topk
from lodcli.kernels.ops.scan import linear_scan, scan
from lodcli.kernels.ops.scatter import scatter
from lodcli.kernels.ops.slicing import reverse, slice
from lodcli.kernels.ops.softmax import softmax
from lodcli.kernels.ops.sorting import sort as order
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.cells.gru.gru import GRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.tensor.lod_tensor import LoDTensor

FLOATS = ("float32", "float64")
WHOLES = ("int32", "int64", "uint8")

Calls = Mapping[str, tuple[Callable[..., Any], ...]]

_LOD = LoD.from_lengths([[2, 1]])
_SINGLES = LoD.from_lengths([[1, 1]])


def run_all() -> int:
    """Call every op for every dtype, and every recurrent layer; return the number of calls."""
    count = 0
    for dtype in FLOATS + WHOLES:
        for calls in _calls(dtype).values():
            for call in calls:
                call(backend="numba")
                count += 1
    _run_layers()
    return count


def _run_layers() -> None:
    offsets = np.array([0, 2, 3])
    for kind in (LSTMWeights, GRUWeights, ElmanWeights):
        for dtype in (np.float32, np.float64):
            gates: Any = np.ones((kind.GATES, 1), dtype)
            run = rnn_forward(
                np.ones((3, 1), dtype), offsets, kind(weight_ih=gates, weight_hh=gates),
                keep=True, backend="numba",
            )  # fmt: skip
            assert run.tape is not None
            rnn_backward(run.tape, grad_outputs=run.outputs)


def _calls(dtype: str) -> Calls:
    """Return the calls, by the name of the op."""
    rows = LoDTensor(np.ones((3, 2), dtype), _LOD)
    column = LoDTensor(np.ones(3, dtype), _LOD)
    each = _moving(rows) | _ordering(rows, column) | _counting(rows)
    if dtype in FLOATS:
        return each | _smooth(rows, column)
    return each | {
        "ctc_align": (partial(distance.sequence_ctc_align, column),),
        "edit_distance": (partial(distance.sequence_edit_distance, column, column),),
        "enumerate": (partial(ids.sequence_enumerate, column, 2),),
        "erase": (partial(ids.sequence_erase, column, [7]),),
    }


def _moving(rows: LoDTensor) -> dict[str, tuple[Callable[..., Any], ...]]:
    """Return the ops that copy rows."""
    singles = LoDTensor(rows.data[:2], _SINGLES)
    images = LoDTensor(np.ones((1, 1, 2, 2), rows.dtype), LoD())
    box = np.ones((2, 2, 2), rows.dtype)
    return {
        "concat": (partial(concat.sequence_concat, [rows, rows]),),
        "expand": (partial(expand.sequence_expand, singles, rows),),
        "expand_as": (partial(expand.sequence_expand_as, singles, rows),),
        "im2sequence": (partial(im2sequence.sequence_im2sequence, images, kernels=(2, 2)),),
        "pad": (partial(pad.sequence_pad, rows),),
        "reverse": (partial(reverse.sequence_reverse, rows),),
        "slice": (partial(slice.sequence_slice, rows, [1, 0], [1, 1]),),
        "unpad": (partial(pad.sequence_unpad, box, [2, 1]),),
        "windows": (partial(windows.sequence_windows, rows, 1),),
    }


def _ordering(rows: LoDTensor, column: LoDTensor) -> dict[str, tuple[Callable[..., Any], ...]]:
    edges = np.array([0, 1, 2], rows.dtype)
    return {
        "argsort": (partial(order.sequence_argsort, rows),),
        "deduplicate": (partial(order.sequence_deduplicate, rows),),
        "histogram": (partial(order.sequence_histogram, column, edges),),
        "searchsorted": (partial(order.sequence_searchsorted, column, column),),
        "sort": (partial(order.sequence_sort, rows),),
        "topk": (partial(order.sequence_topk, rows, 1),),
        "unique": (partial(order.sequence_unique, column),),
        "unique_counts": (partial(order.sequence_unique_counts, column),),
    }


def _counting(rows: LoDTensor) -> dict[str, tuple[Callable[..., Any], ...]]:
    """Return the ops that reduce or combine numbers of any dtype."""
    one_each = LoDTensor(rows.data[:2], LoD())
    pools = ("first", "last", "max", "max_index", "mean", "min", "min_index", "sqrt", "sum")
    of_two = ("add", "sub", "mul", "div")
    return {
        **{name: (partial(getattr(pool, f"sequence_{name}"), rows),) for name in pools},
        **{
            name: (partial(getattr(elementwise, f"sequence_{name}"), rows, one_each),)
            for name in of_two
        },
        "cumprod": (partial(scan.sequence_cumprod, rows),),
        "cumsum": (partial(scan.sequence_cumsum, rows),),
        "dot": (partial(elementwise.sequence_dot, rows, rows),),
    }


def _smooth(rows: LoDTensor, column: LoDTensor) -> dict[str, tuple[Callable[..., Any], ...]]:
    """Return the ops of floating-point numbers, and all gradients."""
    data, lod, dtype = rows.data, rows.lod, rows.dtype
    one_each = LoDTensor(data[:2], LoD())
    targets = LoDTensor(np.ones((2, 3), dtype), LoD())
    places = LoDTensor(np.zeros(3, np.int64), lod)
    three = (rows, rows, rows)
    weight = np.ones((4, 2), dtype)
    matrices = (_LOD, _SINGLES)
    only: dict[str, Any] = {"topks": [1], "channel_num": 1}
    window: dict[str, Any] = {"context_length": 2, "context_start": 0}
    plain = _counting(rows)
    pools = ("first", "last", "mean", "sqrt", "sum")
    of_two = ("add", "sub", "mul", "div")
    grads = {
        **{
            name: partial(getattr(pool_grad, f"sequence_{name}_grad"), data[:2], rows)
            for name in pools
        },
        **{
            name: partial(getattr(elementwise_grad, f"sequence_{name}_grad"), data, rows, one_each)
            for name in of_two
        },
        "dot": partial(elementwise_grad.sequence_dot_grad, data[:2, 0], rows, rows),
        "cumprod": partial(scan.sequence_cumprod_grad, data, rows),
        "cumsum": partial(scan.sequence_cumsum_grad, data, rows),
    }
    return {
        **{name: (*calls, grads[name]) for name, calls in plain.items() if name in grads},
        "attention": (
            partial(attention.sequence_attention, *three),
            partial(attention.sequence_attention_grad, data, *three),
        ),
        "conv": (
            partial(conv.sequence_conv, rows, weight, **window),
            partial(conv_grad.sequence_conv_grad, data, rows, weight, **window),
        ),
        "layer_norm": (
            partial(norms.sequence_layer_norm, rows),
            partial(norms.sequence_layer_norm_grad, data, rows),
        ),
        "rms_norm": (
            partial(norms.sequence_rms_norm, rows),
            partial(norms.sequence_rms_norm_grad, data, rows),
        ),
        "linear_scan": (
            partial(linear_scan.sequence_linear_scan, rows, rows),
            partial(linear_scan.sequence_linear_scan_grad, data, rows, rows),
        ),
        "row_conv": (
            partial(conv.sequence_row_conv, rows, weight[:2]),
            partial(conv_grad.sequence_row_conv_grad, data, rows, weight[:2]),
        ),
        "scatter": (
            partial(scatter.sequence_scatter, targets, places, column),
            partial(scatter.sequence_scatter_grad, targets, targets, places, column),
        ),
        "topk_avg_pooling": (
            partial(topk.sequence_topk_avg_pooling, column, *matrices, **only),
            partial(topk.sequence_topk_avg_pooling_grad, data[:, :1], column, *matrices, **only),
        ),
        "softmax": _softmax(softmax.sequence_softmax, softmax.sequence_softmax_grad, rows, column),
        "log_softmax": _softmax(
            softmax.sequence_log_softmax, softmax.sequence_log_softmax_grad, rows, column
        ),
    }


def _softmax(
    op: Callable[..., Any], gradient: Callable[..., Any], rows: LoDTensor, column: LoDTensor
) -> tuple[Callable[..., Any], ...]:
    # Single values have a separate kernel.
    return partial(op, rows), partial(op, column), partial(gradient, rows, rows, result=rows)
