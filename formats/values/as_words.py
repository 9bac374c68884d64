"""Texts as categories; categories, times, decimals and whole numbers as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lodcli.formats.core.errors import changed_while_read, naming
from lodcli.formats.core.format import Source
from lodcli.formats.core.names import shown
from lodcli.formats.core.schema import TensorSpec, find, tensor_of
from lodcli.formats.text.text import UNKNOWN, vocabulary_lines
from lodcli.formats.values.changed import Change, place
from lodcli.formats.values.in_words import worded
from lodcli.formats.values.texts_arrow import encoded
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.exchange.words import dtype_of_codes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import MOST_WORDS, Categories
from lodcli.kernels.tensor.nulls import Nulls


class AsText(Change):
    """Words of categories; times, decimals and whole numbers in their digits. Nulls stay null."""

    def spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.marks.is_text:
            return spec
        if not _has_text(spec):
            raise UnsupportedError(
                f"{spec.name}: only categories, times, decimals and whole numbers, one in a row, "
                f"can be text, this is {_kind(spec)}"
            )
        return worded(spec)

    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        unit, lod = spec.marks.unit, tensor.lod
        if spec.marks.is_text:
            return tensor
        if isinstance(unit, Categories):
            return LoDTensor(tensor.values, lod, spec.marks, tensor.nulls).as_text()
        words = texts(tensor.values, unit) if unit else list(map(str, tensor.values.tolist()))
        contents = [word.encode() for word in words]
        lengths = np.array([0, *map(len, contents)])
        valid = tensor.nulls.rows
        if valid is not None:
            contents = [one for one, known in zip(contents, valid.tolist(), strict=True) if known]
            lengths[1:][~valid] = 0
        index = LoD._trusted([*lod.levels, lengths.cumsum()], [*lod.names, None])
        nulls = Nulls.of([*tensor.nulls.masks, None]) if tensor.nulls else tensor.nulls
        rows = np.frombuffer(b"".join(contents), np.uint8)
        return LoDTensor(rows, index, replace(spec.marks, values="text", unit=None), nulls)


class AsCategories(Change):
    """Codes of words. Nulls stay null.

    Args:
        words: see `words_of` and `words_in_file`.
        file: the file of the words, whose word `<unk>` stands for other texts; None: the words
            are all texts of the tensor.
    """

    def __init__(self, words: Categories, file: Path | None) -> None:
        self._words = words
        self._file = file
        self._codes = {word: code for code, word in enumerate(words.words)}
        self._unknown = -1 if file is None else self._codes.get(UNKNOWN.decode(), -1)

    def spec(self, spec: TensorSpec) -> TensorSpec:
        if not spec.marks.is_text:
            hint = "; cast it to text first" if _has_text(spec) else ""
            raise UnsupportedError(
                f"{spec.name}: only text can be category, this is {_kind(spec)}{hint}"
            )
        return replace(
            spec,
            dtype=dtype_of_codes(np.dtype(np.int8), self._words),
            levels=spec.levels[:-1],
            rows=spec.levels[-1].items,
            marks=replace(spec.marks, values=None, unit=self._words),
        )

    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        made, lod = self.spec(spec), tensor.lod.without_finest()
        words, numbers = encoded(tensor.values, tensor.lod.levels[-1])
        found = [self._codes.get(word, self._unknown) for word in words]
        codes = np.array(found, np.int64)[numbers]
        valid = tensor.nulls.mask(-2)
        if valid is not None:
            codes[~valid] = 0
        if codes.min(initial=0) < 0:
            if self._file is None:
                raise changed_while_read()
            row = int(np.argmax(codes < 0))
            raise InvalidDataError(
                f"{place(lod, row, before)}: {words[numbers[row]][:40]!r} is not in {self._file}; "
                f"add it, or {UNKNOWN.decode()} for all other texts"
            )
        return LoDTensor(
            codes.astype(made.dtype), lod, made.marks, Nulls.of(tensor.nulls.masks[:-1])
        )


def words_in_file(path: Path) -> Categories:
    """Return the lines of a text file as the words of categories, in their order.

    Raises:
        InvalidDataError: a line is not UTF-8, or two are equal; names the file.
    """
    words = []
    with naming(str(path)):
        for number, line in enumerate(vocabulary_lines(path), 1):
            try:
                words.append(line.decode())
            except UnicodeDecodeError:
                raise InvalidDataError(f"line {number}: {shown(line)} is not UTF-8") from None
        return Categories(tuple(words))


def words_of(source: Source, names: Iterable[str]) -> dict[str, Categories]:
    """Return the texts of tensors as the words of categories, sorted; none of other tensors.

    Args:
        source: can be read again; its batches are read once.

    Raises:
        UnsupportedError: more different texts than categories may have words.
    """
    found: dict[str, set[str]] = {name: set() for name in names}
    texts = [name for name in found if find(source.schema, name).marks.is_text]
    for batch in source.batches_of(texts) if texts else ():
        for name in texts:
            if name in batch:
                found[name] |= _words_in(tensor_of(batch[name]))
            if len(found[name]) > MOST_WORDS:
                raise UnsupportedError(
                    f"{name}: more than {MOST_WORDS:,} different texts, which categories cannot "
                    "have"
                )
    categories = {}
    for name, words in found.items():
        with naming(name):
            categories[name] = Categories(tuple(sorted(words)))
    return categories


def _words_in(tensor: LoDTensor) -> set[str]:
    words, numbers = encoded(tensor.values, tensor.lod.levels[-1])
    valid = tensor.nulls.mask(-2)
    if valid is None:
        return set(words)
    return {words[number] for number in np.unique(numbers[valid]).tolist()}


def _has_text(spec: TensorSpec) -> bool:
    """Return whether the values of a tensor can be text."""
    known = spec.marks.unit is not None or (spec.marks.kind is None and spec.dtype.kind in "iu")
    return known and (not spec.row_shape or spec.marks.categories is not None)


def _kind(spec: TensorSpec) -> str:
    kind = str(spec.marks.unit or spec.marks.values or spec.dtype.name)
    return f"{kind} with rows of shape {spec.row_shape}" if spec.row_shape else kind
