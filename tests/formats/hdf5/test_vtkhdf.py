"""vtkhdf: cells of VTK's grids, in pieces and in time steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, nested

THEIRS = Path(__file__).parents[1] / "theirs"
GRID, STEPS = THEIRS / "grid.vtkhdf", THEIRS / "steps.vtkhdf"  # steps: of VTK 9.7.2


def test_a_grid_of_vtk_is_read() -> None:
    found = content(GRID)
    assert nested(found["Connectivity"]) == [[[0, 1, 2, 3], [1, 2, 3, 4]]]
    assert nested(found["Types"]) == [[10, 10]]
    assert found["Points"].recursive_sequence_lengths() == [[5]]
    assert found["Points"].data.tolist()[-1] == [1, 1, 1]
    assert found["Points"].row_shape == (3,)
    assert found["Connectivity"].lod.names == ("piece", "cell")


def pieces(folder: Path, **changes: Any) -> Path:
    """Return a file of polygon data in two pieces, with some datasets replaced."""
    stored: dict[str, Any] = {
        "NumberOfPoints": [4, 3],
        "Points": np.arange(21.0).reshape(7, 3),
        "Polygons/NumberOfCells": [2, 1],
        "Polygons/NumberOfConnectivityIds": [6, 3],
        "Polygons/Offsets": [0, 3, 6, 0, 3],
        "Polygons/Connectivity": [0, 1, 2, 1, 2, 3, 0, 1, 2],
    }
    path = folder / "x.vtkhdf"
    with h5py.File(path, "w") as file:
        for name, value in (stored | {k.replace("_", "/"): v for k, v in changes.items()}).items():
            if value is not None:
                file[f"VTKHDF/{name}"] = value
    return path


def test_pieces_have_offsets_of_their_own(tmp_path: Path) -> None:
    found = content(pieces(tmp_path))
    assert list(found) == ["Polygons", "Points"]
    assert nested(found["Polygons"]) == [[[0, 1, 2], [1, 2, 3]], [[0, 1, 2]]]
    assert found["Points"].recursive_sequence_lengths() == [[4, 3]]
    batches = batches_of(tmp_path / "x.vtkhdf", 1)
    assert LoDTensor.concatenate(
        [batch["Polygons"] for batch in batches if "Polygons" in batch]
    ).identical(found["Polygons"])


def test_time_steps_of_one_mesh_are_one_piece(tmp_path: Path) -> None:
    found = content(STEPS)
    assert nested(found["Connectivity"]) == [[[0, 1, 2, 3], [1, 2, 3, 4]]]
    assert found["Points"].recursive_sequence_lengths() == [[5]]
    # As other programs write it: every step has its counts, VTK (9.7.2) reads the first.
    path = tmp_path / "x.vtkhdf"
    path.write_bytes(STEPS.read_bytes())
    with h5py.File(path, "r+") as file:
        for name in ("NumberOfPoints", "NumberOfCells", "NumberOfConnectivityIds"):
            counts = file[f"VTKHDF/{name}"][()].tolist() * 3
            del file[f"VTKHDF/{name}"]
            file[f"VTKHDF/{name}"] = counts
    again = content(path)
    assert all(again[name].identical(found[name]) for name in found)


STEPPED: dict[str, Any] = {
    "Steps_PartOffsets": [0, 0, 1],
    "Steps_NumberOfParts": [1, 1, 1],
    "Steps_PointOffsets": [0, 4, 8],
    "Points": np.arange(33.0).reshape(11, 3),
}


def test_points_that_move_have_a_piece_a_step(tmp_path: Path) -> None:
    # The first cells are those of two steps, whose points differ.
    found = content(pieces(tmp_path, **STEPPED))
    assert nested(found["Polygons"]) == [[[0, 1, 2], [1, 2, 3]], [[0, 1, 2]]]
    assert found["Points"].recursive_sequence_lengths() == [[4, 4, 3]]
    without = content(pieces(tmp_path, **STEPPED | {"Steps_NumberOfParts": None}))
    assert all(without[name].identical(found[name]) for name in found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Steps_PartOffsets": [0, 2, 1]}, "PartOffsets: expected a part up to 1, found 2"),
        ({"Steps_PartOffsets": [0, 0, -1]}, "PartOffsets: expected 0 to 2, found -1 to 0"),
        ({"Steps_PartOffsets": [0, 0, 2**62]}, "PartOffsets: expected 0 to 2"),
        ({"Steps_NumberOfParts": [1, 1]}, "PartOffsets: expected 2 steps, found 3"),
        ({"Steps_NumberOfParts": [1, 1, 2]}, "PartOffsets: expected a part up to 1, found 1"),
        ({"Steps_PointOffsets": [0, 4]}, "PointOffsets: expected 3 steps, found 2"),
        ({"Steps_PointOffsets": [0, 5, 8]}, "PointOffsets: expected 4, found 5"),
    ],
)
def test_damage_in_time_steps_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = pieces(tmp_path, **STEPPED | changes)
    with pytest.raises(LodError, match=message):
        content(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Polygons_Connectivity": None}, "neither an unstructured grid nor polygon data"),
        (
            # As VTK (9.7.1) writes images, trees and files of several blocks.
            {"Polygons_Connectivity": None, "NumberOfPoints": None, "PointData_x": [1.0]},
            "polygon data; of several blocks, write each to a file",
        ),
        ({"Polygons_Offsets": None}, "Offsets: there is no such dataset"),
        ({"Polygons_Offsets": [0, 3, 6, 0]}, "expected 5 offsets of 3 cells in 2 pieces, found 4"),
        ({"Polygons_Offsets": [0, 3, 5, 0, 3]}, "piece 0: ends at 5, expected 6 point numbers"),
        ({"Polygons_Offsets": [0, 3, 6, 1, 3]}, "piece 1: "),
        ({"Polygons_Offsets": [0, 7, 6, 0, 3]}, "piece 0: "),
        ({"Polygons_Offsets": [0.5] * 5}, "Offsets: "),
        ({"Polygons_NumberOfCells": [2, -1]}, "NumberOfCells: "),
        ({"Polygons_NumberOfCells": [2]}, "NumberOfCells: expected 2 pieces, found 1"),
        ({"Polygons_NumberOfCells": [2**62, 2**62]}, "NumberOfCells: |offsets of"),
        ({"Polygons_NumberOfConnectivityIds": [6, 2]}, "piece 1: ends at 3, expected 2"),
        ({"Polygons_NumberOfConnectivityIds": [6]}, "Ids: expected 2 pieces, found 1"),
        ({"Polygons_Connectivity": np.arange(8)}, "Connectivity: "),
        ({"Polygons_Connectivity": np.arange(10)}, "Connectivity: "),
        ({"Polygons_Connectivity": [b"a"] * 9}, "holds data of variable length"),
        ({"NumberOfPoints": None}, "NumberOfPoints: there is no such dataset"),
        ({"NumberOfPoints": [7]}, "NumberOfCells: expected 1 pieces, found 2"),
        ({"NumberOfPoints": [4, 4]}, "Points: "),
        ({"Points": None}, "Points: there is no such dataset"),
        ({"Points": 1.0}, "Points: is a single value"),
    ],
)
def test_damage_in_a_grid_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = pieces(tmp_path, **changes)
    with pytest.raises(LodError, match=message) as caught:
        content(path)
    assert not isinstance(caught.value, SelectionError), "nobody named a dataset"
