"""Cases of ops that come in families, and what the others need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.conv import conv, conv_grad
from lodcli.kernels.ops.elementwise import elementwise, elementwise_grad
from lodcli.kernels.ops.joining import expand
from lodcli.kernels.ops.norms import norms
from lodcli.kernels.ops.pooling import pool, pool_grad
from lodcli.kernels.ops.scan import scan
from lodcli.kernels.ops.softmax import softmax
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops.gradient_parts import Case, Parts, Setting, per_sequence, rows
from tests.kernels.ops.helpers import Array


def pooled(name: str, torch: Callable[[Any, Any], Any]) -> Case:
    forward, backward = (
        getattr(pool, f"sequence_{name}"),
        getattr(pool_grad, f"sequence_{name}_grad"),
    )

    def reduced(module: Any, rows: Any) -> Any:
        return torch(module, rows)[None] if len(rows) else module.zeros_like(rows.sum(0))[None]

    return Case(
        inputs=rows,
        forward=lambda s, x: forward(s.tensor(x[0]), **s.how).data,
        backward=lambda s, dy, x, y: [backward(dy, s.lod, **s.how)],
        torch=per_sequence(reduced),
    )


def extreme(name: str) -> Case:
    def backward(setting: Setting, upstream: Array, x: Parts, _: Array) -> list[Array]:
        with_index = getattr(pool, f"sequence_{name}_index")
        _, index = with_index(setting.tensor(x[0]), **setting.how)
        return [pool_grad.sequence_max_grad(upstream, index.data, setting.rows)]

    def reduced(module: Any, rows: Any) -> Any:
        found = getattr(rows, f"a{name}")(0) if len(rows) else module.zeros_like(rows.sum(0))
        return found[None]

    return Case(
        inputs=rows,
        forward=lambda s, x: getattr(pool, f"sequence_{name}")(s.tensor(x[0]), **s.how).data,
        backward=backward,
        torch=per_sequence(reduced),
    )


def arithmetic(name: str) -> Case:
    forward = getattr(elementwise, f"sequence_{name}")
    backward = getattr(elementwise_grad, f"sequence_{name}_grad")

    def tensors(setting: Setting, x: Parts) -> tuple[LoDTensor, LoDTensor]:
        # Away from 0, which div divides by.
        return setting.tensor(x[0]), LoDTensor(x[1] + 5 if name == "div" else x[1])

    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        symbol = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}[name]
        z = x[1] + 5 if name == "div" else x[1]
        return torch.cat([symbol(x[0][lo:hi], z[s]) for s, (lo, hi) in enumerate(setting.cuts)])

    return Case(
        inputs=lambda s: [(s.rows, 3), (s.count, 3)],
        forward=lambda s, x: forward(*tensors(s, x), **s.how).data,
        backward=lambda s, dy, x, y: backward(dy, *tensors(s, x), **s.how),
        torch=by_torch,
    )


def softmaxed(name: str) -> Case:
    forward = getattr(softmax, f"sequence_{name}")
    backward = getattr(softmax, f"sequence_{name}_grad")
    return Case(
        inputs=rows,
        forward=lambda s, x: forward(s.tensor(x[0]), **s.how).data,
        backward=lambda s, dy, x, y: [backward(dy, y, s.lod, **s.how)],
        torch=per_sequence(lambda torch, rows: getattr(torch, name)(rows, 0)),
    )


def cumsum(exclusive: bool, reverse: bool) -> Case:
    how: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}

    def by_torch(torch: Any, rows: Any) -> Any:
        turned = rows.flip(0) if reverse else rows
        found = turned.cumsum(0)
        found = found - turned if exclusive else found
        return found.flip(0) if reverse else found

    return Case(
        inputs=rows,
        forward=lambda s, x: scan.sequence_cumsum(s.tensor(x[0]), **how, **s.how).data,
        backward=lambda s, dy, x, y: [scan.sequence_cumsum_grad(dy, s.lod, **how, **s.how)],
        torch=per_sequence(by_torch),
    )


def normed(name: str) -> Case:
    centred = name == "layer_norm"
    forward = getattr(norms, f"sequence_{name}")
    backward = getattr(norms, f"sequence_{name}_grad")

    def how(setting: Setting, x: Parts) -> dict[str, Any]:
        more = {"bias": x[2]} if centred else {}
        return {"weight": x[1], "epsilon": 0.1, "backend": setting.backend} | more

    def back(setting: Setting, upstream: Array, x: Parts, _: Array) -> Sequence[Array]:
        options = {key: one for key, one in how(setting, x).items() if key != "bias"}
        return backward(upstream, setting.tensor(x[0]), **options)  # type: ignore[no-any-return]

    def by_torch(_: Setting, torch: Any, x: Parts) -> Any:
        if centred:
            return torch.nn.functional.layer_norm(x[0], (3,), x[1], x[2], 0.1)
        return torch.nn.functional.rms_norm(x[0], (3,), x[1], 0.1)

    return Case(
        inputs=lambda s: [(s.rows, 3), (3,), (3,)] if centred else [(s.rows, 3), (3,)],
        forward=lambda s, x: forward(s.tensor(x[0]), **how(s, x)).data,
        backward=back,
        torch=by_torch,
        levels=(1,),
    )


def convolved(start: int, stride: int) -> Case:
    length, extra = 3, max(0, -start) + max(0, start + 2)

    def how(setting: Setting, x: Parts) -> dict[str, Any]:
        shape = {"context_length": length, "context_start": start, "stride": stride}
        return {**shape, "padding": x[2], **setting.how}

    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        up, out = max(0, -start), []
        for lo, hi in setting.cuts:
            for at in range(lo, hi, stride):
                row = []
                for r in range(at + start, at + start + length):
                    if r < lo:
                        row.append(x[2][up - (lo - r)])
                    else:
                        row.append(x[0][r] if r < hi else x[2][up + r - hi])
                out.append(torch.cat(row) @ x[1])
        return torch.stack(out) if out else x[0].new_zeros(0, 2)

    return Case(
        inputs=lambda s: [(s.rows, 2), (length * 2, 2), (extra, 2)],
        forward=lambda s, x: conv.sequence_conv(s.tensor(x[0]), x[1], **how(s, x)).data,
        backward=lambda s, dy, x, y: conv_grad.sequence_conv_grad(
            dy, s.tensor(x[0]), x[1], **how(s, x)
        ),
        torch=by_torch,
    )


def expanded(levels: int) -> Case:
    def x_of(setting: Setting, rows: Array) -> LoDTensor:
        if not levels:
            return LoDTensor(rows)
        return LoDTensor(rows, LoD.from_lengths([[2] * setting.count]))

    def y_of(setting: Setting) -> LoDTensor:
        return setting.tensor(np.zeros(setting.rows))

    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        counts = setting.lod.lengths(setting.level).tolist()
        size = 2 if levels else 1
        parts = [x[0][s * size : (s + 1) * size] for s, n in enumerate(counts) for _ in range(n)]
        return torch.cat(parts) if parts else x[0][:0]

    how: Any = lambda s: {"ref_level": s.level, "backend": s.backend}  # noqa: E731
    return Case(
        inputs=lambda s: [(s.count * (2 if levels else 1), 2)],
        forward=lambda s, x: expand.sequence_expand(x_of(s, x[0]), y_of(s), **how(s)).data,
        backward=lambda s, dy, x, y: [
            expand.sequence_expand_grad(dy, x_of(s, x[0]), y_of(s), **how(s))
        ],
        torch=by_torch,
    )


def part_of(setting: Setting) -> tuple[Array, Array]:
    lengths = setting.lod.lengths(setting.level)
    return lengths // 3, (lengths + 1) // 2


def windows_how(setting: Setting) -> dict[str, Any]:
    return {"stride": 2, "tail": "keep", "level": setting.level}


def scatter_ids(setting: Setting) -> LoDTensor:
    return setting.tensor(np.arange(setting.rows) * 7 % 4)


def by_scatter(setting: Setting, torch: Any, x: Parts) -> Any:
    ids = torch.tensor(scatter_ids(setting).data)
    parts = [
        x[0][s].index_add(0, ids[lo:hi], x[1][lo:hi]) for s, (lo, hi) in enumerate(setting.cuts)
    ]
    return torch.stack(parts) if parts else x[0]


def boxes(setting: Setting) -> dict[str, Any]:
    """Return what tells topk_avg_pooling that every sequence is a matrix of one row."""
    lengths = setting.lod.absolute(setting.level)
    return {
        "row": LoD.from_lengths([[1] * setting.count]),
        "column": LoD([lengths]),
        "topks": [1, 3],
        "channel_num": 1,
    }


def by_topk_avg(setting: Setting, torch: Any, x: Parts) -> Any:
    def sums(rows: Any) -> Any:
        best = rows.sort(descending=True).values
        return torch.stack([best[:k].sum() / k for k in (1, 3)])

    return torch.stack([sums(x[0][lo:hi]) for lo, hi in setting.cuts])
