"""PaddlePaddle's sequence ops on LoDTensors, in the last release that has them (2.6.2).

It reads OMP_NUM_THREADS and MKL_NUM_THREADS when it is loaded.
"""

from __future__ import annotations

import os
from typing import Any

# Otherwise it logs each program it runs.
os.environ.setdefault("GLOG_minloglevel", "2")
# Imported before paddle: after it, modules of NumPy fail to load.
import numpy as np
import numpy.random
import paddle
from paddle.base import core
from paddle.static import nn


def version() -> str:
    """Return the measured version."""
    return str(paddle.__version__)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of an op with Paddle."""
    paddle.enable_static()
    return _OPS[op](inputs) if op in _OPS else {}


class _Program:
    """A program of one op, its inputs set once as LoDTensors."""

    def __init__(self) -> None:
        self.program = paddle.static.Program()
        self.guard = paddle.static.program_guard(self.program, paddle.static.Program())
        self.feed: dict[str, Any] = {}
        self.executor = paddle.static.Executor(paddle.CPUPlace())

    def data(self, name: str, rows: Any, offsets: Any = None) -> Any:
        tensor = core.LoDTensor()
        tensor.set(rows, paddle.CPUPlace())
        if offsets is not None:
            tensor.set_recursive_sequence_lengths([np.diff(offsets).tolist()])
        self.feed[name] = tensor
        shape = [-1, *rows.shape[1:]]
        levels = 0 if offsets is None else 1
        return paddle.static.data(name, shape, str(rows.dtype), lod_level=levels)

    def way(self, wanted: Any, arrays: Any) -> Any:
        def call() -> Any:
            return self.executor.run(
                self.program, feed=self.feed, fetch_list=[wanted], return_numpy=False
            )

        return call, lambda found: arrays(np.array(found[0]))


def _simple(inputs: dict[str, Any], label: str, build: Any, of_full: bool = False) -> Any:
    program, full = _Program(), inputs["full"]
    with program.guard:
        wanted = build(program.data("x", inputs["data"], inputs["offsets"]))
    return {label: program.way(wanted, lambda rows: [rows[full] if of_full else rows])}


def _pooled(kind: str) -> Any:
    def build(inputs: dict[str, Any]) -> Any:
        label = f"sequence_pool {kind}"
        return _simple(inputs, label, lambda x: nn.sequence_pool(x, kind), of_full=True)

    return build


def _softmax(inputs: dict[str, Any]) -> Any:
    # It supports only rows of one value.
    if inputs["data"].shape[1] > 1:
        return {}
    return _simple(inputs, "sequence_softmax", nn.sequence_softmax)


def _pad(inputs: dict[str, Any]) -> Any:
    if int(np.diff(inputs["offsets"]).max()) > inputs["maxlen"]:
        return {}
    program = _Program()
    with program.guard:
        x = program.data("x", inputs["data"], inputs["offsets"])
        zero = paddle.static.data("zero", [1], "float32")
        program.feed["zero"] = np.zeros(1, np.float32)
        wanted = nn.sequence_pad(x, zero, maxlen=inputs["maxlen"])[0]
    return {"sequence_pad": program.way(wanted, lambda box: [box])}


def _unpad(inputs: dict[str, Any]) -> Any:
    program = _Program()
    with program.guard:
        box = program.data("box", inputs["box"])
        wanted = nn.sequence_unpad(box, program.data("kept", inputs["kept"]))
    return {"sequence_unpad": program.way(wanted, lambda rows: [rows])}


def _expand(inputs: dict[str, Any]) -> Any:
    program = _Program()
    with program.guard:
        values = program.data("values", inputs["values"])
        wanted = nn.sequence_expand_as(values, program.data("x", inputs["data"], inputs["offsets"]))
    return {"sequence_expand_as": program.way(wanted, lambda rows: [rows])}


def _concat(inputs: dict[str, Any]) -> Any:
    program = _Program()
    with program.guard:
        x = program.data("x", inputs["data"], inputs["offsets"])
        other = program.data("other", inputs["other"], inputs["other_offsets"])
        wanted = nn.sequence_concat([x, other])
    return {"sequence_concat": program.way(wanted, lambda rows: [rows])}


def _slice(inputs: dict[str, Any]) -> Any:
    # It does not support empty slices.
    if not inputs["slice_lengths"].min():
        return {}
    program = _Program()
    with program.guard:
        x = program.data("x", inputs["data"], inputs["offsets"])
        starts = program.data("starts", inputs["slice_starts"][:, None])
        lengths = program.data("lengths", inputs["slice_lengths"][:, None])
        wanted = nn.sequence_slice(x, starts, lengths)
    return {"sequence_slice": program.way(wanted, lambda rows: [rows])}


_OPS = {
    "sum": _pooled("sum"),
    "mean": _pooled("average"),
    "max": _pooled("max"),
    "first": _pooled("first"),
    "last": _pooled("last"),
    "softmax": _softmax,
    "pad": _pad,
    "unpad": _unpad,
    "expand": _expand,
    "concat": _concat,
    "slice": _slice,
    "reverse": lambda inputs: _simple(inputs, "sequence_reverse", nn.sequence_reverse),
}
