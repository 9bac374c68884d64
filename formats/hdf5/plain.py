"""hdf5: a plain HDF5 file, with datasets named by the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.arrays.flat_arrays import given_level
from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.formats.choosing.array_patterns import is_pattern, matching, without_note
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing, shown
from lodcli.formats.core.options import ReadOptions, index_names
from lodcli.formats.core.schema import DEFAULT_NAME
from lodcli.formats.hdf5.datasets import (
    MODULES,
    Datasets,
    DatasetsSource,
    JoinedSource,
    asking_for_data,
)
from lodcli.formats.hdf5.fixed_text import FixedText, of_characters
from lodcli.formats.storage.inputs import Input
from lodcli.formats.values.file_attributes import fitting
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import InvalidLoDError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import (
    Array,
    Offsets,
    check_chain,
    check_rows,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import by_reader, option

if TYPE_CHECKING:
    from lodcli.formats.hdf5.columns import Column


class PlainHdf5(Format):
    """Rows and offsets (or lengths) in datasets of any HDF5 file. Reading only.

    `--data /x` names the rows, `--data /x/field` a field of compounds; `--offsets /o` or
    `--lengths /l` one level each, outermost first. Or each dataset that matches a pattern, as in
    `--data 'data/demo_*/actions'`, is a sequence. Attributes of the root
    that are text or numbers are those of the file; others are ignored. Big-endian numbers arrive in
    native order, texts of fixed length as a further level.
    """

    name = "hdf5"
    dtypes = ALL_DTYPES - {"bfloat16"}
    read_only = "write lod.h5, which is HDF5 as well"
    options = frozenset({"data", "offsets", "lengths", "levels", "encoding"})
    modules = (*MODULES, "encodings.utf_16_le")
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        if options.data is None:
            raise asking_for_data(source)
        datasets = Datasets(source, chosen=True)
        index = index_names(options, datasets.has)
        several = [name.strip() for name in options.data.split(",")]
        if not datasets.has(options.data) and any(
            is_pattern(name) and not datasets.has(name) for name in several
        ):
            return _told(_joined(datasets, several, options), datasets)
        if several[1:] and not datasets.has(options.data) and all(map(datasets.has, several)):
            one_by_one = by_reader(
                shell="convert them one by one, each with --name, and join them with lod merge",
                python="read them one by one",
            )
            raise SelectionError(
                f"{option('data', options.data)}: names several datasets; {one_by_one}"
            )
        column = datasets.open(options.data, text=True)
        levels = _levels(datasets, index, options, column.shape)
        if levels:
            with naming(index[-1]):
                _check_rows(levels, column, lengths=bool(options.lengths))
        if column.text:
            names, encoding = options.levels, options.encoding
            return _told(FixedText(datasets, column, LoD(levels), names, encoding), datasets)
        if not index and datasets.strict.is_of_characters(column):
            if options.encoding is not None:
                raise UnsupportedError(
                    f"{options.data}: holds characters of MATLAB or Octave, whose encoding is "
                    f"known; leave out {option('encoding')}"
                )
            texts = of_characters(datasets, column, options.levels)
            if texts is not None:
                found = _told(MemorySource({DEFAULT_NAME: texts}), datasets)
                datasets.strict.close()
                return found
        if options.encoding is not None:
            raise UnsupportedError(
                f"{options.data}: holds numbers; {option('encoding')} is for text"
            )
        lod = LoD(levels, options.levels)
        return _told(DatasetsSource(datasets, {DEFAULT_NAME: (options.data, lod)}), datasets)


def _joined(datasets: Datasets, patterns: Sequence[str], options: ReadOptions) -> Source:
    """Return a source of tensors whose sequences are the datasets that match a pattern each."""
    from lodcli.formats.hdf5.tree import matching as paths_of
    from lodcli.formats.hdf5.tree import near

    for name in patterns:
        if not is_pattern(name) or datasets.has(name):
            raise SelectionError(
                f"{option('data', name)}: is no pattern, as the others are; convert it by itself"
            )
    for given in ("offsets", "lengths", "encoding"):
        if getattr(options, given) is not None:
            raise SelectionError(
                f"{option('data', patterns[0])}: is a pattern of datasets of numbers that are a "
                f"sequence each; name one dataset for {option(given)}"
            )
    strict = datasets.strict
    every = ["/" + "/".join(filter(None, pattern.split("/"))) for pattern in patterns]
    found = matching(
        every, lambda pattern: paths_of(strict, pattern), lambda pattern: near(strict, pattern)
    )
    paths = {name: one.arrays for name, one in found.items()}
    source = JoinedSource(datasets, paths, options.levels)
    source.notes = [*source.notes, *without_note(found.values())]
    return source


def _told(source: Source, datasets: Datasets) -> Source:
    """Return a source with the attributes of the root."""
    found, others = datasets.strict.attributes()
    source.attributes, notes = fitting(found)
    if others:
        names = listing(map(shown, others), MOST_SHOWN)
        notes.append(f"attributes that are neither text nor numbers are not kept: {names}")
    source.notes = [*source.notes, *notes]
    return source


def _levels(
    datasets: Datasets, paths: tuple[str, ...], options: ReadOptions, rows: tuple[int, ...]
) -> list[Offsets]:
    levels: list[Offsets] = []
    stored = [_integers(datasets.numbers(path, matrix=True)) for path in paths]
    for level, (path, values) in enumerate(zip(paths, stored, strict=True)):
        below = stored[level + 1].shape if stored[level + 1 :] else rows
        with naming(path):
            levels.append(given_level(values, options, level=level, below=below))
    try:
        check_chain(levels)
    except InvalidLoDError as error:
        with naming(paths[error.level or 0]):
            raise
    return levels


def _integers(values: Array) -> Array:
    """Return floats that are whole numbers as int64: MATLAB, Octave and R store most numbers so."""
    if values.dtype.kind != "f" or not np.all((values == np.rint(values)) & (abs(values) < 2**53)):
        return values
    whole: Array = values.astype(np.int64)
    return whole


def _check_rows(levels: list[Offsets], column: Column, *, lengths: bool) -> None:
    """Raise InvalidLoDError unless the finest level counts the rows of a column."""
    try:
        check_rows(levels, column.shape[0])
    except InvalidLoDError as error:
        last = levels[-1].item(-1)
        # Offsets below the number of rows may be starts without their total, which end anywhere.
        if last != column.shape[-1] or not (lengths or column.shape[0] < last):
            raise
        raise InvalidLoDError(
            f"{error}; {column.path} has shape {column.shape}: MATLAB, Octave, R and Julia store "
            "arrays with their axes reversed, so store the transposed array"
        ) from None
