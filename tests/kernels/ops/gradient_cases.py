"""Every differentiable op as plain functions: forward, backward, and the same in torch."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention import attention
from lodcli.kernels.ops.conv import conv, conv_grad
from lodcli.kernels.ops.conv import im2sequence as pictures
from lodcli.kernels.ops.elementwise import elementwise, elementwise_grad
from lodcli.kernels.ops.joining import concat, expand, windows
from lodcli.kernels.ops.padding import pad
from lodcli.kernels.ops.pooling import topk_avg_pooling
from lodcli.kernels.ops.reshaping import reshape
from lodcli.kernels.ops.scan import scan
from lodcli.kernels.ops.scatter import scatter
from lodcli.kernels.ops.slicing import reverse, truncate
from lodcli.kernels.ops.slicing import slice as cutting
from lodcli.kernels.ops.sorting import sort as order
from lodcli.kernels.ops.sorting import sort_grad as order_grad
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops import gradient_families as of
from tests.kernels.ops.gradient_parts import Case, per_sequence, rows

CASES: dict[str, Case] = {
    "sum": of.pooled("sum", lambda torch, rows: rows.sum(0)),
    "mean": of.pooled("mean", lambda torch, rows: rows.mean(0)),
    "sqrt": of.pooled("sqrt", lambda torch, rows: rows.sum(0) / len(rows) ** 0.5),
    "first": of.pooled("first", lambda torch, rows: rows[0]),
    "last": of.pooled("last", lambda torch, rows: rows[-1]),
    "max": of.extreme("max"),
    "min": of.extreme("min"),
    **{name: of.arithmetic(name) for name in ("add", "sub", "mul", "div")},
    "dot": Case(
        inputs=lambda s: [(s.rows, 3), (s.rows, 3)],
        forward=lambda s, x: elementwise.sequence_dot(*map(s.tensor, x), **s.how).data,
        backward=lambda s, dy, x, y: elementwise_grad.sequence_dot_grad(
            dy, *map(s.tensor, x), **s.how
        ),
        torch=lambda s, torch, x: torch.stack([(x[0] * x[1])[lo:hi].sum() for lo, hi in s.cuts]),
    ),
    "softmax": of.softmaxed("softmax"),
    "log_softmax": of.softmaxed("log_softmax"),
    "cumsum": of.cumsum(False, False),
    "cumsum exclusive": of.cumsum(True, False),
    "cumsum reverse exclusive": of.cumsum(True, True),
    "cumprod": Case(
        inputs=rows,
        forward=lambda s, x: scan.sequence_cumprod(s.tensor(x[0]), **s.how).data,
        backward=lambda s, dy, x, y: [scan.sequence_cumprod_grad(dy, x[0], s.lod, **s.how)],
        torch=per_sequence(lambda torch, rows: rows.cumprod(0)),
    ),
    "layer_norm": of.normed("layer_norm"),
    "rms_norm": of.normed("rms_norm"),
    "conv": of.convolved(-1, 1),
    "conv after, stride": of.convolved(1, 2),
    "row_conv": Case(
        inputs=lambda s: [(s.rows, 2), (3, 2)],
        forward=lambda s, x: conv.sequence_row_conv(s.tensor(x[0]), x[1], **s.how).data,
        backward=lambda s, dy, x, y: conv_grad.sequence_row_conv_grad(
            dy, s.tensor(x[0]), x[1], **s.how
        ),
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
        inputs=lambda s: [(s.count, 2)],
        forward=lambda s, x: (
            expand.sequence_expand_as(LoDTensor(x[0]), s.tensor(np.zeros(s.rows)), **s.how).data
        ),
        backward=lambda s, dy, x, y: [expand.sequence_expand_as_grad(dy, s.lod, **s.how)],
        torch=lambda s, torch, x: x[0].repeat_interleave(
            torch.tensor(np.diff(s.lod.absolute(s.level))), 0
        ),
    ),
    "concat": Case(
        inputs=lambda s: [(s.rows, 2), (s.rows, 2)],
        forward=lambda s, x: concat.sequence_concat(list(map(s.tensor, x)), backend=s.backend).data,
        backward=lambda s, dy, x, y: concat.sequence_concat_grad(
            dy, [s.lod, s.lod], backend=s.backend
        ),
        torch=lambda s, torch, x: torch.cat([one[lo:hi] for lo, hi in s.cuts for one in x]),
        levels=(1,),
    ),
    "slice": Case(
        inputs=rows,
        forward=lambda s, x: cutting.sequence_slice(s.tensor(x[0]), *of.part_of(s), **s.how).data,
        backward=lambda s, dy, x, y: [
            cutting.sequence_slice_grad(dy, *of.part_of(s), s.lod, level=s.level)
        ],
    ),
    "truncate": Case(
        inputs=rows,
        forward=lambda s, x: (
            truncate.sequence_truncate(s.tensor(x[0]), 2, keep="last", **s.how).data
        ),
        backward=lambda s, dy, x, y: [
            truncate.sequence_truncate_grad(dy, s.lod, 2, keep="last", level=s.level)
        ],
    ),
    "reverse": Case(
        inputs=rows,
        forward=lambda s, x: reverse.sequence_reverse(s.tensor(x[0]), **s.how).data,
        backward=lambda s, dy, x, y: [reverse.sequence_reverse_grad(dy, s.lod, **s.how)],
        torch=per_sequence(lambda torch, rows: rows.flip(0)),
    ),
    "reverse items": Case(
        inputs=rows,
        forward=lambda s, x: reverse.sequence_reverse(s.tensor(x[0]), items=True, **s.how).data,
        backward=lambda s, dy, x, y: [
            reverse.sequence_reverse_grad(dy, s.lod, items=True, **s.how)
        ],
    ),
    "reshape": Case(
        inputs=lambda s: [(s.rows, 4)],
        forward=lambda s, x: reshape.sequence_reshape(s.tensor(x[0]), 2, level=s.level).data,
        backward=lambda s, dy, x, y: [reshape.sequence_reshape_grad(dy, 4)],
        torch=lambda s, torch, x: x[0].reshape(-1, 2),
        backends=("numpy",),
    ),
    "pad": Case(
        inputs=rows,
        forward=lambda s, x: pad.sequence_pad(s.tensor(x[0]), maxlen=2, truncate=True, **s.how)[0],
        backward=lambda s, dy, x, y: [pad.sequence_pad_grad(dy, s.lod, level=s.level)],
    ),
    "unpad": Case(
        inputs=lambda s: [(s.count, 9, 2)],
        forward=lambda s, x: (
            pad.sequence_unpad(x[0], np.arange(s.count) % 10, backend=s.backend).data
        ),
        backward=lambda s, dy, x, y: [
            pad.sequence_unpad_grad(dy, LoD.from_lengths([np.arange(s.count) % 10]), 9)
        ],
    ),
    "scatter": Case(
        inputs=lambda s: [(s.count, 4), (s.rows,)],
        forward=lambda s, x: (
            scatter.sequence_scatter(
                LoDTensor(x[0]), of.scatter_ids(s), s.tensor(x[1]), **s.how
            ).data
        ),
        backward=lambda s, dy, x, y: scatter.sequence_scatter_grad(dy, of.scatter_ids(s), **s.how),
        torch=of.by_scatter,
    ),
    "sort": Case(
        inputs=rows,
        forward=lambda s, x: order.sequence_sort(s.tensor(x[0]), descending=True, **s.how).data,
        backward=lambda s, dy, x, y: [
            order_grad.sequence_sort_grad(dy, s.tensor(x[0]), descending=True, **s.how)
        ],
        torch=per_sequence(lambda torch, rows: rows.sort(0, descending=True).values),
    ),
    "topk": Case(
        inputs=rows,
        forward=lambda s, x: order.sequence_topk(s.tensor(x[0]), 2, **s.how)[0].data,
        backward=lambda s, dy, x, y: [
            order_grad.sequence_topk_grad(dy, s.tensor(x[0]), 2, **s.how)
        ],
        torch=per_sequence(lambda torch, rows: rows.topk(min(2, len(rows)), 0).values),
    ),
    "topk_avg_pooling": Case(
        inputs=lambda s: [(s.rows,)],
        forward=lambda s, x: (
            topk_avg_pooling.sequence_topk_avg_pooling(s.tensor(x[0]), **of.boxes(s), **s.how).data
        ),
        backward=lambda s, dy, x, y: [
            topk_avg_pooling.sequence_topk_avg_pooling_grad(
                dy, s.tensor(x[0]), **of.boxes(s), **s.how
            )
        ],
        torch=of.by_topk_avg,
    ),
    "windows": Case(
        inputs=rows,
        forward=lambda s, x: (
            windows.sequence_windows(s.tensor(x[0]), 3, **of.windows_how(s), backend=s.backend).data
        ),
        backward=lambda s, dy, x, y: [
            windows.sequence_windows_grad(dy, s.lod, 3, **of.windows_how(s))
        ],
    ),
    "attention": Case(
        inputs=lambda s: [(s.rows, 2, 3)] * 3,
        forward=lambda s, x: (
            attention.sequence_attention(*map(s.tensor, x), causal=True, **s.how).data
        ),
        backward=lambda s, dy, x, y: attention.sequence_attention_grad(
            dy, *map(s.tensor, x), causal=True, **s.how
        ),
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
        inputs=lambda s: [(2, 2, 4, 3)],
        forward=lambda s, x: (
            pictures.sequence_im2sequence(LoDTensor(x[0]), kernels=(2, 2), backend=s.backend).data
        ),
        backward=lambda s, dy, x, y: [
            pictures.sequence_im2sequence_grad(
                dy, (2, 2, 4, 3), kernels=(2, 2), strides=(1, 1), paddings=(0, 0, 0, 0)
            )
        ],
        torch=lambda s, torch, x: torch.nn.functional.unfold(x[0], 2).transpose(1, 2).flatten(0, 1),
        levels=(1,),
    ),
}
# Gradients that are tested beside their ops: they take tensors with an index.
ELSEWHERE = {
    "deinterleave", "from_steps", "interleave", "lod_append", "lod_reset", "max_index",
    "merge_by_mask", "min_index", "reorder_by_rank", "shrink_memory", "sort_by_length",
    "split_by_mask", "to_steps",
}  # fmt: skip
# Whole numbers or booleans come out, or where a value goes turns on which others it equals.
WITHOUT = {
    "argsort", "ctc_align", "deduplicate", "edit_distance", "enumerate", "erase", "histogram",
    "mask", "max_sequence_len", "rank_table", "searchsorted", "unique", "unique_counts",
}  # fmt: skip
