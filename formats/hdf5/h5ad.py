"""h5ad: the sparse matrix of an AnnData file, or any CSR matrix that anndata stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.hdf5.datasets import MODULES
from lodcli.formats.hdf5.h5ad_layout import CSR, DATA_DTYPES, INDICES, NAMES, OBS, VAR
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, as_int64, check_offsets, check_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option, together
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import Mask, Nulls


class H5ad(Format):
    """The nonzero values of a CSR matrix, and their columns.

    - "data": the values; "indices": the column of each, over the same level, "obs".
    - "obs_names", "var_names": the names of rows and columns as text, uint8.

    `--data /layers/counts` reads another matrix than /X. Writing takes the same tensors:
    data and indices, and the names or, without them, numbers. Everything else of an AnnData
    object (annotations, dense matrices) is neither read nor written. What anndata stores
    needs attributes and text, so a child process reads it.
    """

    name = "h5ad"
    max_levels = 1
    min_levels = 1
    dtypes = DATA_DTYPES
    row_ranks = 0
    many = True
    options = frozenset({"data", "levels"})
    modules = ("lodcli.formats.hdf5.trusting", *MODULES)
    isolated = True
    seekable_output = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _H5adSource(source.make_seekable().fileno(), options)

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return ("obs",) if spec.name in (DEFAULT_NAME, INDICES) else ()

    def keeps_marks(self, spec: TensorSpec) -> bool:
        return super().keeps_marks(spec) or (spec.name in (OBS, VAR) and spec.marks == TEXT)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        specs = {spec.name: spec for spec in schema}
        if not {DEFAULT_NAME, INDICES} <= specs.keys() <= set(NAMES):
            raise UnsupportedError(
                f"h5ad holds {DEFAULT_NAME} and {INDICES} of one index, {OBS} and {VAR}; "
                f"found {', '.join(specs)}"
            )
        data, indices = specs[DEFAULT_NAME], specs[INDICES]
        if data.levels[0].key != indices.levels[0].key:
            raise UnsupportedError(
                f"h5ad: {DEFAULT_NAME} and {INDICES} must share their level; make them with one "
                f"LoD, or join them with lod merge FILE::{DEFAULT_NAME} FILE::{INDICES}"
            )
        if indices.dtype.kind not in "iu":
            raise UnsupportedError(f"h5ad: {INDICES} must be whole numbers, found {indices.dtype}")
        for name in (OBS, VAR):
            if name in specs and specs[name].dtype != np.uint8:
                raise UnsupportedError(f"h5ad: {name} are text, uint8; found {specs[name].dtype}")

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        from lodcli.formats.hdf5.h5ad_writer import H5adWriter

        with H5adWriter(output, schema) as writer:
            for batch in batches:
                writer.add(batch)
            writer.finish()


class _H5adSource(IndexedSource):
    def __init__(self, fd: int, options: ReadOptions) -> None:
        from lodcli.formats.hdf5 import trusting as hdf5

        self._hdf5: Any = hdf5
        self._file = hdf5.opened(fd)
        path = options.data or "/X"
        names = ("obs",) if options.levels is None else options.levels
        if len(names) != 1:
            raise UnsupportedError(f"h5ad has 1 level, found {len(names)} names")
        rows, self._columns = self._checked_shape(path, chosen=bool(options.data))
        self._values = hdf5.dataset(self._file, f"{path}/data")
        self._indices = hdf5.dataset(self._file, f"{path}/indices")
        indptr = hdf5.dataset(self._file, f"{path}/indptr")
        if indptr.shape != (rows + 1,):
            raise DamagedFileError(f"{path}/indptr: expected {rows + 1}, found {indptr.shape}")
        with naming(f"{path}/indptr"):
            offsets = as_int64(hdf5.numbers(indptr, 0, rows + 1), level=0, what="offsets")
            check_offsets(offsets, level=0)
        for part in (self._values, self._indices):
            if part.ndim != 1 or part.dtype.kind not in "biufc":
                raise DamagedFileError(f"{part.name}: expected numbers in one dimension")
            hdf5.require_numbers(part)
            with naming(str(part.name)):
                check_rows((offsets,), part.shape[0])
        if self._indices.dtype.kind not in "iu":
            raise DamagedFileError(f"{path}/indices: expected whole numbers")
        lod = LoD([offsets], names)
        level = LevelSpec("0", names[0], rows)
        self._names = self._read_names(path, rows)
        self.lods = {DEFAULT_NAME: lod, INDICES: lod}
        self.lods |= {name: tensor.lod for name, tensor in self._names.items()}
        self.schema = (
            *(
                TensorSpec(name, part.dtype.newbyteorder("="), (), (level,), part.shape[0])
                for name, part in ((DEFAULT_NAME, self._values), (INDICES, self._indices))
            ),
            *(
                TensorSpec(
                    name,
                    np.dtype(np.uint8),
                    (),
                    (LevelSpec(name, items=tensor.lod.count(0)),),
                    tensor.rows,
                    marks=TEXT,
                    nullable=bool(tensor.nulls),
                )
                for name, tensor in self._names.items()
            ),
        )

    def _checked_shape(self, path: str, *, chosen: bool) -> tuple[int, int]:
        """Return the numbers of rows and columns of a CSR matrix.

        Raises:
            UnsupportedError: the matrix is missing, dense, or not CSR.
            DamagedFileError: its shape is invalid.
        """
        hdf5 = self._hdf5
        stored = hdf5.node(self._file, path)
        if not hasattr(stored, "keys") and (stored is not None or not chosen):
            sparse = ", ".join(self._sparse())
            others = f"choose a sparse one with {option('data')}: {sparse}; or " if sparse else ""
            if stored is None:
                raise UnsupportedError(
                    f"{path}: is missing, and h5ad reads only the sparse matrix; {others}"
                    f"read what else there is with {_as_hdf5('/obs/NAME')}"
                )
            raise UnsupportedError(
                f"{path}: is a dense matrix; {others}read it with {_as_hdf5(path)}"
            )
        group = hdf5.group(self._file, path, chosen=chosen)
        kind = self._kind(path)
        if kind not in CSR:
            raise UnsupportedError(
                f"{path}: is stored as {str(kind)[:40]}, expected csr_matrix (rows of cells); "
                "convert it with .tocsr()"
            )
        shape = hdf5.attribute(group, "shape")
        if shape is None:
            shape = hdf5.attribute(group, "h5sparse_shape")
        if not isinstance(shape, np.ndarray) or shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise DamagedFileError(f"{path}: its shape is not two numbers")
        rows, columns = shape.tolist()
        if rows < 0 or columns < 0:
            raise DamagedFileError(f"{path}: has the shape {rows} x {columns}")
        return rows, columns

    def _sparse(self) -> list[str]:
        """Return the paths of CSR matrices."""
        places = ["/raw.X", "/raw/X"]
        for folder in ("layers", "obsp", "varp"):
            group = self._hdf5.node(self._file, folder)
            places += [f"/{folder}/{name}" for name in self._hdf5.names_in(group)]
        return [place for place in places if self._kind(place) in CSR]

    def _kind(self, path: str) -> object:
        """Return the storage kind of a matrix; None for a dense or missing one."""
        stored = self._hdf5.node(self._file, path)
        if not hasattr(stored, "keys"):
            return None
        attribute = self._hdf5.attribute
        return attribute(stored, "encoding-type") or attribute(stored, "h5sparse_format")

    def _read_names(self, path: str, rows: int) -> dict[str, LoDTensor]:
        """Return the names of rows and columns, where they are stored as text."""
        found = {}
        frames = _frames(path)
        for name, frame, count in zip((OBS, VAR), frames, (rows, self._columns), strict=False):
            texts = self._texts(frame, count)
            if texts is not None:
                known = [text or b"" for text in texts]
                letters = np.frombuffer(b"".join(known), np.uint8)
                lod = LoD.from_lengths([[len(text) for text in known]])
                nulls = Nulls.of([[text is not None for text in texts], None])
                found[name] = LoDTensor(letters, lod, TEXT, nulls)
        return found

    def _texts(self, path: str, count: int) -> Sequence[bytes | None] | None:
        """Return the names in a frame, a missing one as None; None if they are not text."""
        hdf5, frame, field = self._hdf5, self._hdf5.node(self._file, path), None
        if frame is None:
            return None
        if hasattr(frame, "keys"):
            index = hdf5.attribute(frame, "_index")
            if not isinstance(index, str):
                return None
            path = f"{path}/{index}"
            parts = hdf5.names_in(hdf5.node(self._file, path))
            if "codes" in parts:
                return self._categorical(path, count)
            if "values" in parts:
                return self._nullable(path, count)
            stored = hdf5.dataset(self._file, path)
        else:  # before anndata 0.7: records, the name first
            stored = hdf5.dataset(self._file, path)
            fields = stored.dtype.names or ()
            field = next((name for name in ("index", "_index") if name in fields), None)
            if field is None:
                raise DamagedFileError(f"{path}: expected a group, or records with a field index")
        _require_names(stored, count)
        texts: list[bytes] = hdf5.texts(stored, 0, count, field=field)
        return texts

    def _categorical(self, path: str, count: int) -> list[bytes | None]:
        """Return the texts of a categorical array: each is a category, or missing."""
        hdf5 = self._hdf5
        stored = hdf5.dataset(self._file, f"{path}/categories")
        if stored.ndim != 1:
            raise DamagedFileError(f"{path}/categories: expected texts in one dimension")
        words: list[bytes] = hdf5.texts(stored, 0, stored.shape[0])
        codes = hdf5.dataset(self._file, f"{path}/codes")
        _require_names(codes, count)
        _require_kind(codes, "iu", "whole numbers")
        found = hdf5.numbers(codes, 0, count).tolist()
        for place, code in enumerate(found):
            if code not in range(-1, len(words)):
                raise DamagedFileError(
                    f"{path}/codes: position {place}: expected -1 to {len(words) - 1}, found {code}"
                )
        return [words[int(code)] if code >= 0 else None for code in found]

    def _nullable(self, path: str, count: int) -> list[bytes | None]:
        """Return the texts of a nullable array, which are missing where its mask is true."""
        hdf5 = self._hdf5
        stored, mask = (hdf5.dataset(self._file, f"{path}/{part}") for part in ("values", "mask"))
        for part in (stored, mask):
            _require_names(part, count)
        _require_kind(mask, "biu", "booleans")
        missing = hdf5.numbers(mask, 0, count).astype(bool).tolist()
        texts = hdf5.texts(stored, 0, count)
        return [None if null else text for text, null in zip(texts, missing, strict=True)]

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        if name in self._names:
            return self._names[name].values[start:stop].copy()
        if name == DEFAULT_NAME:
            values: Array = self._hdf5.numbers(self._values, start, stop)
            return values
        indices: Array = self._hdf5.numbers(self._indices, start, stop)
        outside = (indices < 0) | (indices >= self._columns)
        if outside.any():
            place = int(np.argmax(outside))
            raise DamagedFileError(
                f"{self._indices.name}: position {start + place}: column "
                f"{indices[place]} of {self._columns}"
            )
        return indices

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        mask = self._names[name].nulls.mask(level) if name in self._names else None
        return None if mask is None else mask[start:stop].copy()

    def close(self) -> None:
        self._file.close()


def _require_names(stored: Any, count: int) -> None:
    """Raise DamagedFileError unless a dataset has one entry for each row or column."""
    if stored.shape != (count,):
        raise DamagedFileError(f"{stored.name}: expected {count} names, found {stored.shape}")


def _require_kind(stored: Any, kinds: str, what: str) -> None:
    """Raise DamagedFileError unless the dtype of a dataset is of one of these kinds."""
    if stored.dtype.kind not in kinds:
        raise DamagedFileError(f"{stored.name}: expected {what}, found {stored.dtype}")


def _frames(path: str) -> tuple[str, ...]:
    """Return the frames that name the rows and the columns of a matrix; none if unknown."""
    folder = "/" + path.strip("/").partition("/")[0]
    return {
        "/X": ("/obs", "/var"),
        "/layers": ("/obs", "/var"),
        "/raw": ("/obs", "/raw/var"),
        "/raw.X": ("/obs", "/raw.var"),
        "/obsp": ("/obs", "/obs"),
        "/varp": ("/var", "/var"),
    }.get(folder, ())


def _as_hdf5(path: str) -> str:
    """Return the options that read any dataset, for a message."""
    return together(option("from", "hdf5"), option("data", path))
