"""Arrays of one chunk, read without the zarr package.

Stores of tensors have thousands of small arrays. The package takes a millisecond to open one, and
another to read it, most of them to pass the request to its event loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

from lodcli.formats.npz.npy_header import NPY_DTYPES
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array

# All that the metadata of an array may say; anything else changes what is read.
_MEMBERS = frozenset(
    {
        *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding"),
        *("fill_value", "codecs", "attributes", "storage_transformers", "dimension_names"),
    }
)
_zstd = Zstd()


class OneChunk(NamedTuple):
    """An array whose rows are one chunk of plain values, perhaps compressed by zstd.

    Attributes:
        dtype: of the values.
        shape: of the array.
        packed: whether zstd compressed the chunk.
        attrs: the attributes of the array.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    packed: bool
    attrs: Mapping[str, Any]

    def key(self, path: str) -> str:
        """Return the key of the chunk of an array with this path."""
        return f"{path}/c{'/0' * len(self.shape)}".removeprefix("/")

    def decoded(self, chunk: bytes) -> Array:
        """Return the rows in a chunk.

        Raises:
            InvalidDataError, RuntimeError, ValueError: the chunk is damaged.
        """
        data = _zstd.decode(chunk) if self.packed else chunk
        size = math.prod(self.shape) * self.dtype.itemsize
        if len(data) != size:
            raise InvalidDataError(f"expected a chunk of {size} bytes, found {len(data)}")
        return np.frombuffer(data, self.dtype).reshape(self.shape)


def one_chunk(metadata: Any) -> OneChunk | None:
    """Return the array that `zarr.json` describes; None if only zarr knows how to read it."""
    match metadata:
        case {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [_, *_] as shape,
            "data_type": str(name),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _,
            "codecs": [{"name": "bytes"} as order]
            | [{"name": "bytes"} as order, {"name": "zstd"}] as codecs,
            "attributes": dict(attrs),
        } if name in NPY_DTYPES and metadata.keys() <= _MEMBERS:
            dtype = np.dtype(name)
            if (
                not metadata.get("storage_transformers")
                and all(type(size) is int and size >= 0 for size in shape)
                and chunk == [max(1, size) for size in shape]
                and _is_little(order, dtype)
            ):
                return OneChunk(dtype.newbyteorder("<"), tuple(shape), len(codecs) == 2, attrs)
    return None


def _is_little(codec: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """Return whether a codec "bytes" stores numbers in little-endian order."""
    said = codec.get("configuration")
    return said == {"endian": "little"} or (dtype.itemsize == 1 and said in (None, {}))
