"""Arrays of one chunk: read without the zarr package, and as it reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io, registry
from lodcli.formats.core.options import NO_OPTIONS
from lodcli.formats.npz.npy_header import NPY_DTYPES
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

zarr: Any = pytest.importorskip("zarr")

SHAPES = [(7,), (3, 2), (0, 3), (4, 0), (1, 1, 5)]
COMPRESSORS = ["none", "zstd", "gzip"]
ORDERS = ["little", "big"]


def _in_this_process(path: Path) -> dict[str, Any]:
    """Read a store without a child process."""
    with Input(path) as source:
        return registry.get("zarr").open(source, NO_OPTIONS).read()


def _cases() -> Iterator[tuple[str, np.ndarray[Any, Any], str, str]]:
    dtypes = sorted(NPY_DTYPES)
    for number, (name, shape, compressor, order) in enumerate(
        product(dtypes, SHAPES, COMPRESSORS, ORDERS)
    ):
        count = int(np.prod(shape))
        values = np.random.default_rng(number).integers(0, 2, count).reshape(shape).astype(name)
        yield f"x{number}", values, compressor, order


def test_arrays_of_one_chunk_are_those_that_zarr_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    compressors = {
        "none": None,
        "zstd": zarr.codecs.ZstdCodec(checksum=True),
        "gzip": zarr.codecs.GzipCodec(),
    }
    group = zarr.open_group(path, mode="w")
    for name, values, compressor, order in _cases():
        group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            serializer=zarr.codecs.BytesCodec(endian=order if values.dtype.itemsize > 1 else None),
            compressors=compressors[compressor],
            fill_value=1,
            dimension_names=["d"] * values.ndim if order == "little" else None,
        )
        if compressor != "none" or order == "little":  # else the chunk is missing: the fill value
            group[name][...] = values
    found = _in_this_process(path)
    assert len(found) == len(list(_cases()))
    for name, tensor in found.items():
        expected = group[name][...]
        assert tensor.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(tensor.data, expected)
        assert tensor.data.flags.writeable


def test_small_arrays_of_ours_are_read_without_zarr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.zarr"
    content = {f"t{number}": LoDTensor(np.arange(number), [[0, number]]) for number in range(9)}
    io.write(path, content)

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("zarr opened an array")

    monkeypatch.setattr(zarr, "open_array", refuse)
    found = _in_this_process(path)
    assert {name: one.to_list() for name, one in found.items()} == {
        name: one.to_list() for name, one in content.items()
    }


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("codecs", [{"name": "transpose", "configuration": {"order": [1, 0]}}]),
        ("chunk_key_encoding", {"name": "v2", "configuration": {"separator": "."}}),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [3, 4]}}),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [1, 2]}}),
    ],
)
def test_what_changes_the_values_is_read_by_zarr(member: str, value: Any, tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.int32).reshape(3, 2)
    path = tmp_path / "t.zarr"
    how: dict[str, Any] = {"shape": rows.shape, "chunks": rows.shape, "dtype": rows.dtype}
    if member == "codecs":
        how["filters"] = zarr.codecs.TransposeCodec(order=(1, 0))
    elif member == "chunk_key_encoding":
        how["chunk_key_encoding"] = value
    else:
        how["chunks"] = value["configuration"]["chunk_shape"]
    zarr.create_array(path, **how)[...] = rows
    metadata = json.loads((path / "zarr.json").read_text())[member]
    assert metadata == value or value[0] in metadata
    np.testing.assert_array_equal(_in_this_process(path)["data"].data, rows)


def test_a_chunk_of_another_size_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    zarr.create_array(path, data=np.arange(6), compressors=None)
    chunk = path / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(LodError, match="data: expected a chunk of 48 bytes, found 47"):
        io.read(path)


def test_an_extension_that_zarr_does_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    zarr.create_array(path, data=np.arange(6))
    file = path / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"unknown": {"name": "x"}}))
    with pytest.raises(LodError, match="data: zarr cannot read it"):
        io.read(path)
