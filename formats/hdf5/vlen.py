"""hdf5-vlen: a dataset of variable-length sequences, or of text, in any HDF5 file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.marks import marked
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, TensorSpec, find
from lodcli.formats.hdf5.datasets import MODULES, asking_for_data
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT

# The attribute in which PyTables declares the content: code points, bytes, or pickles.
_PYTABLES, _CODE_POINTS, _BYTES, _PICKLES = "PSEUDOATOM", "vlunicode", "vlstring", "object"
# Items read at a time: HDF5 allocates memory for each of them.
PORTION = 1 << 12


class Hdf5Vlen(Format):
    """One level of rows, or of the bytes of texts, also of those of PyTables.

    `--data /x` names the dataset, `--data /x/field` a field of compounds.

    Reading only: h5py's own variable-length type can make HDF5 hang on damaged files, so
    the file is read in a child process with a limit on time and memory, and lod.h5 keeps
    such data as rows and offsets.
    """

    name = "hdf5-vlen"
    min_levels = max_levels = 1
    dtypes = ALL_DTYPES - {"bfloat16"}
    read_only = "write lod.h5, whose rows need no such type"
    options = frozenset({"data", "levels"})
    modules = ("lodcli.formats.hdf5.trusting", "encodings.utf_32_le", *MODULES)
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        if options.data is None:
            raise asking_for_data(source)
        return _VlenSource(source.make_seekable().fileno(), options.data, options.levels)


class _VlenSource(Source):
    def __init__(self, fd: int, path: str, names: tuple[str, ...] | None) -> None:
        from lodcli.formats.hdf5 import trusting as hdf5

        self._hdf5: Any = hdf5
        self._file = hdf5.opened(fd)
        self._dataset, self._field = hdf5.dataset_or_field(self._file, path)
        dtype, self._text = hdf5.item_dtype(self._dataset, self._field)
        shape = self._dataset.shape
        if dtype is None:
            kind = self._dataset.dtype
            kind = kind if self._field is None else kind[self._field]
            raise UnsupportedError(
                f"{path}: is {kind}, not variable-length data; {option('from', 'hdf5')} reads it"
            )
        dtype, row_shape = dtype.subdtype or (dtype, ())
        self._swapped = not dtype.isnative and hdf5.keeps_big_endian()
        if dtype.kind not in "biufc" or dtype.itemsize > 16:
            raise UnsupportedError(
                f"{path}: holds {dtype}, which tensors cannot hold; store the values one after "
                f"another, and their lengths, for {option('data')} and {option('lengths')}"
            )
        if shape is None or len(shape) != 1:
            raise UnsupportedError(
                f"{path}: expected one dimension of sequences, found {shape}; store it with one, "
                "dataset[()].ravel()"
            )
        self._items = int(shape[0])
        self._path, atom = path, hdf5.attribute(self._dataset, _PYTABLES)
        if atom == _PICKLES:
            raise UnsupportedError(
                f"{path}: holds pickled Python objects, which are never unpickled; read it with "
                "PyTables or pandas, and write Parquet"
            )
        self._points = atom == _CODE_POINTS and dtype.newbyteorder("=") == np.uint32
        if self._points:
            dtype = np.dtype(np.uint8)
        level = LevelSpec("0", names[0] if names else None, self._items)
        if names is not None and len(names) != 1:
            raise UnsupportedError(f"hdf5-vlen has 1 level, found {len(names)} names")
        is_bytes = atom == _BYTES and dtype == np.uint8
        marks = TEXT if self._text or self._points else BYTES if is_bytes else NO_MARKS
        native = dtype.newbyteorder("=")
        spec = TensorSpec(DEFAULT_NAME, native, row_shape, (level,), marks=marks)
        self.schema = (spec,)

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        step = min(PORTION, max(1, limit_bytes // 8))
        starts = range(0, max(1, self._items), step)
        found = ({DEFAULT_NAME: self._tensor(at, min(at + step, self._items))} for at in starts)
        return marked(self.schema, found)

    def _tensor(self, start: int, stop: int) -> LoDTensor:
        parts, spec = self._sequences(start, stop), self.schema[0]
        if self._points:
            parts = [self._encoded(part, start + place) for place, part in enumerate(parts)]
        rows = np.concatenate([np.empty((0, *spec.row_shape), spec.dtype), *parts])
        lod = LoD.from_lengths([[len(part) for part in parts]], spec.level_names)
        if self._swapped and not self._points:
            rows.byteswap(inplace=True)
        return LoDTensor(rows.astype(spec.dtype, copy=False), lod)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        find(self.schema, name)
        # Lengths are known only from the sequences themselves: select them as if they were rows.
        numbers = LoD([np.arange(self._items + 1)], self.schema[0].level_names)
        chosen = select(numbers, self._items, branch[:1], level).rows
        first = slice(None) if isinstance(branch[0], slice) else 0
        found = self._tensor(chosen.start, chosen.stop)
        marked = LoDTensor(found.data, found.lod, self.schema[0].marks)
        return marked.select(first, *branch[1:])

    def _sequences(self, start: int, stop: int) -> list[Array]:
        if self._text:
            texts = self._hdf5.texts(self._dataset, start, stop, field=self._field)
            return [np.frombuffer(text, np.uint8) for text in texts]
        found: list[Array] = self._hdf5.sequences(self._dataset, start, stop, field=self._field)
        return found

    def _encoded(self, points: Array, item: int) -> Array:
        """Return a text of code points as UTF-8."""
        stored = points.byteswap() if self._swapped else points
        try:
            return np.frombuffer(
                stored.astype("<u4").tobytes().decode("utf-32-le").encode(), np.uint8
            )
        except UnicodeError:
            raise InvalidDataError(
                f"{self._path}: item {item}: is not text: a value is not a Unicode code point"
            ) from None

    def close(self) -> None:
        self._file.close()
