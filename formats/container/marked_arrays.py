"""Words of categories, as the arrays of a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.arrays.array_writer import ArraySpec
from lodcli.formats.arrays.byte_blocks import byte_blocks
from lodcli.formats.container.header import word_paths
from lodcli.formats.container.rows import Rows
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, check_offsets, check_rows
from lodcli.kernels.tensor.marks import Categories

if TYPE_CHECKING:
    from lodcli.formats.container.writing.sinks import Sink


def write_words(
    schema: Schema, open_sink: Callable[[ArraySpec], Sink]
) -> dict[str, tuple[ArraySpec, Sink]]:
    """Return the sinks of all dictionaries by path, with everything written."""
    found: dict[str, tuple[ArraySpec, Sink]] = {}
    for spec in schema:
        if spec.marks.categories is None:
            continue
        encoded = [word.encode() for word in spec.marks.categories.words]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        letters = np.frombuffer(b"".join(encoded), np.uint8)
        parts: tuple[Array, Array] = (letters, offsets)
        for path, data in zip(word_paths(spec), parts, strict=True):
            array = ArraySpec(path, data.dtype, (), data.size)
            found[path] = array, open_sink(array)
            for block in byte_blocks(data):
                found[path][1].write(block)
    return found


def with_words(spec: TensorSpec, rows: Mapping[str, Rows], label: str) -> TensorSpec:
    """Return the tensor with the words of its categories, read from the file.

    Raises:
        InvalidLoDError, DamagedFileError: the words or their offsets are invalid; the message
            names the dataset.
    """
    assert spec.marks.categories is not None
    words, starts = word_paths(spec)
    offsets = rows[starts].read(0, rows[starts].entry.shape[0], check=False)
    with naming(label, starts):
        check_offsets(offsets, level=0)
    rows[starts].check(offsets, 0)
    letters = rows[words].read(0, rows[words].entry.shape[0]).tobytes()
    with naming(label, words):
        check_rows([offsets], len(letters))
        bounds = offsets.tolist()
        try:
            found = tuple(letters[low:high].decode() for low, high in pairwise(bounds))
            unit = Categories(found, spec.marks.categories.ordered)
        except UnicodeDecodeError:
            raise DamagedFileError("a word is not UTF-8") from None
        except InvalidDataError as error:
            raise DamagedFileError(str(error)) from None
    return replace(spec, marks=replace(spec.marks, unit=unit))
