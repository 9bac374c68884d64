"""`levels=` with fewer names than levels: the inner ones become axes of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, SelectionError
from lodcli.formats.core import format as base
from tests.formats.cases.opening import source_of

LENGTHS = [3, 0, 5, 1]
ROWS = np.arange(27.0).reshape(9, 3)
# Four tracks of points with three values, as lists of lists: two levels.
POINTS = LoDTensor(ROWS.reshape(-1), [LENGTHS, [3] * 9])


@pytest.mark.parametrize(
    "name",
    ["a.lod.h5", "a.npz", "a.parquet", "a.arrow", "a.safetensors", "a.jsonl", "a.zarr", "a.pt"],
)
def test_points_in_lists_are_rows(tmp_path: Path, name: str) -> None:
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    if name.endswith("pt"):
        pytest.importorskip("torch")
    try:
        lodcli.write(tmp_path / name, POINTS)
    except lodcli.LodError:
        assert name == "a.pt"  # it holds one level
        return
    found = lodcli.read(tmp_path / name, levels="track")
    assert (found.lod.names, found.recursive_sequence_lengths()) == (("track",), [LENGTHS])
    np.testing.assert_array_equal(found.data, ROWS)
    with lodcli.open(tmp_path / name, levels="track") as file:
        assert file.schema[0].row_shape == (3,)
        (track,) = file.values()
        assert track[2].data.tolist() == ROWS[3:8].tolist()
        assert track[2, 1:, 0].data.tolist() == ROWS[4:8, 0].tolist()
        assert [part.lod.names for part in track.batches()] == [("track",)]


@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_columns_of_one_parquet_file_keep_their_depth(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    tracks = [rng.normal(size=(n, 2)) for n in (*LENGTHS, *(i % 40 for i in range(1500)))]
    table = {
        "points": [track.tolist() for track in tracks],
        "times": [[float(i) for i in range(len(track))] for track in tracks],
        "words": [["ab", "c"][: len(track)] for track in tracks],
        "label": [f"class {len(track) % 3}" for track in tracks],
        "number": list(range(len(tracks))),
    }
    pq.write_table(pa.table(table), path, compression=compression, row_group_size=700)
    found = lodcli.read_all(path, levels=["track"], columns=["points", "times", "label", "number"])
    assert [found[name].lod.names for name in found] == [("track",)] * 3 + [()]
    np.testing.assert_array_equal(found["points"].data, np.concatenate(tracks))
    assert found["label"].to_list() == table["label"]
    # The levels of texts are no axes.
    with pytest.raises(SelectionError, match="1 level name is given, words has 2 levels"):
        lodcli.read(path, "words", levels="track")


def test_several_levels_are_several_axes(tmp_path: Path) -> None:
    images = LoDTensor(np.arange(24), [[2, 0, 1, 1], [2] * 4, [3] * 8])
    lodcli.write(tmp_path / "a.lod.h5", images)
    for names, shape in ((["clip"], (2, 3)), (["clip", "image"], (3,))):
        found = lodcli.read(tmp_path / "a.lod.h5", levels=names)
        assert found.row_shape == shape
        assert found.recursive_sequence_lengths()[0] == [2, 0, 1, 1]
        np.testing.assert_array_equal(found.data.reshape(-1), np.arange(24))


def test_nulls_of_outer_items_are_kept_and_within_rows_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[[1, 2], [3, 4]], None, [[5, 6]]]}), path)
    found = lodcli.read(path, levels="x")
    assert found.to_list() == [[[1, 2], [3, 4]], None, [[5, 6]]]
    for value, said in (
        ([[1, 2], None], r"a: item <1,1> is null, and a row of shape \(2,\) has no nulls"),
        ([[1, None]], r"a: item <1,0,1> is null"),
    ):
        pq.write_table(pa.table({"a": [[[1, 2]], value]}), path)
        with pytest.raises(InvalidDataError, match=said):
            lodcli.read(path, levels="x")


def test_nulls_within_rows_can_be_replaced_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[[1, None], [3, 4]], None, [[5, 6]]]}), path)
    found = lodcli.read(path, levels="x", nulls="fill=7")
    assert found.to_list() == [[[1, 7], [3, 4]], [], [[5, 6]]]
    pq.write_table(pa.table({"a": [[[1, 2], None, [3, 4]], [None]]}), path)
    assert lodcli.read(path, levels="x", nulls="drop").to_list() == [[[1, 2], [3, 4]], []]


def test_only_the_requested_tensors_are_returned(tmp_path: Path) -> None:
    """Parquet does not tell the counts: the first batches are read to learn the shape of a row."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"points": [[[1, 2]], [[3, 4]]], "label": [0, 1]}), path)
    for names in (["label"], ["points"], ["points", "label"]):
        with source_of(path, levels=("x",)) as file:
            found = [list(batch) for batch in file.batches_of(names)]
            assert found == [names]


def test_lengths_that_differ_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_BYTES", 1 << 10)
    lengths = [[2] * 300, [*[3] * 599, 2]]
    ragged = LoDTensor(np.ones(sum(lengths[1])), lengths)
    said = r"(a|data): item <299,1> has length 2, unlike others: levels without a name .* all 2 "
    for name in ("a.lod.h5", "a.parquet", "a.npz"):
        lodcli.write(tmp_path / name, ragged)
        with (
            pytest.raises(InvalidDataError, match=said),
            lodcli.open(tmp_path / name, levels="x") as file,
        ):
            for _ in file.batches(1 << 10):
                pass
    lodcli.write(tmp_path / "b.lod.h5", LoDTensor(np.ones(0), [[0, 0], []]))
    with pytest.raises(InvalidDataError, match="without items the shape of a row is unknown"):
        lodcli.open(tmp_path / "b.lod.h5", levels="x")
    # The mean length is 3, but no item is as long.
    lodcli.write(tmp_path / "c.lod.h5", LoDTensor(np.ones(6), [[2], [2, 4]]))
    with pytest.raises(InvalidDataError, match=r"item <0,0> has length 2, unlike others"):
        lodcli.read(tmp_path / "c.lod.h5", levels="x")
