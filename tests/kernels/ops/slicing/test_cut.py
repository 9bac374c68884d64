"""Which items of each segment are kept of it: NumPy and compiled code as a plain loop."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.ops.slicing.truncate import segment_cut
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import on_every_backend


@on_every_backend
@given(
    lengths=st.lists(st.integers(0, 6), max_size=7),
    length=st.sampled_from([0, 1, 3, 1 << 61]),
    last=st.booleans(),
)
def test_a_segment_is_cut_at_its_end_or_its_beginning(
    backend: Backend, lengths: list[int], length: int, last: bool
) -> None:
    offsets = np.array([0, *itertools.accumulate(lengths)])
    starts, counts = on(backend, segment_cut)(offsets, length, last)
    rows = [list(range(n)) for n in lengths]
    kept = [row[max(0, len(row) - length) :] if last else row[:length] for row in rows]
    assert counts.tolist() == [len(row) for row in kept]
    assert starts.tolist() == [
        len(row) - len(those) if last else 0 for row, those in zip(rows, kept, strict=True)
    ]
