"""Every op refuses an index that does not fit its rows, before a compiled kernel reads by it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining import concat, expand, windows
from lodcli.kernels.ops.padding import pad
from lodcli.kernels.ops.pooling import pool_grad
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_from_steps,
    sequence_rank_table,
    sequence_reorder_by_rank,
    sequence_to_steps,
)
from lodcli.kernels.ops.ranking.split_by_mask import sequence_split_by_mask
from lodcli.kernels.ops.reshaping import lod_reset
from lodcli.kernels.ops.scan import scan
from lodcli.kernels.ops.slicing import reverse, truncate
from lodcli.kernels.ops.slicing import slice as cutting
from lodcli.kernels.ops.softmax import softmax
from lodcli.kernels.tensor.lod_tensor import LoDTensor

NUMBERS = st.one_of(st.integers(-3, 9), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -1]))
OFFSETS = st.lists(NUMBERS, max_size=5)


def fits(levels: list[list[int]], rows: int) -> bool:
    """Return whether levels of offsets are a valid index over this many rows."""
    for number, offsets in enumerate(levels):
        below = len(levels[number + 1]) - 1 if number + 1 < len(levels) else rows
        if not offsets or offsets[0] != 0 or offsets[-1] != below:
            return False
        if any(b < a for a, b in itertools.pairwise(offsets)):
            return False
    return True


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except LodError:
        return True
    return False


@settings(max_examples=300)
@given(levels=st.lists(OFFSETS, max_size=3), rows=st.integers(0, 6))
def test_arbitrary_offsets_make_an_index_only_if_they_are_one(
    levels: list[list[int]], rows: int
) -> None:
    data = np.zeros(rows)
    arrays = [np.array(one, np.int64) for one in levels]
    assert refused(lambda: LoDTensor(data, LoD(levels))) != fits(levels, rows)
    assert refused(lambda: LoDTensor(data, LoD(arrays))) != fits(levels, rows)
    if len(levels) == 1:
        plain = LoDTensor(data)
        assert refused(lambda: lod_reset.sequence_lod_reset(plain, offsets=levels[0])) != fits(
            levels, rows
        )
    # Lengths: the same offsets, as differences.
    lengths = [np.diff(one) for one in arrays if one.size]
    if len(lengths) == len(levels) and all(one[0] == 0 for one in levels):
        assert fits(levels, rows) <= (
            not refused(lambda: LoDTensor(data, LoD.from_lengths(lengths)))
        )


LOD = LoD.from_lengths([[2, 1], [2, 0, 3]])
INDEX = st.lists(NUMBERS, min_size=3, max_size=3)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@settings(deadline=None, max_examples=150)
@given(first=INDEX, count=INDEX, length=NUMBERS)
def test_arbitrary_numbers_reach_no_kernel(
    backend: Any, first: list[int], count: list[int], length: int
) -> None:
    x = LoDTensor(np.arange(5.0), LOD)
    fit = all(
        0 <= a <= n and 0 <= c <= n - a for a, c, n in zip(first, count, (2, 0, 3), strict=True)
    )
    part = refused(lambda: cutting.sequence_slice(x, first, count, level=1, backend=backend))
    assert part != fit
    box = np.zeros((3, 4))
    inside = all(0 <= n <= 4 for n in count)
    assert refused(lambda: pad.sequence_unpad(box, count, backend=backend)) != inside
    assert refused(lambda: truncate.sequence_truncate(x, length, backend=backend)) == (length < 0)
    if length <= 9:
        cut = refused(lambda: windows.sequence_windows(x, length, backend=backend))
        assert cut == (length < 1)
    # An invalid row in the index of a maximum.
    taken = np.array(first, np.int64)
    known = all(-1 <= row < 5 for row in first)
    assert (
        refused(lambda: pool_grad.sequence_max_grad(np.ones(3), x, level=1, index=taken)) != known
    )


@settings(max_examples=150)
@given(table=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4))
def test_arbitrary_tables_are_rank_tables_only_if_they_are(table: list[tuple[int, int]]) -> None:
    x = LoDTensor(np.arange(5.0), [[2, 0, 3]])
    made = np.array(table, np.int64).reshape(len(table), 2)
    right = np.array_equal(made, sequence_rank_table(x.lod))
    assert refused(lambda: sequence_to_steps(x, made)) != right
    steps = sequence_to_steps(x, sequence_rank_table(x.lod))
    assert refused(lambda: sequence_from_steps(steps, made)) != right
    order = sorted(number for number, _ in table) == [0, 1, 2]
    falls = all(a[1] >= b[1] for a, b in itertools.pairwise(table))
    assert refused(lambda: sequence_reorder_by_rank(x, made)) != (order and falls)
    mask = [bool(length) for _, length in table]
    assert refused(lambda: sequence_split_by_mask(x, mask)) == (len(mask) != 3)


# Gradients of plain arrays, which have to have the rows of the result.
GRADIENTS: dict[str, Callable[[np.ndarray[Any, Any], LoDTensor], object]] = {
    "sum": lambda flow, x: pool_grad.sequence_sum_grad(flow, x),
    "mean": lambda flow, x: pool_grad.sequence_mean_grad(flow, x),
    "first": lambda flow, x: pool_grad.sequence_first_grad(flow, x),
    "softmax": lambda flow, x: softmax.sequence_softmax_grad(flow, x),
    "cumsum": lambda flow, x: scan.sequence_cumsum_grad(flow, x),
    "cumprod": lambda flow, x: scan.sequence_cumprod_grad(flow, x),
    "expand_as": lambda flow, x: expand.sequence_expand_as_grad(flow, LoDTensor(np.zeros(3)), x),
    "concat": lambda flow, x: concat.sequence_concat_grad(flow, [x]),
    "unpad": lambda flow, x: pad.sequence_unpad_grad(flow, np.zeros((3, 9)), [2, 0, 3]),
    "reverse": lambda flow, x: reverse.sequence_reverse_grad(flow, x),
    "windows": lambda flow, x: windows.sequence_windows_grad(flow, x, 1),
    "truncate": lambda flow, x: truncate.sequence_truncate_grad(flow, x, 9),
}
BY_SEQUENCE = {"sum", "mean", "first"}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_of_other_rows_than_the_index_has_is_refused(name: str) -> None:
    x = LoDTensor(np.zeros(5), [[2, 0, 3]])
    right = 3 if name in BY_SEQUENCE else 5
    for rows in range(8):
        assert refused(lambda rows=rows: GRADIENTS[name](np.ones(rows), x)) == (rows != right)  # type: ignore[misc]


def test_an_index_cannot_be_changed_once_it_is_checked() -> None:
    mine = np.array([0, 2, 5])
    tensor = LoDTensor(np.arange(5.0), LoD([mine]))
    mine[1] = 77
    assert tensor.recursive_sequence_lengths() == [[2, 3]]
    with pytest.raises(ValueError, match="read-only"):
        tensor.lod.levels[0][1] = 77
