"""npy, npz and zarr: dates and durations of NumPy as times with their unit, NaT as nulls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.arrays.array_source import ArraySource
from lodcli.formats.arrays.part import Part
from lodcli.formats.core import io
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.items.indexed_copy import Labelled, in_place
from lodcli.formats.items.merged import MergedSource
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, source_of
from tests.growth import calls_of

pa: Any = pytest.importorskip("pyarrow")
DTYPES = ("M8[s]", "M8[ms]", ">M8[us]", "M8[ns]", "M8[D]", "m8[s]", ">m8[ms]", "m8[us]", "m8[ns]")


def _array(dtype: str) -> np.ndarray:
    numbers = np.random.default_rng(1).integers(-(10**5), 10**5, 40)
    array: np.ndarray = numbers.view(dtype.lstrip(">")).astype(dtype)
    array[[3, 4, 39]] = "NaT"
    return array


def _save(path: Path, array: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez_compressed(path, data=array) if "packed" in path.name else np.savez(path, array)
    else:
        zarr = pytest.importorskip("zarr")
        made = zarr.open_group(path, mode="w", zarr_format=2 if "2" in path.name else 3)
        made.create_array("data", shape=array.shape, dtype=array.dtype, chunks=(7,))[:] = array


def _alone(source: IndexedSource) -> IndexedSource:
    return source


def _part(source: IndexedSource) -> IndexedSource:
    return Part(source, 0, 2)


def _merged(source: IndexedSource) -> IndexedSource:
    return MergedSource([Labelled("x", source, source.schema)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "packed.npz", "v2.zarr", "v3.zarr"])
def test_times_are_those_that_arrow_takes_from_numpy(name: str, dtype: str, tmp_path: Path) -> None:
    array = _array(dtype)
    _save(tmp_path / name, array)
    (found,) = content(tmp_path / name).values()
    expected = pa.array(array.astype(array.dtype.newbyteorder("=")))
    written = tmp_path / "x.arrow"
    io.write(written, found)
    column = pa.ipc.open_file(str(written)).read_all().column(0).combine_chunks()
    assert column.equals(expected)
    assert column.null_count == 3
    parts = [part for batch in batches_of(tmp_path / name, 64) for part in batch.values()]
    assert len(parts) > 1
    assert LoDTensor.concatenate(parts).identical(found)
    with lodcli.open(tmp_path / name) as source:
        part = source.slice(source.schema[0].name, (slice(2, 6),))
    assert part.identical(found[2:6])


@pytest.mark.parametrize("wrapped", [_alone, _part, _merged])
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_values_and_nulls_come_from_one_read(
    name: str,
    wrapped: Callable[[IndexedSource], IndexedSource],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _save(tmp_path / name, _array("M8[s]"))
    with source_of(tmp_path / name) as opened:
        source = in_place(opened, [opened.schema[0].name])
        assert isinstance(source, ArraySource)
        calls = calls_of(monkeypatch, source, "read_array")
        found = wrapped(source).slice(source.schema[0].name, (slice(2, 6),))
    assert found.nulls.rows is not None
    assert found.nulls.rows.tolist() == [True, False, False, True]
    assert len(calls) == 1


def test_rows_of_several_times_keep_their_shape(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6).reshape(3, 2).astype("M8[ms]"))
    np.save(tmp_path / "x.npy", array)
    found = content(tmp_path / "x.npy")["data"]
    np.testing.assert_array_equal(found.data, array.astype(np.int64))
    assert str(found.marks) == "timestamp[ms]"


def test_times_are_rows_below_levels_and_not_an_index(tmp_path: Path) -> None:
    times = np.array([1, "NaT", 3], "M8[s]")
    np.savez(tmp_path / "x.npz", t=times, n=np.array([2, 1]))
    found = content(tmp_path / "x.npz", data="t", lengths=("n",))["t"]
    assert found.lod.lengths(0).tolist() == [2, 1]
    assert found.nulls.rows is not None
    assert found.nulls.rows.tolist() == [True, False, True]
    with pytest.raises(InvalidDataError, match="lengths must be integers"):
        content(tmp_path / "x.npz", data="n", lengths=("t",))
