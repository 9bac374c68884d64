"""sequence_windows, sequence_interleave and its inverse: by hand, loops, finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining import windows
from lodcli.kernels.ops.joining.windows import (
    Ends,
    sequence_deinterleave,
    sequence_interleave,
    sequence_windows,
    sequence_windows_grad,
)
from lodcli.kernels.ops.pooling.pool import sequence_mean
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import BACKENDS, backends_of, check_gradient, compiled
from tests.oracles import gathered, lengths_of, rows_of, tree_of
from tests.strategies import tensors

backend = backends_of(windows)


def test_a_tail_is_dropped_or_kept() -> None:
    words = LoDTensor(np.arange(8), LoD.from_lengths([[5, 0, 1, 2]], ["utterance"]))
    dropped = sequence_windows(words, 2, stride=2, name="window")
    assert dropped.recursive_sequence_lengths() == [[2, 0, 0, 1], [2, 2, 2]]
    assert dropped.data.tolist() == [0, 1, 2, 3, 6, 7]
    assert dropped.lod.names == ("utterance", "window")
    kept = sequence_windows(words, 2, stride=2, tail="keep")
    assert kept.recursive_sequence_lengths() == [[3, 0, 1, 1], [2, 2, 1, 1, 2]]
    assert kept.data.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_shorter_windows_at_the_head_are_kept() -> None:
    words = LoDTensor(np.arange(8), [[5, 0, 1, 2]])
    one_each = sequence_windows(words, 3, head="keep")
    assert one_each.recursive_sequence_lengths() == [[5, 0, 1, 2], [1, 2, 3, 3, 3, 1, 1, 2]]
    assert one_each.data.tolist() == [0, 0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4, 5, 6, 6, 7]
    assert one_each.lod.levels[0] is words.lod.levels[0]
    every_second = sequence_windows(words, 3, stride=2, head="keep")  # they end at 1, 3, 5
    assert every_second.recursive_sequence_lengths() == [[3, 0, 1, 1], [1, 3, 3, 1, 1]]
    both = sequence_windows(words, 4, stride=2, head="keep", tail="keep")  # at 2, 4, 6
    assert both.recursive_sequence_lengths() == [[3, 0, 1, 1], [2, 4, 3, 1, 2]]


def test_means_of_windows_with_a_head_are_those_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    lengths, data = [7, 0, 2, 1], np.random.default_rng(3).normal(size=10)
    found = sequence_mean(sequence_windows(LoDTensor(data, [lengths]), 3, head="keep"))
    groups = pandas.Series(data).groupby(np.repeat(np.arange(4), lengths))
    expected = groups.rolling(3, min_periods=1).mean().to_numpy()
    np.testing.assert_allclose(found.data, expected, rtol=1e-12)  # another order of additions
    assert found.recursive_sequence_lengths() == [lengths]


def test_a_stride_past_the_window_skips_rows_and_starts_none_behind_the_end() -> None:
    kept = sequence_windows(LoDTensor(np.arange(9), [[4, 5]]), 2, stride=4, tail="keep")
    assert kept.recursive_sequence_lengths() == [[1, 2], [2, 2, 1]]
    assert kept.data.tolist() == [0, 1, 4, 5, 8]


@pytest.mark.parametrize("tail", ["drop", "keep"])
def test_windows_and_strides_beyond_int64_are_longer_than_every_sequence(tail: Ends) -> None:
    words = LoDTensor(np.arange(4), [[3, 0, 1]])
    far = sequence_windows(words, 2, stride=10**30, tail=tail)
    assert far.recursive_sequence_lengths() == (
        [[1, 0, 1], [2, 1]] if tail == "keep" else [[1, 0, 0], [2]]
    )
    long = sequence_windows(words, 10**30, tail=tail)
    assert long.recursive_sequence_lengths()[1] == ([3, 1] if tail == "keep" else [])
    each = sequence_windows(words, 10**30, head="keep", tail=tail)
    assert each.recursive_sequence_lengths() == [[3, 0, 1], [1, 2, 3, 1]]
    end = sequence_windows(words, 10**30 + 2, stride=10**30, head="keep", tail=tail)
    assert end.recursive_sequence_lengths() == (
        [[2, 0, 1], [2, 3, 1]] if tail == "keep" else [[1, 0, 0], [2]]
    )


@compiled
@given(
    tensor=tensors(min_levels=1, any_bits=True),
    length=st.integers(1, 4),
    stride=st.integers(1, 4),
    tail=st.sampled_from(["drop", "keep"]),
    head=st.sampled_from(["drop", "keep"]),
    data=st.data(),
)
def test_windows_are_those_of_the_loops(
    tensor: LoDTensor, length: int, stride: int, tail: Ends, head: Ends, data: st.DataObject
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, levels - 1))

    def cut(tree: Any, depth: int) -> Any:
        if depth == level:
            ends = tail == "keep", head == "keep"
            return [oracles_ids.windows(items, length, stride, *ends) for items in tree]
        return [cut(inner, depth + 1) for inner in tree]

    tree = cut(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), 0)
    out = sequence_windows(tensor, length, stride=stride, tail=tail, head=head, level=level)
    assert out.recursive_sequence_lengths() == lengths_of(tree, levels + 1)
    assert out.data.tobytes() == gathered(tensor.data, rows_of(tree)).tobytes()


def test_gradients_of_whole_numbers_wrap_at_64_bits() -> None:
    most = 2**63 - 1
    words = LoDTensor(np.zeros(3, np.int64), [[3]])
    found = sequence_windows_grad(np.full(4, most), words, 2)
    assert found.data.tolist() == [most, -2, most]


@pytest.mark.parametrize("tail", ["drop", "keep"])
@pytest.mark.parametrize("head", ["drop", "keep"])
@pytest.mark.parametrize(("length", "stride"), [(3, 1), (2, 3), (4, 2)])
def test_gradient_is_that_of_finite_differences(
    length: int, stride: int, tail: Ends, head: Ends
) -> None:
    generator = np.random.default_rng(1)
    offsets, data = np.array([0, 5, 5, 6, 10]), generator.normal(size=(10, 2))
    options: Any = {"length": length, "stride": stride, "tail": tail, "head": head}
    tensor = LoDTensor(data, LoD([offsets]))
    upstream = generator.normal(size=sequence_windows(tensor, **options).data.shape)
    gradient = sequence_windows_grad(upstream, tensor, **options).data

    def cut(at: Array) -> Array:
        return sequence_windows(tensor.with_data(at), **options).data

    check_gradient(cut, data, upstream, gradient)


# -- taking turns ----------------------------------------------------------------------


def test_sentences_take_turns_inside_their_article() -> None:
    a = LoDTensor(np.array([1, 1, 2, 3]), LoD.from_lengths([[2, 1], [2, 1, 1]], ["a", "s"]))
    b = LoDTensor(np.array([7, 8, 8]), LoD.from_lengths([[2, 1], [1, 0, 2]]))
    out = sequence_interleave([a, b], level=1)
    assert out.data.tolist() == [1, 1, 7, 2, 3, 8, 8]
    assert out.recursive_sequence_lengths() == [[4, 2], [2, 1, 1, 0, 1, 2]]
    assert out.lod.names == ("a", "s")


@compiled
@given(tensors(min_levels=1, any_bits=True), st.integers(1, 3), st.data())
def test_taking_turns_is_undone(tensor: LoDTensor, count: int, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    above = tensor.lod.above(level)
    parts = [tensor]
    for _ in range(count - 1):
        # Equal above the level, and below it anything: here the sequences turned around.
        order = np.arange(tensor.lod.count(level))[::-1]
        turned = [parts[-1].select(int(i), level=level).data for i in order]
        below = [tensor.lod.items(level, int(i), int(i) + 1)[0] for i in order]
        lod = LoD.concatenate(below) if below else LoD(tensor.lod.levels[level:])
        rows = np.concatenate([tensor.data[:0], *turned])
        parts.append(LoDTensor(rows, LoD((*above.levels, *lod.levels), tensor.lod.names)))
    out = sequence_interleave(parts, level=level)
    assert out.lod.count(level) == count * tensor.lod.count(level)
    for found, part in zip(sequence_deinterleave(out, count, level=level), parts, strict=True):
        assert found.identical(part)
    for i in range(tensor.lod.count(level)):
        for p, part in enumerate(parts):
            one = out.select(i * count + p, level=level)
            assert one.data.tobytes() == part.select(i, level=level).data.tobytes()


def test_invalid_arguments_are_errors() -> None:
    one, two = LoDTensor(np.arange(3), [[2, 1]]), LoDTensor(np.arange(3), [[3]])
    with pytest.raises(InvalidDataError, match="stride must be at least 1, found 0"):
        sequence_windows(one, 2, stride=0)
    with pytest.raises(InvalidDataError, match="tail must be 'drop' or 'keep', found 'cut'"):
        sequence_windows(one, 2, tail="cut")  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="head must be 'drop' or 'keep', found 1"):
        sequence_windows(one, 2, head=1)  # type: ignore[arg-type]
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_windows(one, 2, level=1)
    with pytest.raises(ShapeMismatchError, match="no tensor given"):
        sequence_interleave([])
    with pytest.raises(ShapeMismatchError, match="0 and 1 differ: 2 sequences against 1"):
        sequence_interleave([one, two])
    with pytest.raises(ShapeMismatchError, match="2 sequences in item 0 are not a multiple of 3"):
        sequence_deinterleave(one, 3)
    with pytest.raises(ShapeMismatchError, match=f"not a multiple of {1 << 60}"):
        sequence_deinterleave(one, 1 << 60)
    nested = [LoDTensor(np.arange(2), [counts, [1, 1]]) for counts in ([1, 1], [2, 0])]
    with pytest.raises(ShapeMismatchError, match="level 0, item 0 has length 1 against 2"):
        sequence_interleave(nested, level=1)


@pytest.mark.parametrize("twin", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_rows_are_added_up_one_segment_after_another(
    twin: Backend, dtype: str, shape: tuple[int, ...]
) -> None:
    rows = (np.random.default_rng(0).standard_normal((11, *shape)) * 50).astype(dtype)
    starts, offsets = np.array([0, 1, 1, 5, 5]), np.array([0, 3, 5, 9, 9, 11])
    wide = np.zeros((7, *shape), "float32" if dtype == "float16" else dtype)
    for segment in range(5):
        for place, row in enumerate(range(offsets[segment], offsets[segment + 1])):
            wide[starts[segment] + place] += rows[row]
    for each in (rows, np.repeat(rows, 2, axis=0)[::2]):
        found = on(twin, windows.segment_add)(each, starts, offsets, 7)
        assert found.dtype == dtype
        assert found.tobytes() == wide.astype(dtype).tobytes()
