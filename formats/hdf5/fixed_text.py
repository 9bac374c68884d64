"""Fixed-length text in foreign HDF5, as a level of bytes without the padding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.marks import marked
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelKeys, TensorSpec, find, tensor_of
from lodcli.formats.hdf5.datasets import Datasets, notes
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, check_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT

if TYPE_CHECKING:
    from lodcli.formats.hdf5.columns import Column


def of_characters(
    datasets: Datasets, column: Column, names: tuple[str, ...] | None
) -> LoDTensor | None:
    """Return a matrix of characters of MATLAB or Octave, a text for each of its rows.

    Their axes are reversed in the file. MATLAB stores UTF-16, Octave bytes of UTF-8.

    Returns:
        None if it is no text, or has other axes.
    """
    if len(column.shape) != 2:
        return None
    stored, encoding = ("<u2", "utf-16-le") if column.dtype == np.uint16 else ("u1", "utf-8")
    rows = datasets.whole(column).T.astype(stored, order="C")
    if not rows.size or rows.max() < 128:  # ASCII, as nearly always: a byte for each character
        offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
        data = rows.astype(np.uint8, copy=False).reshape(-1)
    else:
        try:
            texts = [row.tobytes().decode(encoding).encode() for row in rows]
        except UnicodeError:
            return None
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
        data = np.frombuffer(b"".join(texts), np.uint8)
    return LoDTensor(data, LoD([offsets], names), TEXT)


class FixedText(Source):
    """A dataset of texts as one tensor.

    Args:
        datasets: the open file, closed with this source.
        column: the texts; further axes become levels of equal lengths. Of characters of netCDF,
            the last axis is that of the bytes of a text.
        lod: the levels above the texts, without names.
        names: of all levels, that of the texts the last one.
        encoding: of the texts; None is UTF-8.
    """

    def __init__(
        self,
        datasets: Datasets,
        column: Column,
        lod: LoD,
        names: tuple[str, ...] | None,
        encoding: str | None,
    ) -> None:
        self._padded = _Padded(datasets, column, lod, names)
        self._path, self._encoding = column.path, encoding
        (spec,) = self._padded.schema
        self.schema = (replace(spec, row_shape=(), rows=None, marks=TEXT),)
        self.notes = notes(datasets, {DEFAULT_NAME: column})

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        texts = (
            {name: self._texts(tensor_of(padded)) for name, padded in batch.items()}
            for batch in self._padded.batches(limit_bytes)
        )
        try:
            yield from marked(self.schema, texts)
        except InvalidDataError as error:
            raise InvalidDataError(f"{error}; give its {option('encoding')}") from None

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        lod = self._padded.lods[find(self.schema, name).name]
        above = lod.n_levels - lod.level(level)
        found = self._texts(self._padded.slice(name, branch[:above], level))
        if found.lod.n_levels:
            found = found.as_text()
        return found.select(*branch[above:]) if branch[above:] else found

    def _texts(self, padded: LoDTensor) -> LoDTensor:
        """Return texts without their padding; of a single one, its bytes as rows."""
        width = padded.row_shape[0]
        lengths = np.zeros(len(padded.data), np.int64)
        if width:  # up to the last byte of each that is not zero
            lengths = width - np.argmax(padded.data[:, ::-1] != 0, axis=1)
            lengths[~padded.data.any(axis=1)] = 0
        rows = padded.data[np.arange(width) < lengths[:, np.newaxis]]
        if self._encoding is not None:
            rows, lengths = self._recoded(rows, lengths, self._encoding)
        if not padded.lod.n_levels:
            return LoDTensor(rows)
        levels = [*padded.lod.levels[:-1], np.concatenate([[0], np.cumsum(lengths)])]
        return LoDTensor(rows, LoD(levels, padded.lod.names))

    def _recoded(self, rows: Array, lengths: Array, encoding: str) -> tuple[Array, Array]:
        """Return texts as UTF-8."""
        ends = np.cumsum(lengths).tolist()
        stored = rows.tobytes()
        try:
            texts = [
                stored[start:end].decode(encoding).encode()
                for start, end in zip([0, *ends], ends, strict=False)
            ]
        except UnicodeError:
            raise InvalidDataError(
                f"{self._path}: a text is not {encoding}; give its {option('encoding')}"
            ) from None
        found = np.frombuffer(b"".join(texts), np.uint8)
        return found, np.array([len(text) for text in texts], np.int64)

    def close(self) -> None:
        self._padded.close()


class _Padded(IndexedSource):
    """The padded texts as stored: each a row of bytes, and an item of the finest level."""

    def __init__(
        self, datasets: Datasets, column: Column, lod: LoD, names: tuple[str, ...] | None
    ) -> None:
        self._datasets, self._column = datasets, column
        *axes, width = column.shape
        if width == 1 and len(axes) > 1 and datasets.strict.is_of_netcdf(column):
            *axes, width = axes
        with naming(column.path):
            check_rows(lod.levels, axes[0])
        counts = [math.prod(axes[:depth]) for depth in range(1, len(axes) + 1)]
        levels = [
            np.arange(count + 1, dtype=np.int64) * size
            for count, size in zip(counts, [*axes[1:], 1], strict=True)
        ]
        self._each = math.prod(axes[1:])
        offsets = [*lod.levels, *levels]
        if names is not None and len(names) == len(offsets) - 1:
            whole = LoD(offsets, (*names, None))  # the level of the bytes needs no name
        else:
            whole = LoD(offsets, names)
        self.lods = {DEFAULT_NAME: whole}
        found = LevelKeys().specs(whole)
        self.schema = (TensorSpec(DEFAULT_NAME, column.dtype, (width,), found, counts[-1]),)

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        if not self._each:
            return np.empty((0, *self.schema[0].row_shape), np.uint8)
        first = start // self._each
        rows = self._datasets.rows(self._column, first, -(-stop // self._each))
        texts: Array = rows.reshape(len(rows) * self._each, *self.schema[0].row_shape)
        return texts[start - first * self._each : stop - first * self._each]

    def close(self) -> None:
        self._datasets.strict.close()
