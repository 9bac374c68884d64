"""Writes arrays to a Zarr store, a shard at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
import zarr
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]
from zarr.codecs import ZstdCodec

from lodcli.formats.arrays.array_writer import ArraySpec
from lodcli.formats.arrays.spool import Spool, SpooledArray
from lodcli.formats.core.marks import mask_name
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.npz.npz import spool_arrays, spooled_masks
from lodcli.formats.storage.outputs import Output
from lodcli.formats.zarr.attributes import group_of, written
from lodcli.formats.zarr.stores import Collected
from lodcli.kernels.index.checks import Array

CHUNK_BYTES, CHUNKS_A_SHARD = 512 << 10, 16
# Of zstd.
_LEVEL = 1


def write_arrays(
    output: Output,
    schema: Schema,
    batches: Iterable[Batch],
    put: Callable[[str, Any], None],
    attributes: Mapping[str, Any],
) -> None:
    """Write tensors as the arrays of a store.

    Args:
        output: the target; arrays are first spooled on its file system.
        put: called with the key and content of each file of the store.
    """
    with Spool(output) as spool:
        masks = spooled_masks(spool, schema, mask_path)
        kind = np.dtype(np.int64)
        counted, arrays = spool_arrays(spool, schema, batches, array_path, kind, masks)
        said = written(counted, masks.levels(), attributes)
        root = {"zarr_format": 3, "node_type": "group", "attributes": said}
        put("zarr.json", json.dumps(root).encode())
        for spec in counted:
            group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
            put(f"{group_of(spec.name)}/zarr.json", json.dumps(group).encode())
        for array, spooled in arrays.values():
            for key, value in array_files(array, spooled):
                put(key, value)


def array_path(tensor: str, level: int) -> str:
    """Return the path of the rows of a tensor (level -1), or of a level."""
    return f"{group_of(tensor)}/{'data' if level < 0 else f'lod.{level}'}"


def mask_path(spec: TensorSpec, level: int) -> str:
    """Return the path of the mask of a level, or of the rows."""
    return f"{group_of(spec.name)}/{mask_name(level, len(spec.levels))}"


def array_files(array: ArraySpec, spooled: SpooledArray) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an array, first its chunks, then its metadata."""
    rows = array.rows or 0
    row_bytes = math.prod(array.row_shape) * array.dtype.itemsize
    chunk = CHUNK_BYTES // max(1, row_bytes)
    if rows <= chunk:
        # zarr takes half a millisecond for an array, however small.
        if rows and row_bytes:
            key = f"{array.name}/c{'/0' * (1 + len(array.row_shape))}"
            yield key, _zstd().encode(b"".join(spooled.blocks()))
        metadata = _metadata_of_one_chunk(array.dtype, (rows, *array.row_shape))
    else:
        chunk = max(1, chunk)
        shard = chunk * min(CHUNKS_A_SHARD, -(-rows // chunk))
        store = Collected()
        made, metadata = _created(store, array, chunk, shard)
        for start, part in _shards(array, spooled, shard):
            made[start : start + len(part)] = part
            yield from store.taken().items()
    yield f"{array.name}/zarr.json", metadata


def _created(
    store: Collected, array: ArraySpec, chunk: int, shard: int
) -> tuple[zarr.Array[Any], bytes]:
    """Return an array in a store, by rows of a chunk and of a shard, and its metadata."""
    inner = tuple(max(1, size) for size in array.row_shape)
    made = zarr.create_array(
        store,
        name=array.name,
        shape=(array.rows or 0, *array.row_shape),
        dtype=array.dtype,
        chunks=(chunk, *inner),
        shards=(shard, *inner) if shard > chunk else None,
        compressors=ZstdCodec(level=_LEVEL, checksum=True),
        filters=None,
        fill_value=array.dtype.type(0),
        config={"write_empty_chunks": True},
    )
    return made, store.taken()[f"{array.name}/zarr.json"]


def _metadata_of_one_chunk(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the metadata that zarr writes for an array of one chunk."""
    content = json.loads(_metadata_of_one_row(dtype, shape[1:]))
    content["shape"][0] = shape[0]
    content["chunk_grid"]["configuration"]["chunk_shape"][0] = max(1, shape[0])
    return json.dumps(content, indent=2).encode()


@lru_cache(256)
def _metadata_of_one_row(dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> bytes:
    return _created(Collected(), ArraySpec("x", dtype, row_shape, 1), 1, 1)[1]


@cache
def _zstd() -> Any:
    return Zstd(level=_LEVEL, checksum=True)


def _shards(array: ArraySpec, spooled: SpooledArray, rows: int) -> Iterator[tuple[int, Array]]:
    """Yield the rows of an array, `rows` at a time, each with the number of its first one."""
    size = rows * math.prod(array.row_shape) * array.dtype.itemsize
    waiting = bytearray()
    start = 0
    for block in spooled.blocks():
        waiting += block
        while len(waiting) >= size:
            yield start, _rows(array, waiting[:size])
            del waiting[:size]
            start += rows
    if waiting:
        yield start, _rows(array, waiting)


def _rows(array: ArraySpec, data: bytearray) -> Array:
    return np.frombuffer(bytes(data), array.dtype).reshape(-1, *array.row_shape)
