"""Texts as categories; categories, times, decimals and whole numbers as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Source
from lodcli.formats.core.schema import TensorSpec, find, tensor_of
from lodcli.formats.values.changed import Change
from lodcli.formats.values.in_words import worded
from lodcli.formats.values.texts_arrow import encoded
from lodcli.kernels.errors import UnsupportedError
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
    """Codes of words, for texts that are all among them. Nulls stay null.

    Args:
        words: see `words_of`.
    """

    def __init__(self, words: Categories) -> None:
        self._words = words
        self._codes = {word: code for code, word in enumerate(words.words)}

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
        made = self.spec(spec)
        words, numbers = encoded(tensor.values, tensor.lod.levels[-1])
        # 0 for the empty text of a null, if it is no word.
        codes = np.array([self._codes.get(word, 0) for word in words], made.dtype)[numbers]
        valid = tensor.nulls.mask(-2)
        if valid is not None:
            codes[~valid] = 0
        lod = tensor.lod.without_finest()
        return LoDTensor(codes, lod, made.marks, Nulls.of(tensor.nulls.masks[:-1]))


def words_of(source: Source, names: Iterable[str]) -> dict[str, Categories]:
    """Return the texts of tensors as the words of categories, sorted; none of other tensors.

    Args:
        source: can be read again; its batches are read once.
        names: of the tensors.

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
