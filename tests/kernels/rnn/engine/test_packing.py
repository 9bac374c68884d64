"""Weights in panels, against plain indexing."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.kernels.rnn.engine.native.packing import layout, matrix_panels, recurrent_panels

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
