"""Stable order of numbers; NumPy's lexsort and Python's sorted are the oracles."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.order import stable
from lodcli.kernels.order.stable import sortable, stable_order

NEAR = st.integers(-3, 3)
FAR = st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 2**62, 2**40])
FLOATS = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, -1.5, 2.0, 2.0, 5e-324, -5e-324]


@given(st.lists(st.tuples(NEAR | FAR, NEAR, st.booleans()), max_size=40))
def test_items_are_in_the_order_of_lexsort(rows: list[tuple[int, int, bool]]) -> None:
    far = np.array([row[0] for row in rows], np.int64)
    near = np.array([row[1] for row in rows], np.int16)
    flags = np.array([row[2] for row in rows], np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stable, "_BLOCK", 7)
        cases: list[list[np.ndarray]] = [[far], [near], [far, near, flags], [flags, far]]
        for columns in (*cases, [far.view(np.uint64)]):
            before = [one.copy() for one in columns]
            found = stable_order(*columns)
            assert found.tolist() == np.lexsort(columns[::-1]).tolist()
            assert found.dtype == np.int64
            assert all(map(np.array_equal, columns, before))


@pytest.mark.parametrize("count", [2**16, 2**16 + 1])
def test_many_items_of_far_keys_are_in_order(count: int) -> None:
    draw = np.random.default_rng(count)
    far = draw.integers(-(2**63), 2**63, count // 2).repeat(3)[:count]
    draw.shuffle(far)
    near = draw.integers(0, 9, count)
    assert np.array_equal(stable_order(far), np.argsort(far, kind="stable"))
    assert np.array_equal(stable_order(near, far), np.lexsort([far, near]))


@pytest.mark.parametrize("most", [2, 2**12, 2**20])
def test_keys_that_differ_only_in_their_least_bits_are_in_order(most: int) -> None:
    draw = np.random.default_rng(most)
    greatest = np.array([-(2**63), -(2**61), 5, 2**62])
    keys = draw.choice(greatest, 3000) + draw.integers(0, most, 3000)
    keys = np.append(keys, draw.integers(-(2**63), 2**63, 3000))
    draw.shuffle(keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stable, "_BLOCK", 100)
        for column in (keys, keys.view(np.uint64), keys.repeat(3)):
            assert np.array_equal(stable_order(column), np.argsort(column, kind="stable"))


def rank(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a number: nan is the last."""
    if isinstance(value, complex):
        missing = math.isnan(value.real) or math.isnan(value.imag)
        return missing, (0.0, 0.0) if missing else (value.real, value.imag)
    missing = value != value
    return missing, 0 if missing else value


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", sorted({*ALL_DTYPES, "longdouble"}))
def test_numbers_of_every_dtype_are_sortable(dtype: str, *, descending: bool) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = np.array([info.max, info.min, 3, info.max - 1, info.max, info.min + 1], kind)
    elif kind.kind == "c":
        pairs = [complex(a, b) for a in (1, math.nan, -0.0, 0.0) for b in (2, -0.0, 0.0, math.nan)]
        values = np.array(pairs, kind)
    else:
        values = np.array(FLOATS, kind)
    plain = values.tolist()
    known = [n for n, value in enumerate(plain) if not rank(value)[0]]
    wanted = sorted(known, key=lambda n: rank(plain[n])[1], reverse=descending)
    if descending:  # Python keeps equal ones in their order with `reverse` as well
        assert wanted == sorted(known, key=lambda n: rank(plain[n])[1], reverse=True)
    wanted += [n for n in range(len(plain)) if n not in known]
    before = values.copy()
    assert stable_order(sortable(values, descending=descending)).tolist() == wanted
    assert values.tobytes() == before.tobytes()
