"""Cases of families of ops, and helpers for other cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.split_by_mask import sequence_split_by_mask
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import Array
from tests.kernels.ops.gradient_parts import Case, Parts, Setting, one_tensor, per_sequence, rows


def pooled(name: str, torch: Callable[[Any, Any], Any]) -> Case:
    def reduced(module: Any, rows: Any) -> Any:
        return torch(module, rows)[None] if len(rows) else module.zeros_like(rows.sum(0))[None]

    return Case(op=name, inputs=rows, given=one_tensor, torch=per_sequence(reduced))


def arithmetic(name: str) -> Case:
    # Away from 0, which div divides by.
    away = 5 if name == "div" else 0

    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        symbol = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}[name]
        z = x[1] + away
        return torch.cat([symbol(x[0][lo:hi], z[s]) for s, (lo, hi) in enumerate(setting.cuts)])

    return Case(
        op=name,
        inputs=lambda s: [(s.rows, 3), (s.count, 3)],
        given=lambda s, x: {"tensor": s.tensor(x[0]), "other": LoDTensor(x[1] + away)},
        torch=by_torch,
    )


def softmaxed(name: str) -> Case:
    return Case(
        op=name,
        inputs=rows,
        given=one_tensor,
        torch=per_sequence(lambda torch, rows: getattr(torch, name)(rows, 0)),
    )


def cumsum(exclusive: bool, reverse: bool) -> Case:
    def by_torch(torch: Any, rows: Any) -> Any:
        turned = rows.flip(0) if reverse else rows
        found = turned.cumsum(0)
        found = found - turned if exclusive else found
        return found.flip(0) if reverse else found

    return Case(
        op="cumsum",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "exclusive": exclusive, "reverse": reverse},
        torch=per_sequence(by_torch),
    )


def shifted(lag: int, torch: Any, rows: Any) -> Any:
    """Return the rows of one sequence, or zeros, `lag` before each row."""
    count = min(abs(lag), len(rows))
    none = torch.zeros_like(rows[:count])
    return torch.cat([none, rows[: len(rows) - count]] if lag > 0 else [rows[count:], none])


def differences(lag: int, padded: bool) -> Case:
    def by_torch(torch: Any, rows: Any) -> Any:
        begin, end = max(lag, 0), len(rows) + min(lag, 0)
        found = (rows - shifted(lag, torch, rows))[begin : max(end, begin)]
        if not padded:
            return found
        count = len(rows) - len(found)
        none = torch.full_like(rows[:count], 7)
        return torch.cat([none, found] if lag > 0 else [found, none])

    pad = {"pad_value": 7} if padded else {}
    return Case(
        op="diff",
        inputs=rows,
        given=lambda s, x: {**one_tensor(s, x), "lag": lag, **pad},
        torch=per_sequence(by_torch),
    )


def linear_scan(reverse: bool) -> Case:
    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        states = []
        for s, (lo, hi) in enumerate(setting.cuts):
            h, parts = x[2][s], []
            for row in range(hi - 1, lo - 1, -1) if reverse else range(lo, hi):
                h = x[0][row] * h + x[1][row]
                parts.append(h)
            states += parts[::-1] if reverse else parts
        return torch.stack(states) if states else x[0]

    return Case(
        op="linear_scan",
        inputs=lambda s: [(s.rows, 2), (s.rows, 2), (s.count, 2)],
        given=lambda s, x: {
            "a": s.tensor(x[0]),
            "b": s.tensor(x[1]),
            "initial": x[2],
            "reverse": reverse,
        },
        torch=by_torch,
    )


def normed(name: str) -> Case:
    centred = name == "layer_norm"

    def given(setting: Setting, x: Parts) -> dict[str, Any]:
        more = {"bias": x[2]} if centred else {}
        return {**one_tensor(setting, x), "weight": x[1], "epsilon": 0.1} | more

    def by_torch(_: Setting, torch: Any, x: Parts) -> Any:
        if centred:
            return torch.nn.functional.layer_norm(x[0], (3,), x[1], x[2], 0.1)
        return torch.nn.functional.rms_norm(x[0], (3,), x[1], 0.1)

    return Case(
        op=name,
        inputs=lambda s: [(s.rows, 3), (3,), (3,)] if centred else [(s.rows, 3), (3,)],
        given=given,
        torch=by_torch,
        levels=(1,),
    )


def convolved(start: int, stride: int) -> Case:
    length, extra = 3, max(0, -start) + max(0, start + 2)

    def given(setting: Setting, x: Parts) -> dict[str, Any]:
        shape = {"context_length": length, "context_start": start, "stride": stride}
        return {**one_tensor(setting, x), "weight": x[1], "padding": x[2], **shape}

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
        op="conv",
        inputs=lambda s: [(s.rows, 2), (length * 2, 2), (extra, 2)],
        given=given,
        torch=by_torch,
    )


def expanded(levels: int) -> Case:
    def index(setting: Setting) -> LoD:
        return LoD.from_lengths([[s % 3 for s in range(setting.count)]][:levels])

    def inputs(setting: Setting) -> list[tuple[int, int]]:
        return [((index(setting).rows or 0) if levels else setting.count, 2)]

    def by_torch(setting: Setting, torch: Any, x: Parts) -> Any:
        counts = setting.lod.lengths(setting.level).tolist()
        items = x[0].split(index(setting).lengths(0).tolist() if levels else 1)
        parts = [item for item, count in zip(items, counts, strict=True) for _ in range(count)]
        return torch.cat(parts) if parts else x[0][:0]

    return Case(
        op="expand",
        inputs=inputs,
        given=lambda s, x: {"x": LoDTensor(x[0], index(s)), "y": zeros(s)},
        torch=by_torch,
    )


def zeros(setting: Setting) -> LoDTensor:
    return setting.tensor(np.zeros(setting.rows))


def mask(setting: Setting) -> Array:
    return np.resize([True, False], setting.count)


def masked(setting: Setting) -> tuple[LoDTensor, LoDTensor]:
    return sequence_split_by_mask(zeros(setting), mask(setting), setting.level)


def part_of(setting: Setting) -> dict[str, Array]:
    lengths = setting.lod.lengths(setting.level)
    return {"offset": lengths // 3, "length": (lengths + 1) // 2}


def scatter_ids(setting: Setting) -> LoDTensor:
    return setting.tensor(np.arange(setting.rows) * 7 % 4)


def by_scatter(setting: Setting, torch: Any, x: Parts) -> Any:
    ids = torch.tensor(scatter_ids(setting).data)
    parts = [
        x[0][s].index_add(0, ids[lo:hi], x[1][lo:hi]) for s, (lo, hi) in enumerate(setting.cuts)
    ]
    return torch.stack(parts) if parts else x[0]


def boxes(setting: Setting) -> dict[str, Any]:
    """Return the arguments with which each sequence is a matrix of one row to topk_avg_pooling."""
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
