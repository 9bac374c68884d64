"""Writes an AnnData file with one sparse matrix and the names of its rows and columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import h5py
import numpy as np

from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema, tensor_of
from lodcli.formats.hdf5.file_objects import WritableFile, require_memory
from lodcli.formats.hdf5.h5ad_layout import INDICES, OBS, VAR
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor

CHUNK_ROWS = 1 << 16
MOST_COLUMNS = 2**31 - 1


class H5adWriter:
    """Writes batches as they arrive, and the names at the end."""

    def __init__(self, output: Output, schema: Schema) -> None:
        self._output = output
        self._owned = WritableFile(output.fd)
        self._columns = self._rows = 0
        self._end = 0
        self._texts: dict[str, list[bytes]] = {
            spec.name: [] for spec in schema if spec.name in (OBS, VAR)
        }
        dtypes = {spec.name: spec.dtype for spec in schema}
        require_memory()
        with shielded():
            self._file = h5py.File(self._owned, "w")
            matrix = self._matrix = self._file.create_group("X")
            for name, dtype in (
                ("data", dtypes[DEFAULT_NAME]),
                ("indices", dtypes[INDICES]),
                ("indptr", np.dtype(np.int64)),
            ):
                matrix.create_dataset(name, (0,), dtype, chunks=(CHUNK_ROWS,), maxshape=(None,))
            self._append("indptr", np.zeros(1, np.int64))

    def __enter__(self) -> H5adWriter:
        return self

    def __exit__(self, *error: object) -> None:
        with shielded():
            self._file.close()
        if error[0] is None:
            with self._output.naming():
                self._owned.raise_error()

    def _append(self, name: str, values: Array) -> None:
        dataset = self._matrix[name]
        start = dataset.shape[0]
        dataset.resize((start + values.shape[0],))
        dataset[start:] = values

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        for name, item in batch.items():
            assert isinstance(item, LoDTensor)
            if name in self._texts:
                letters, bounds = item.data.tobytes(), item.lod.levels[0].tolist()
                self._texts[name] += [letters[start:stop] for start, stop in pairwise(bounds)]
        if DEFAULT_NAME not in batch:
            return
        data, indices = (tensor_of(batch[name]) for name in (DEFAULT_NAME, INDICES))
        self._check(indices)
        with shielded(), self._output.naming():
            self._append("data", data.data)
            self._append("indices", indices.data)
            self._append("indptr", data.lod.levels[0][1:] + self._end)
            self._owned.raise_error()
        self._end += data.rows
        self._rows += len(data)

    def _check(self, indices: LoDTensor) -> None:
        if not indices.rows:
            return
        low, high = int(indices.data.min()), int(indices.data.max())
        if low < 0 or high >= MOST_COLUMNS:
            raise InvalidDataError(f"{INDICES}: {low if low < 0 else high} is not a column")
        self._columns = max(self._columns, high + 1)

    def finish(self) -> None:
        """Write the names and the shape."""
        names = {}
        for name, needed in ((OBS, self._rows), (VAR, self._columns)):
            texts = self._texts.get(name)
            if texts is None:
                texts = [b"%d" % number for number in range(needed)]
            if len(texts) < needed or (name == OBS and len(texts) != needed):
                raise ShapeMismatchError(f"{name}: expected {needed} names, found {len(texts)}")
            names[name] = _decoded(name, texts)
        shape = (self._rows, len(names[VAR]))
        with shielded(), self._output.naming():
            _describe(self._file, "anndata", "0.1.0")
            _describe(self._matrix, "csr_matrix", "0.1.0")
            self._matrix.attrs["shape"] = np.array(shape, np.int64)
            for path, found in (("obs", names[OBS]), ("var", names[VAR])):
                frame = self._file.create_group(path)
                _describe(frame, "dataframe", "0.2.0")
                frame.attrs["_index"] = "_index"
                frame.attrs.create("column-order", np.empty(0, np.float64))
                text = h5py.string_dtype()
                stored = frame.create_dataset("_index", (len(found),), text, data=found)
                _describe(stored, "string-array", "0.2.0")
            for path in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
                _describe(self._file.create_group(path), "dict", "0.1.0")
            self._file.flush()
            self._owned.raise_error()


def _decoded(name: str, texts: list[bytes]) -> list[str]:
    try:
        found = [text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"{name}: {error.object[:40]!r} is not UTF-8 text") from None
    for text in found:
        if "\0" in text:
            raise InvalidDataError(f"{name}: {text[:40]!r} has a zero in it, HDF5 text cannot")
    return found


def _describe(found: Any, kind: str, version: str) -> None:
    found.attrs["encoding-type"] = kind
    found.attrs["encoding-version"] = version
