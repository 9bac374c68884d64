"""Weights in panels, against plain indexing."""

from __future__ import annotations

import dataclasses
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.rnn.engine import products
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.engine.native import collecting, packing
from lodcli.kernels.rnn.engine.native.layout import VECTOR_ROWS, VECTORS, Layout
from lodcli.kernels.rnn.engine.native.packing import (
    layout,
    matrix_panels,
    once,
    recurrent_panels,
)
from lodcli.kernels.rnn.stack.stack import seeded_weights

pytest.importorskip("numba")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("gates", "vectors"), [(4, 4), (3, 3), (1, 4)])
@pytest.mark.parametrize(("size", "depth"), [(1, 1), (3, 17), (16, 16), (64, 5), (70, 35)])
def test_recurrent_panels_hold_the_same_units_of_all_gates(
    dtype: str, gates: int, vectors: int, size: int, depth: int
) -> None:
    weight = np.arange(1.0, gates * size * depth + 1, dtype=dtype).reshape(-1, depth)
    units = layout().lanes(weight.itemsize) * vectors // gates
    count = -(-size // units)
    expected = np.zeros((count, depth, gates, units), dtype)
    for panel in range(count):
        for gate in range(gates):
            for unit in range(min(units, size - panel * units)):
                row = gate * size + panel * units + unit
                expected[panel, :, gate, unit] = weight[row]
    np.testing.assert_array_equal(recurrent_panels(weight, gates, vectors), expected.ravel())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (5, 64), (3, 70), (2, 129)])
def test_panels_of_a_matrix_hold_its_columns_side_by_side(
    dtype: str, depth: int, columns: int
) -> None:
    weight = np.arange(1.0, depth * columns + 1, dtype=dtype).reshape(depth, columns)
    width = layout().panel_width(weight.itemsize)
    wide = np.zeros((depth, -(-columns // width) * width), dtype)
    wide[:, :columns] = weight
    expected = np.concatenate(
        [wide[:, n : n + width].ravel() for n in range(0, len(wide[0]), width)]
    )
    np.testing.assert_array_equal(matrix_panels(weight), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "registers", [Layout(16, 32), Layout(32, 16), Layout(64, 32), Layout(16, 8)], ids=str
)
@pytest.mark.parametrize("exact", [True, False])
def test_every_row_of_a_tile_has_a_place_in_the_sums(
    exact: bool, registers: Layout, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (products, collecting):
        monkeypatch.setattr(module, "layout", lambda: registers)
    panels: Any = SimpleNamespace(panels=np.zeros(0, dtype), depth=3, columns=5)
    room = (products.EXACT if exact else products.BFLOAT16).backward_room(panels, panels, 10)
    space = collecting._new_space(np.dtype(dtype), 1, room)
    assert len(space.sums_at) >= max(VECTOR_ROWS, registers.tile_rows(VECTORS))
    width = registers.panel_width(np.dtype(dtype).itemsize)
    assert np.all(np.diff(space.sums_at) == width)
    assert space.sums_at[-1] + width <= len(space.sums)


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_objects_made_of_immutable_arrays_are_kept_until_one_is_deleted(deleted: int) -> None:
    class Made:
        pass

    arrays = [immutable(np.arange(3.0) + number) for number in range(3)]
    made = weakref.ref(once(tuple(arrays), ("a test",), Made))
    assert made() is not None
    assert once(tuple(arrays), ("a test",), Made) is made()
    assert once(tuple(arrays), ("another",), Made) is not made()
    del arrays[deleted]
    assert made() is None


def test_panels_of_weights_that_share_an_array_are_deleted_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "_made", {})
    rng, data, offsets = np.random.default_rng(0), np.ones((6, 3), "f"), np.array([0, 2, 6])
    shared: Any = seeded_weights("lstm", 3, 4, rng=rng).layers[0][0].frozen()
    for _ in range(3):
        other: Any = seeded_weights("lstm", 3, 4, rng=rng).layers[0][0].frozen()
        weights = dataclasses.replace(shared, weight_hh=other.weight_hh)
        run = rnn_forward(data, offsets, weights, keep=True, backend="numba")
        rnn_backward(run.tape, grad_outputs=run.outputs)
        assert len(packing._made) == 2  # of both passes
    del other, weights, run
    assert not packing._made
