"""Ops against Awkward Array, which keeps ragged data in its own way, on drawn data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.elementwise.elementwise import sequence_dot, sequence_mul
from lodcli.kernels.ops.joining.concat import sequence_concat
from lodcli.kernels.ops.joining.expand import sequence_expand_as
from lodcli.kernels.ops.padding.pad import sequence_pad
from lodcli.kernels.ops.pooling import pool
from lodcli.kernels.ops.ranking.rank_table import sequence_sort_by_length
from lodcli.kernels.ops.ranking.split_by_mask import sequence_split_by_mask
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.slicing.truncate import sequence_truncate
from lodcli.kernels.ops.softmax.softmax import sequence_softmax
from lodcli.kernels.ops.sorting.sort import sequence_argsort, sequence_sort
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import on_every_backend
from tests.strategies import lengths_trees, random_values

ak: Any = pytest.importorskip("awkward")

DTYPES = tuple(np.dtype(name) for name in ("float64", "int32"))


@st.composite
def ragged(draw: st.DrawFn) -> LoDTensor:
    """Draw two levels over single values that are all different but for a few."""
    lod = LoD.from_lengths(draw(lengths_trees(2, 2, 4)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random_values(generator, (lod.rows or 0,), draw(st.sampled_from(DTYPES)))
    return LoDTensor(values.round(1), lod)


def theirs(tensor: LoDTensor) -> Any:
    """Return the same as an Awkward array: levels 0 and 1 as its axes 1 and 2."""
    result = ak.Array(tensor.data)
    for lengths in reversed(tensor.recursive_sequence_lengths()):
        result = ak.unflatten(result, np.array(lengths, np.int64))
    return result


def same(found: LoDTensor, expected: Any, *, exact: bool = True) -> None:
    """Assert the lengths of every level and the values, by what Awkward makes lists of."""
    lists = ak.to_list(expected)
    for lengths in found.recursive_sequence_lengths():
        assert lengths == [len(one) for one in lists]
        lists = [item for one in lists for item in one]
    if exact:
        assert found.data.tolist() == lists
    else:
        np.testing.assert_allclose(found.data, np.array(lists, float), rtol=1e-12, atol=1e-12)


@on_every_backend
@settings(deadline=None)
@given(ragged(), st.sampled_from([0, 1]))
def test_pools_are_awkward_reductions(backend: Any, tensor: LoDTensor, level: int) -> None:
    array = theirs(tensor)
    # At the upper level a sequence is all rows of its article.
    axis, whole = (1, ak.flatten(array, axis=2)) if level == 0 else (2, array)
    options: Any = {"level": level, "backend": backend}
    same(pool.sequence_sum(tensor, **options), ak.sum(whole, axis=axis), exact=False)
    for name in ("max", "min", "first", "last"):
        found = getattr(pool, f"sequence_{name}")(tensor, pad_value=-99, **options)
        if name in ("max", "min"):
            expected = getattr(ak, name)(whole, axis=axis)
        else:
            at = 0 if name == "first" else -1
            expected = ak.pad_none(whole, 1, axis=axis)
            expected = expected[:, at] if level == 0 else expected[:, :, at]
        same(found, ak.fill_none(expected, -99))
    mean = pool.sequence_mean(tensor, pad_value=-99, **options)
    same(mean, ak.fill_none(ak.mean(whole, axis=axis, mask_identity=True), -99), exact=False)
    dot = sequence_dot(tensor, tensor, **options)
    same(dot, ak.sum(whole * whole, axis=axis), exact=False)


@on_every_backend
@settings(deadline=None)
@given(ragged(), st.booleans())
def test_order_is_awkwards(backend: Any, tensor: LoDTensor, descending: bool) -> None:
    array = theirs(tensor)
    options: Any = {"descending": descending, "backend": backend}
    same(sequence_sort(tensor, **options), ak.sort(array, axis=2, ascending=not descending))
    places = ak.argsort(array, axis=2, ascending=not descending, stable=True)
    same(sequence_argsort(tensor, **options), places)
    same(sequence_reverse(tensor, backend=backend), array[:, :, ::-1])
    # Articles by their numbers of sentences, the longest first.
    longest = ak.argsort(ak.num(array, axis=1), ascending=False, stable=True)
    same(sequence_sort_by_length(tensor), array[longest])


@on_every_backend
@settings(deadline=None)
@given(ragged(), ragged(), st.integers(0, 3))
def test_rows_go_where_awkward_puts_them(
    backend: Any, tensor: LoDTensor, other: LoDTensor, length: int
) -> None:
    array = theirs(tensor)
    same(sequence_truncate(tensor, length, backend=backend), array[:, :, :length])
    same(sequence_truncate(tensor, length, level=0, backend=backend), array[:, :length])
    # Another value for each sentence, brought to its rows.
    values = LoDTensor(np.arange(tensor.lod.count(1)) * 10)
    spread = ak.unflatten(values.data, tensor.lod.lengths(0))
    one = ak.ones_like(array)
    same(sequence_expand_as(values, tensor, level=1, backend=backend), spread * one)
    same(sequence_mul(tensor, values, backend=backend), array * spread)
    padded, lengths = sequence_pad(tensor, level=1, pad_value=7, maxlen=4, backend=backend)
    box = ak.fill_none(ak.pad_none(ak.flatten(array, axis=1), 4, axis=1), 7)
    assert padded.tolist() == ak.to_list(box)
    assert lengths.tolist() == ak.to_list(ak.num(ak.flatten(array, axis=1)))
    mask = np.arange(len(tensor)) % 2 == 0
    true, false = sequence_split_by_mask(tensor, mask)
    same(true, array[mask])
    same(false, array[~mask])
    both_twice = [tensor, LoDTensor(tensor.data[::-1], tensor.lod)]
    joined = ak.concatenate([array, theirs(both_twice[1])], axis=2)
    same(sequence_concat(both_twice, backend=backend), joined)


@on_every_backend
@settings(deadline=None)
@given(ragged())
def test_softmax_is_awkwards(backend: Any, tensor: LoDTensor) -> None:
    floats = tensor.with_data(tensor.data.astype(float))
    # Awkward's own softmax takes no maximum off, which these small numbers do not need.
    powers = np.exp(theirs(floats) / 10)
    found = sequence_softmax(floats.with_data(floats.data / 10), backend=backend)
    same(found, powers / ak.sum(powers, axis=2), exact=False)
