"""Every differentiable op: its arguments, and the same computation in torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.windows import sequence_interleave
from lodcli.kernels.ops.ranking.rank_table import sequence_rank_table, sequence_to_steps
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.kernels.ops import gradient_families as of
from tests.kernels.ops.gradient_parts import Case, Setting, one_tensor, per_sequence, plain, rows

ONE = ("numpy",)
CASES: dict[str, Case] = {
    "sum": of.pooled("sum", lambda torch, rows: rows.sum(0)),
    "mean": of.pooled("mean", lambda torch, rows: rows.sum(0) / len(rows)),
    "sqrt": of.pooled("sqrt", lambda torch, rows: rows.sum(0) / len(rows) ** 0.5),
    "first": of.pooled("first", lambda torch, rows: rows[0]),
    "last": of.pooled("last", lambda torch, rows: rows[-1]),
    "max": of.pooled("max", lambda torch, rows: rows.amax(0)),
    "max_index": of.pooled("max_index", lambda torch, rows: rows.amax(0)),
    "min": of.pooled("min", lambda torch, rows: rows.amin(0)),
    "min_index": of.pooled("min_index", lambda torch, rows: rows.amin(0)),
    **{name: of.arithmetic(name) for name in ("add", "sub", "mul", "div")},
    "dot": Case(
        op="dot",
        inputs=lambda s: [(s.rows, 3), (s.rows, 3)],
        given=lambda s, x: {"a": s.tensor(x[0]), "b": s.tensor(x[1])},
        torch=lambda s, torch, x: torch.stack([(x[0] * x[1])[lo:hi].sum() for lo, hi in s.cuts]),
    ),
    "softmax": of.softmaxed("softmax"),
    "log_softmax": of.softmaxed("log_softmax"),
    "cumsum": of.cumsum(False, False),
    "cumsum exclusive": of.cumsum(True, False),
    "cumsum reverse": of.cumsum(False, True),
    "cumsum reverse exclusive": of.cumsum(True, True),
    "cumprod": Case(
        op="cumprod",
        inputs=rows,
        given=one_tensor,
        torch=per_sequence(lambda torch, rows: rows.cumprod(0)),
    ),
    "linear_scan": of.linear_scan(False),
    "linear_scan reverse": of.linear_scan(True),
    "layer_norm": of.normed("layer_norm"),
    "rms_norm": of.normed("rms_norm"),
    "conv": of.convolved(-1, 1),
    "conv after, stride": of.convolved(1, 2),
    "row_conv": Case(
        op="row_conv",
        inputs=lambda s: [(s.rows, 2), (3, 2)],
        given=lambda s, x: {"tensor": s.tensor(x[0]), "weight": x[1]},
        torch=lambda s, torch, x: torch.cat(
            [
                sum(
                    torch.cat([x[0][lo:hi][k:], x[0].new_zeros(min(k, hi - lo), 2)]) * x[1][k]
                    for k in range(3)
                )
                for lo, hi in s.cuts
            ]
        ),
    ),
    "expand": of.expanded(0),
    "expand sequences": of.expanded(1),
    "expand_as": Case(
        op="expand_as",
        inputs=lambda s: [(s.count, 2)],
        given=lambda s, x: {"x": LoDTensor(x[0]), "y": s.tensor(np.zeros(s.rows))},
        torch=lambda s, torch, x: x[0].repeat_interleave(
            torch.tensor(np.diff(s.lod.absolute(s.level))), 0
        ),
    ),
    "concat": Case(
        op="concat",
        inputs=lambda s: [(s.rows, 2), (s.rows, 2)],
        given=lambda s, x: {"tensors": list(map(s.tensor, x))},
        torch=lambda s, torch, x: torch.cat([one[lo:hi] for lo, hi in s.cuts for one in x]),
        levels=(1,),
    ),
    "slice": Case(
        op="slice",
        inputs=rows,
        given=lambda s, x: one_tensor(s, x) | of.part_of(s),
    ),
    "truncate": Case(
        op="truncate",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "length": 2, "keep": "last"},
    ),
    "reverse": Case(
        op="reverse",
        inputs=rows,
        given=one_tensor,
        torch=per_sequence(lambda torch, rows: rows.flip(0)),
    ),
    "reverse items": Case(
        op="reverse",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "items": True},
    ),
    **{
        name: Case(
            op="shift",
            inputs=rows,
            given=partial(lambda lag, s, x: {**one_tensor(s, x), "lag": lag}, lag),
            torch=per_sequence(partial(of.shifted, lag)),
        )
        for name, lag in (("shift", 1), ("shift back", -2))
    },
    "diff": of.differences(1, False),
    **{
        f"diff {lag}{' padded' * padded}": of.differences(lag, padded)
        for lag, padded in ((1, True), (-1, False), (-1, True), (3, False), (3, True))
    },
    "reshape": Case(
        op="reshape",
        inputs=lambda s: [(s.rows, 4)],
        given=lambda s, x: {**one_tensor(s, x), "new_dim": 2},
        torch=lambda s, torch, x: x[0].reshape(-1, 2),
        backends=ONE,
    ),
    "lod_reset": Case(
        op="lod_reset",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "lengths": [[s.rows]]},
        levels=(1,),
        backends=ONE,
    ),
    "lod_append": Case(
        op="lod_append",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "lengths": [[1] * s.rows]},
        levels=(1,),
        backends=ONE,
    ),
    "pad": Case(
        op="pad",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "maxlen": 2, "truncate": True},
    ),
    "unpad": Case(
        op="unpad",
        inputs=lambda s: [(s.count, 9, 2)],
        given=lambda s, x: {"padded": x[0], "lengths": np.arange(s.count) % 10},
    ),
    "scatter": Case(
        op="scatter",
        inputs=lambda s: [(s.count, 4), (s.rows,)],
        given=lambda s, x: {
            "x": LoDTensor(x[0]), "ids": of.scatter_ids(s), "updates": s.tensor(x[1]),
        },
        torch=of.by_scatter,
    ),
    "sort": Case(
        op="sort",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "descending": True},
        torch=per_sequence(lambda torch, rows: rows.sort(0, descending=True).values),
    ),
    "topk": Case(
        op="topk",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "k": 2},
        torch=per_sequence(lambda torch, rows: rows.topk(min(2, len(rows)), 0).values),
    ),
    "topk_avg_pooling": Case(
        op="topk_avg_pooling",
        inputs=lambda s: [(s.rows,)],
        given=lambda s, x: one_tensor(s, x) | of.boxes(s),
        torch=of.by_topk_avg,
    ),
    "windows": Case(
        op="windows",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "length": 3, "stride": 2, "tail": "keep"},
    ),
    "attention": Case(
        op="attention",
        inputs=lambda s: [(s.rows, 2, 3)] * 3,
        given=lambda s, x: {
            **{key: s.tensor(one) for key, one in zip("qkv", x, strict=True)}, "causal": True,
        },
        torch=lambda s, torch, x: torch.cat(
            [
                torch.nn.functional.scaled_dot_product_attention(
                    *(one[lo:hi].transpose(0, 1) for one in x), is_causal=True
                ).transpose(0, 1)
                for lo, hi in s.cuts
            ]
        ),
    ),
    "im2sequence": Case(
        op="im2sequence",
        inputs=lambda s: [(2, 2, 4, 3)],
        given=lambda s, x: {"images": LoDTensor(x[0]), "kernels": (2, 2)},
        torch=lambda s, torch, x: torch.nn.functional.unfold(x[0], 2).transpose(1, 2).flatten(0, 1),
        levels=(1,),
    ),
    "interleave": Case(
        op="interleave",
        inputs=lambda s: [(s.rows, 2), (s.rows, 2)],
        given=lambda s, x: {"tensors": list(map(s.tensor, x))},
        torch=lambda s, torch, x: torch.cat([one[lo:hi] for lo, hi in s.cuts for one in x]),
        backends=ONE,
    ),
    "deinterleave": Case(
        op="deinterleave",
        inputs=lambda s: [(2 * s.rows, 2)],
        given=lambda s, x: {
            "tensor": sequence_interleave([of.zeros(s)] * 2, level=s.level).with_data(x[0]),
            "count": 2,
        },
        backends=ONE,
    ),
    "split_by_mask": Case(
        op="split_by_mask",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "mask": of.mask(s)},
        torch=lambda s, torch, x: torch.cat(
            [x[0][lo:hi] for lo, hi in (*s.cuts[::2], *s.cuts[1::2])]
        ),
        backends=ONE,
    ),
    "merge_by_mask": Case(
        op="merge_by_mask",
        inputs=lambda s: [(part.rows, 3) for part in of.masked(s)],
        given=lambda s, x: {
            **{
                key: part.with_data(one)
                for key, part, one in zip(("true", "false"), of.masked(s), x, strict=True)
            },
            "mask": of.mask(s),
            "above": s.lod.above(s.level),
        },
        backends=ONE,
    ),
    "reorder_by_rank": Case(
        op="reorder_by_rank",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "table": sequence_rank_table(s.lod)},
        levels=(0,),
        backends=ONE,
    ),
    "sort_by_length": Case(op="sort_by_length", inputs=rows, given=one_tensor, backends=ONE),
    "shrink_memory": Case(
        op="shrink_memory",
        inputs=rows,
        given=lambda s, x: {"x": s.tensor(x[0]), "table": sequence_rank_table(s.lod), "step": 2},
        torch=lambda s, torch, x: x[0][: s.lod.absolute(0)[(s.lod.lengths(0) > 2).sum()]],
        levels=(0,),
        backends=ONE,
    ),
    "to_steps": Case(
        op="to_steps",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "table": sequence_rank_table(s.lod, s.level)},
        backends=ONE,
    ),
    "from_steps": Case(
        op="from_steps",
        inputs=rows,
        given=lambda s, x: {
            "array": TensorArray.from_steps(
                sequence_to_steps(
                    of.zeros(s), sequence_rank_table(s.lod, s.level), s.level
                ).steps.with_data(x[0])
            ),
            "table": sequence_rank_table(s.lod, s.level),
            "outer": s.lod if s.level else s.lod.above(1),
        },
        backends=ONE,
    ),
}  # fmt: skip


def gradient_of(name: str, lod: LoD) -> Callable[[], Any]:
    """Return the call of the gradient of a case, under an index of two levels."""
    case = CASES[name]
    setting = Setting(lod, case.levels[-1], "auto")
    values = [np.linspace(0.1, 0.9, int(np.prod(s))).reshape(s) for s in case.inputs(setting)]
    given = case.arguments(setting, [each.astype(np.float32) for each in values])
    results = case.results(given)
    rows = np.ones_like(np.concatenate([plain(one) for one in results]))
    return case.gradient_call(case.upstream(results, rows), given)


# The result is integers or booleans, or the position of a value depends on equal values.
WITHOUT = {
    "argsort", "ctc_align", "deduplicate", "edit_distance", "enumerate", "erase", "histogram",
    "mask", "max_sequence_len", "rank_table", "searchsorted", "unique", "unique_counts",
}  # fmt: skip
