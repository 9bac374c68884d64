"""Arguments for every op of the registry, made from one tensor; also for new ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.commands.apply.arguments import described
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.rank_table import sequence_rank_table, sequence_to_steps
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def _ones(x: LoDTensor, *shape: int) -> Any:
    return np.ones(shape, x.dtype)


def _width(x: LoDTensor) -> int:
    return int(np.prod(x.row_shape))


def _count(x: LoDTensor) -> int:
    return x.lod.count(-1)


def _alone(x: LoDTensor) -> LoDTensor:
    """Return the finest sequences without the levels above."""
    return LoDTensor(x.data, LoD(x.lod.levels[-1:]), x.marks)


def _per_sequence(x: LoDTensor) -> LoDTensor:
    return LoDTensor(_ones(x, _count(x), *x.row_shape), marks=x.marks)


def _with_value(x: LoDTensor) -> dict[str, Any]:
    return {"tensor": x, "other": _per_sequence(x)}


def _mask(x: LoDTensor) -> list[bool]:
    return [place % 2 == 0 for place in range(len(x))]


# What an op takes beside its first tensor, or in place of it.
MAKE: dict[str, Callable[[LoDTensor], dict[str, Any]]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _with_value),
    "attention": lambda x: {"q": x, "k": x, "v": x},
    "concat": lambda x: {"tensors": [x, x]},
    "conv": lambda x: {
        "tensor": x, "weight": _ones(x, 2 * _width(x), 2), "context_length": 2,
        "context_start": -1, "level": -1,
    },
    "deinterleave": lambda x: {"tensor": x, "count": 1},
    "dot": lambda x: {"a": x, "b": x},
    "edit_distance": lambda x: {"hyps": x, "refs": x, "normalized": False},
    "enumerate": lambda x: {"tensor": x, "win_size": 2},
    "erase": lambda x: {"tensor": x, "tokens": [1]},
    "expand": lambda x: {"x": _alone(x), "y": x},
    "expand_as": lambda x: {"x": _per_sequence(x), "y": x, "level": -1},
    "from_steps": lambda x: {
        "array": sequence_to_steps(x, sequence_rank_table(x.lod)),
        "table": sequence_rank_table(x.lod),
        "outer": LoD(x.lod.levels[:1]),
    },
    "histogram": lambda x: {"tensor": x, "edges": [0, 1, 2]},
    "im2sequence": lambda x: {
        "images": LoDTensor(x.data.reshape(x.rows, 1, 1, _width(x))), "kernels": (1, 1),
    },
    "interleave": lambda x: {"tensors": [x, x]},
    "linear_scan": lambda x: {"a": x, "b": x},
    "lod_append": lambda x: {
        "tensor": LoDTensor(x.data, [[x.rows]], x.marks), "lengths": [[1] * x.rows],
    },
    "lod_reset": lambda x: {"tensor": x, "lengths": [[x.rows]]},
    "mask": lambda x: {"lengths": x.data, "maxlen": 3},
    "max_sequence_len": lambda x: {"table": sequence_rank_table(x.lod)},
    "merge_by_mask": lambda x: {
        "true": x, "false": x, "mask": [True] * len(x) + [False] * len(x),
    },
    "pad": lambda x: {"tensor": x, "level": -1},
    "rank_table": lambda x: {"lod": x.lod},
    "reorder_by_rank": lambda x: {"tensor": x, "table": sequence_rank_table(x.lod)},
    "reshape": lambda x: {"tensor": x, "new_dim": 1, "level": -1},
    "row_conv": lambda x: {"tensor": x, "weight": _ones(x, 2, _width(x))},
    "scatter": lambda x: {
        "x": LoDTensor(_ones(x, _count(x), 2)), "ids": x.with_data(np.zeros(x.rows, int)),
        "updates": x,
    },
    "searchsorted": lambda x: {"tensor": x.with_data(np.ones_like(x.data)), "values": x},
    "shrink_memory": lambda x: {"x": x, "table": sequence_rank_table(x.lod), "step": 1},
    "slice": lambda x: {
        "tensor": x, "offset": x.lod.lengths(-1) // 2, "length": x.lod.lengths(-1) // 2,
        "level": -1,
    },
    "split_by_mask": lambda x: {"tensor": x, "mask": _mask(x)},
    "to_steps": lambda x: {"tensor": x, "table": sequence_rank_table(x.lod)},
    "topk": lambda x: {"tensor": x, "k": 2},
    "topk_avg_pooling": lambda x: {
        "tensor": x, "row": LoD.from_lengths([np.ones(_count(x), int)]),
        "column": LoD.from_lengths([x.lod.lengths(-1)]), "topks": [1, 2], "channel_num": 1,
    },
    "truncate": lambda x: {"tensor": x, "length": 1},
    "unpad": lambda x: {"padded": x.data, "lengths": [0] * x.rows},
    "windows": lambda x: {"tensor": x, "length": 2},
}  # fmt: skip


def arguments(name: str, x: LoDTensor, backend: str | None = None) -> dict[str, Any]:
    """Return arguments of an op, made from a tensor of at least one level."""
    own = described(OPS[name])
    if name in MAKE:
        found = MAKE[name](x)
    else:
        assert not any(one.required for one in own.options), f"{name}: give them in MAKE"
        assert [one.kind for one in own.inputs] == ["tensor"], f"{name}: give them in MAKE"
        found = {own.inputs[0].name: x}
    return found if backend is None else {**found, "backend": backend}


def results(name: str, x: LoDTensor, backend: str | None = None) -> list[LoDTensor]:
    """Return the results of an op, as tensors."""
    found = described(OPS[name]).function(**arguments(name, x, backend))
    if not isinstance(found, tuple | list):
        found = [found]
    steps = [one.steps if hasattr(one, "steps") else one for one in found]
    return [
        one if isinstance(one, LoDTensor) else LoDTensor(np.atleast_1d(np.asarray(one)))
        for one in steps
    ]
