"""LoDTensor: rows with the index that segments them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import ALL_DTYPES, dtype_of_rows
from lodcli.kernels.errors import (
    InvalidDataError,
    NullError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array, Offsets, check_rows
from lodcli.kernels.index.lod import NO_LEVELS, LoD, require_same_depth
from lodcli.kernels.index.selection import Key, Selection, select
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array, is_on_device, on_host, why_not_held
from lodcli.kernels.tensor.conversions import Conversions, Lengths
from lodcli.kernels.tensor.exchange.units import as_stored
from lodcli.kernels.tensor.exchange.words import as_codes, has_value, recoded, words_of
from lodcli.kernels.tensor.indexing import picked, values_to_set, whole_items
from lodcli.kernels.tensor.marks import (
    NO_MARKS,
    Categories,
    Marks,
    attributes_text,
    check_codes,
    check_text,
)
from lodcli.kernels.tensor.nullable import chosen, dropped, filled
from lodcli.kernels.tensor.nulls import (
    NO_NULLS,
    Nulls,
    joined,
    null_item,
    without_null_rows,
)
from lodcli.kernels.tensor.numpy_protocol import NumpyProtocol, data_of

_new = object.__new__


class LoDTensor(NumpyProtocol, Conversions):
    """Dense rows and the index that divides them into sequences.

    The rows cannot be replaced by another array, and the index only by one for the same number of
    rows, so the two always match.

    Args:
        data: rows along the first axis, (N, D1, D2, ..): bool, (u)int8 to 64, float16,
            bfloat16, float32, float64, complex64 or complex128. Arrays are not copied, unless
            their byte order is not native; rows in a GPU's memory (cupy) stay there.
        lod: an index over N rows, or item counts per level. None: a plain tensor.
        marks: what the values mean. Text is not checked to be UTF-8; `as_text` checks it.
        nulls: which items and rows are missing. Null items must be empty; null rows become zeros.

    Raises:
        InvalidDataError: no row axis, another dtype, or marks or nulls that do not fit the data.
        InvalidLoDError: the index does not fit N rows.
        UnsupportedError: nulls of rows on a GPU.

    Elementwise NumPy functions apply directly and pass the index object on, as do those that
    only reduce features. Functions that reduce the rows return plain arrays. All other NumPy
    functions would drop the levels, and raise an error if there are any: apply them to `.data`.

    >>> words = LoDTensor(np.arange(6.0), LoD.from_lengths([[3, 1, 2]]))
    >>> (words * 2)[2].data
    array([ 8., 10.])
    >>> (words * 2).lod is words.lod
    True
    """

    __slots__ = ("__weakref__", "_data", "_lod", "_marks", "_nulls")

    @types_explained
    def __init__(
        self,
        data: npt.ArrayLike,
        lod: LoD | Lengths | None = None,
        marks: Marks = NO_MARKS,
        nulls: Nulls = NO_NULLS,
    ) -> None:
        array = as_array(data)
        if array.ndim == 0:
            found = type(data).__name__ if array.dtype.kind in "OSU" else "a single value"
            raise InvalidDataError(
                f"data needs a row axis; found {found} (give a list or an array of rows)"
            )
        if array.dtype not in _known and not _is_known(array.dtype):
            raise InvalidDataError(why_not_held(array.dtype))
        if not array.dtype.isnative:
            # Compiled kernels handle only the native byte order.
            array = array.astype(array.dtype.newbyteorder("="))
        if lod is None:
            lod = NO_LEVELS
        index = lod if isinstance(lod, LoD) else LoD.from_lengths(lod)
        check_rows(index.levels, array.shape[0])
        # A view, so that ndarray.resize on the caller's array cannot free the rows.
        self._data: Array = array.view()
        self._lod = index
        self._marks = marks
        if marks is not NO_MARKS and (
            wrong := marks.misfit(array.dtype, array.shape[1:], index.n_levels)
        ):
            raise InvalidDataError(wrong)
        self._nulls = nulls
        if nulls.masks:
            if is_on_device(array):
                raise UnsupportedError("a tensor on a GPU holds no nulls; fill or drop them first")
            if wrong := nulls.misfit(index, array.shape[0]):
                raise InvalidDataError(wrong)
            self._data = without_null_rows(self._data, nulls)

    @property
    def data(self) -> Array:
        """The rows, (N, D1, D2, ..), as a view: values may change in place, not the number of rows.

        Raises:
            NullError: a row or an item is null. See `values` and `nulls`.
        """
        if self._nulls.masks:  # not bool(self._nulls), which calls a method in Python
            self.refuse_nulls("an array of rows")
        # A view each time: assigning to its shape or dtype must not reach this tensor's.
        return self._data.view()

    @property
    def values(self) -> Array:
        """The same rows as `data`, with zeros in place of null rows; `nulls` has their mask."""
        return self._data.view()

    @property
    def nulls(self) -> Nulls:
        """The masks of null items and rows; its truth value is False if nothing is null.

        >>> LoDTensor.from_lists([[1, None], None]).nulls.count
        2
        """
        return self._nulls

    def refuse_nulls(self, what: str, before: int = 0) -> None:
        """Raise NullError if anything is null: `what` has no nulls; items count from `before`."""
        if self._nulls.masks:
            where = self._nulls.first(self._lod, before)
            remedy = self._nulls.remedy(self._data.dtype)
            raise NullError(f"{where}; {what} has no nulls: {remedy}")

    @property
    def lod(self) -> LoD:
        """The index; tensors with the same structure can share this object."""
        return self._lod

    @property
    def marks(self) -> Marks:
        """What the values mean: text, bytes, times, decimals or categories; and attributes."""
        return self._marks

    @property
    def rows(self) -> int:
        """Number of rows, N."""
        return int(self._data.shape[0])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row, (D1, D2, ..); () for single values."""
        return self._data.shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the rows."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Size of the rows in bytes, without the index."""
        return int(self._data.nbytes)

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the item counts of every level, outermost first."""
        return self._lod.recursive_sequence_lengths()

    def set_recursive_sequence_lengths(self, lengths: Iterable[object]) -> None:
        """Replace the index of this tensor by one with the given item counts, outermost first.

        Text and bytes become numbers, since sequences may be cut in the middle.

        Raises:
            InvalidLoDError: the new index does not fit the rows; the old one stays.
            NullError: a row or an item is null.

        >>> tensor = LoDTensor(np.zeros(6), LoD.from_lengths([[6]]))
        >>> tensor.set_recursive_sequence_lengths([[3, 1, 2]])
        >>> tensor.recursive_sequence_lengths()
        [[3, 1, 2]]
        """
        index = LoD.from_lengths(lengths)
        check_rows(index.levels, self.rows)
        self.refuse_nulls("another index")
        self._lod, self._marks = index, self._marks.moved(whole=False)

    # -- marks ---------------------------------------------------------------------

    def as_text(self) -> LoDTensor:
        """Return this tensor marked as text, where each finest sequence is UTF-8; no copy.

        Categories are replaced by their words, with one more level for the bytes of a word.

        Raises:
            InvalidDataError: rows other than single uint8, no levels, or invalid UTF-8.

        >>> LoDTensor(np.frombuffer(b"Hi you", np.uint8), [[2, 4]]).as_text().to_list()
        ['Hi', ' you']
        """
        if self._marks.categories is not None:
            data = on_host(self._data, "text")
            found = words_of(data, self._lod, self._marks.categories, self._nulls)
            marks = replace(self._marks, values="text", unit=None)
            return LoDTensor(found[0], found[1], marks, found[2])
        text = self._marked(values="text", unit=None)
        if not self._marks.is_text:
            check_text(on_host(self._data, "text"), self._lod)
        return text

    def as_bytes(self) -> LoDTensor:
        """Return a view marked as bytes. InvalidDataError as `as_text`, but not for UTF-8."""
        return self._marked(values="bytes", unit=None)

    def as_numbers(self) -> LoDTensor:
        """Return this tensor as plain numbers: no marks of the values, the same rows."""
        return self if self._marks.kind is None else self._marked(values=None, unit=None)

    def _marked(self, **changes: Any) -> LoDTensor:
        """Return this tensor with some marks changed, without a copy of the rows."""
        return LoDTensor(self._data, self._lod, replace(self._marks, **changes), self._nulls)

    @types_explained
    def as_categories(
        self, words: Sequence[str] | None = None, *, ordered: bool = False
    ) -> LoDTensor:
        """Return this tensor marked as codes: each row is the position of its word; no copy.

        Texts are replaced by int64 codes with one level fewer: class numbers for torch.

        Args:
            words: the categories, in order; all are different. None: those of the texts, sorted.
            ordered: whether categories compare by their order.

        Raises:
            InvalidDataError: a row is not the position of a word, or a text is not among the words.

        >>> LoDTensor([1, 0, 1], [[2, 1]]).as_categories(["no", "yes"]).to_list()
        [['yes', 'no'], ['yes']]
        """
        given = (self._data, self._lod, self._marks, self._nulls)
        return LoDTensor(*as_codes(*given, words, ordered=ordered))

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The words for the codes in the rows; None if the rows are not codes."""
        found = self._marks.categories
        return None if found is None else found.words

    @types_explained
    def recoded(self, categories: Categories) -> LoDTensor:
        """Return this tensor of categories with the codes of another dictionary.

        The dtype may become wider. Raises InvalidDataError: no categories, or a missing word.
        """
        own, marks = self._marks.require_categories(), replace(self._marks, unit=categories)
        if own.words != categories.words[: len(own.words)]:
            check_codes(self._data, self._lod, own, self._nulls.rows)
        data = recoded(self._data, own, categories)
        return LoDTensor(data, self._lod, marks, self._nulls)

    @property
    def attributes(self) -> dict[str, Any]:
        """A copy of the attributes of this tensor, a JSON object; {} if there are none.

        >>> LoDTensor([1, 2]).with_attributes({"unit": "m"}).attributes
        {'unit': 'm'}
        """
        found: dict[str, Any] = json.loads(self._marks.attributes or "{}")
        return found

    def with_attributes(self, attributes: Mapping[str, Any]) -> LoDTensor:
        """Return this tensor with other attributes; no copy.

        Raises:
            InvalidDataError: the attributes are not a JSON object, or take more than 256 KiB.
        """
        return self._marked(attributes=attributes_text(attributes))

    # -- nulls ---------------------------------------------------------------------

    def fill_nulls(self, value: Any = 0) -> LoDTensor:
        """Return a tensor without nulls: null rows, or texts, become `value`, other items empty.

        Raises:
            InvalidDataError: no such value is possible: nan for integers; for text not str or 0.

        >>> LoDTensor.from_lists([[1, None], None]).fill_nulls(7).to_list()
        [[1, 7], []]
        """
        if not self._nulls:
            return self
        rows, lod = filled(self._data, self._lod, self._nulls, value, self._marks)
        return LoDTensor(rows, lod, self._marks)

    def drop_nulls(self) -> LoDTensor:
        """Return a tensor without its null rows and items.

        >>> LoDTensor.from_lists([[1, None], None]).drop_nulls().to_list()
        [[1]]
        """
        if not self._nulls:
            return self
        return LoDTensor(*dropped(self._data, self._lod, self._nulls), self._marks)

    # -- slices --------------------------------------------------------------------

    def select(self, *branch: Key, level: int | str = 0) -> LoDTensor:
        """Return a view of the slice at `branch`, whose first part selects an item of `level`.

        Each part is an integer, which drops its level; the last one may be a range without a step.
        A part after those of all levels selects rows.

        Raises:
            SelectionError: no such item, a range with a step, a single value or a null item.

        >>> words = LoDTensor(np.arange(6), [[2, 1], [3, 1, 2]])
        >>> words.select(0, slice(0, 1)).to_list(), words.select(2, level=1).to_list()
        ([[0, 1, 2]], [4, 5])
        """
        return self.cut(select(self._lod, self.rows, branch, level))

    @types_explained
    def cut(self, selection: Selection) -> LoDTensor:
        """Return the view that a resolved slice of this tensor describes.

        Raises:
            SelectionError: the slice is a single value, or a single item that is null.
        """
        data, nulls = self._data[selection.rows], self._nulls
        if nulls.masks:
            if selection.item is not None and nulls.is_null(*selection.item):
                raise null_item()
            nulls = nulls.part(self._lod, selection.level, selection.start, selection.stop)
        if selection.drops_row_axis:
            if data.ndim == 1:
                raise SelectionError(
                    "a single value is not a tensor; keep its row with a range such as 0:1"
                )
            data, nulls = data[0], NO_NULLS
        return self._part(data, selection.lod, nulls)

    def _part(self, data: Array, lod: LoD, nulls: Nulls) -> LoDTensor:
        """Return rows of whole finest sequences of this tensor, with its marks."""
        if self._marks is NO_MARKS and nulls is NO_NULLS:
            return LoDTensor._made(data, lod)
        return LoDTensor(data, lod, self._marks.kept(lod.n_levels, self._lod.n_levels), nulls)

    @overload
    def __getitem__(self, key: slice | list[int] | list[bool] | Array | LoDTensor) -> LoDTensor: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        """Return the selection of a key; a single value as a number, as NumPy does.

        The parts of a key select from the levels, outermost first, then from the rows, then from
        the axes of a row. A part is an integer, which drops its level, a range, a flat array of
        integers or booleans, or `...`. If the first part is the name of a level, the next one
        selects from it. A tensor of booleans or positions selects separately in each sequence.

        Integers and ranges without a step return views, all other keys copies. Bytes within texts
        are returned as numbers. A null item or row is None.

        Raises:
            SelectionError: there is no such item or level, or the key has two arrays.
            ShapeMismatchError: the key is a tensor with other sequences.
            NullError: there are nulls, and the key is neither a range or array of outermost items
                nor integers that may end with a range without a step.

        >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]], ["sentence"]))
        >>> words[::-1, 0].data, words["sentence", 1:].to_list()
        (array([4, 3, 0]), [[3], [4, 5]])
        >>> words[words % 2 == 0].to_list(), words[[0, 2], -2:].to_list()
        ([[0, 2], [], [4]], [[1, 2], [4, 5]])
        """
        if self._nulls.masks:
            whole = whole_items(self._lod, self._data.shape, key, self._nulls)
            if whole is not None:
                return self._with_nulls(whole)
            self.refuse_nulls("the selection of such a key")
        if type(key) is int or (type(key) is slice and key.step is None):  # fast path of most keys
            selection = select(self._lod, self.rows, (key,))
            if not selection.drops_row_axis or self._data.ndim > 1:
                return self.cut(selection)
        found = picked(self._lod, self._data.shape, key)
        data = found.of(self._data)
        if found.whole:
            return self._part(data, found.lod, NO_NULLS)
        if not data.ndim:
            return data[()]
        if self._marks is NO_MARKS and not found.features:
            return LoDTensor._made(data, found.lod)
        # Rows keep their unit, but parts of a text are not text.
        return LoDTensor(data, found.lod, self._marks.kept(0, self._lod.n_levels))

    def _with_nulls(self, found: Selection | Offsets) -> Any:
        """Return a branch or outermost items of this tensor, whose nulls are kept."""
        if not isinstance(found, Selection):
            return self._part(*chosen(self._data, self._lod, self._nulls, found))
        if found.item and self._nulls.is_null(*found.item):
            return None
        number = found.drops_row_axis and self._data.ndim == 1
        return self._data[found.rows.start] if number else self.cut(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the rows that a key selects, in the memory of this tensor.

        Args:
            key: as in `tensor[key]`; a tensor of booleans may also select values within rows.
            value: an array that broadcasts to the selected rows, or a tensor or nested lists with
                their levels. With a key of booleans also a tensor like this one, from which the
                same values are taken.

        Raises:
            SelectionError, NullError: no such item or level; this tensor or the value has nulls.
            ShapeMismatchError, InvalidDataError: the value does not fit; the rows are read-only.

        >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
        >>> words[:, 0] = 9
        >>> words.to_list()
        [[9, 1, 2], [9], [9, 5]]
        """
        self.refuse_nulls("setting rows")
        found = picked(self._lod, self._data.shape, key, setting=True)
        axes = self._data.ndim - sum(type(part) is int for part in found.features)
        value = self._of_nested(value, found.lod, axes, self.dtype, self._marks.unit)
        if isinstance(value, LoDTensor):
            value.refuse_nulls("setting rows")
            self._marks.require_alike(value._marks, "value")
            value = values_to_set(found, key, self, value)
        value, rows = as_stored(data_of(value), self._marks.unit), found.on(self._data)
        if found.drops_row_axis:  # the range has one row
            rows = rows.start
        try:
            self._data[(rows, *found.features)] = value
        except IndexError as error:
            raise SelectionError(f"the axes of a row {self.row_shape}: {error}") from None
        except (ValueError, TypeError, OverflowError) as error:
            if not self._data.flags.writeable:
                raise InvalidDataError("the rows are read-only; set those of a copy()") from None
            if type(error) is ValueError and "convert" not in str(error):
                raise ShapeMismatchError(f"value: {error}") from None
            raise InvalidDataError(f"value: not one of {self.dtype}: {error}") from None

    def iterate(self, level: int | str = 0) -> Iterator[Any]:
        """Yield a view of each item of a level in order; None for a null item.

        >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[2, 1], [3, 1, 2]]))
        >>> [sentence.data.tolist() for sentence in words.iterate(level=1)]
        [[0, 1, 2], [3], [4, 5]]
        """
        level = self._lod.level(level)
        for item in range(self._lod.count(level)):
            yield None if self._nulls.is_null(level, item) else self.select(item, level=level)

    def __len__(self) -> int:
        """Number of outermost items; of rows where there are no levels."""
        levels = self._lod.levels
        return levels[0].size - 1 if levels else self._data.shape[0]

    def __bool__(self) -> bool:
        # By default Python uses the length: `if a == b` would be true for any two tensors.
        raise InvalidDataError(
            "the truth value of a tensor is ambiguous; use identical(), len(), or .data.all()"
        )

    def __iter__(self) -> Iterator[Any]:
        """Yield the outermost items in order; without levels the rows, single values as numbers."""
        if self._lod.n_levels or self._data.ndim > 1 or self._nulls:
            return (self[item] for item in range(len(self)))
        return iter(self._data)

    def __reversed__(self) -> Iterator[Any]:
        return (self[item] for item in reversed(range(len(self))))

    def __contains__(self, value: object) -> bool:
        """Return whether an item equals a tensor, list, array or text, or a value a number."""
        if isinstance(value, LoDTensor):
            return any(isinstance(item, LoDTensor) and item.identical(value) for item in self)
        return has_value(value, self)

    def copy(self) -> LoDTensor:
        """Return a tensor with its own C-ordered data and the same index object."""
        return LoDTensor(self._data.copy(order="C"), self._lod, self._marks, self._nulls)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> LoDTensor:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        return LoDTensor, (self._data, self._lod, self._marks, self._nulls)

    def with_data(self, data: npt.ArrayLike) -> LoDTensor:
        """Return a tensor of other rows with the same index object, without marks.

        Raises:
            InvalidLoDError: there is another number of rows.
            NullError: this tensor has nulls.
        """
        self.refuse_nulls("with_data()")
        return LoDTensor(data, self._lod)

    def _with_rows(self, rows: Array) -> LoDTensor:
        """Return `with_data` of the result of a kernel; the number of rows is not checked."""
        return LoDTensor._made(rows, self._lod)

    @staticmethod
    def _made(rows: Array, lod: LoD) -> LoDTensor:
        """Return a tensor of the result of a kernel and an index that is known to fit."""
        if rows.dtype not in _known:
            return LoDTensor(rows, lod)
        tensor = _new(LoDTensor)
        tensor._data, tensor._lod = rows.view(), lod
        tensor._marks, tensor._nulls = NO_MARKS, NO_NULLS
        return tensor

    def _of_rows(self, rows: Array) -> LoDTensor:
        """Return `_with_rows` of a NumPy array of a supported dtype; the dtype is not checked."""
        tensor = _new(LoDTensor)
        tensor._data, tensor._lod, tensor._marks = rows, self._lod, NO_MARKS
        tensor._nulls = NO_NULLS
        return tensor

    def astype(self, dtype: npt.DTypeLike) -> LoDTensor:
        """Return a copy in another dtype, with the same index object and nulls, without marks.

        >>> LoDTensor([1.5, 2.5], [[2]]).astype("int8").data.tolist()
        [1, 2]
        """
        return LoDTensor(self._data.astype(dtype_of_rows(dtype)), self._lod, nulls=self._nulls)

    @types_explained
    def identical(self, other: LoDTensor) -> bool:
        """Return whether dtype, shape, index, names, marks, nulls and all bits of data agree."""
        from lodcli.kernels.tensor.compare import same_bytes

        return (
            self.dtype == other.dtype
            and self._data.shape == other._data.shape
            and self._lod == other._lod
            and self._marks == other._marks
            and self._nulls == other._nulls
            and same_bytes(self._data, other._data)
        )

    @types_explained
    def difference(self, other: LoDTensor, *, rtol: float = 0, atol: float = 0) -> str | None:
        """Return a description of the first difference of two tensors; None if they are equal.

        Attributes are not compared.

        Args:
            other: the tensor to compare with.
            rtol, atol: tolerances of values, as for `numpy.isclose`; nan equals nan.

        >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
        >>> words.difference(words + (words == 4))
        'row 4, item <2,0>: 4 against 5'
        """
        from lodcli.kernels.tensor.compare import difference

        if self._marks.of_values != other._marks.of_values:
            return self._marks.against(other._marks)
        found = difference(self._data, self._lod, other._data, other._lod, rtol, atol)
        if found is None and self._nulls != other._nulls:
            return "other nulls"
        return found

    def assert_equal(self, other: LoDTensor, *, rtol: float = 0, atol: float = 0) -> None:
        """Raise AssertionError if there is a `difference` from `other`, with its description."""
        found = self.difference(other, rtol=rtol, atol=atol)
        if found is not None:
            raise AssertionError(f"the tensors differ: {found}")

    @staticmethod
    @types_explained
    def concatenate(parts: Sequence[LoDTensor]) -> LoDTensor:
        """Return several batches as one tensor, with their indexes joined level by level.

        The new dictionary of categories has the words of all parts, in their order.

        Raises:
            ShapeMismatchError: no parts; different row shapes, dtypes, marks or numbers of levels.
            InvalidDataError: ordered categories with different dictionaries.
        """
        parts = LoDTensor._agreeing(parts)
        first = parts[0]
        if len(parts) == 1:
            return first
        lod = LoD.concatenate([part.lod for part in parts])
        nulls = joined([(part._nulls, part._lod, part.rows) for part in parts])
        return first._part(np.concatenate([part._data for part in parts]), lod, nulls)

    @staticmethod
    def _agreeing(parts: Sequence[LoDTensor]) -> Sequence[LoDTensor]:
        """Return parts of one batch, their categories as codes of the same words.

        Raises:
            ShapeMismatchError, InvalidDataError: as `concatenate`.
        """
        if not parts:
            raise ShapeMismatchError("nothing to concatenate: no tensor given")
        words = None if parts[0]._marks is NO_MARKS else parts[0]._marks.categories
        if words is not None and any(part.marks != parts[0].marks for part in parts):
            for part in parts:
                words = words.with_words(part.marks.categories or words)
            parts = [part if part.categories is None else part.recoded(words) for part in parts]
        first = parts[0]
        dtype, row_shape, marks = first._data.dtype, first._data.shape[1:], first._marks
        for position, part in enumerate(parts):
            alike = part._marks is marks or part._marks.of_values == marks.of_values
            alike = alike and len(part._lod.levels) == len(first._lod.levels)
            if alike and part._data.dtype == dtype and part._data.shape[1:] == row_shape:
                continue
            for what in ("row_shape", "dtype", "marks"):
                if getattr(part, what) != getattr(first, what):
                    raise ShapeMismatchError(
                        f"cannot concatenate: {what} of part 0 is {getattr(first, what)}, "
                        f"of part {position} {getattr(part, what)}"
                    )
            require_same_depth([each._lod for each in parts])
        return parts

    # -- devices -------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device of the rows: "cpu" or "cuda:N". The index is always in main memory."""
        if not is_on_device(self._data):
            return "cpu"
        return f"cuda:{self._data.device.id}"  # type: ignore[attr-defined]

    def to_device(self, device: str) -> LoDTensor:
        """Return this tensor with its rows on a device, under the same index object.

        Args:
            device: "cpu", "cuda" (the current GPU) or "cuda:N".

        Returns:
            This tensor, if its rows are on the device already; otherwise a copy. A copy to a GPU
            is queued on the current stream; a copy to main memory is complete on return.

        Raises:
            OptionError: the name of the device is invalid.
            UnsupportedError: cupy is not installed, or there is no such GPU.
        """
        from lodcli.kernels.runtime.devices import moved

        data = moved(self._data, device)
        return self if data is self._data else LoDTensor(data, self._lod, self._marks, self._nulls)

    def __repr__(self) -> str:
        from lodcli.kernels.tensor.display import as_text

        return as_text(self._data, self._lod, self._marks, self._nulls)

    def _repr_html_(self) -> str:
        from lodcli.kernels.tensor.display import as_html

        return as_html(self._data, self._lod, self._marks, self._nulls)

    def plot(self, level: int | str | None = None) -> Any:
        """Return the axes of a plot of lengths and padding; see `lodcli.plot`."""
        from lodcli.kernels.tensor.plot import plot

        return plot(self, level)


# Cache of supported native dtypes met so far: asking NumPy for the name of a dtype is slow.
_known: set[np.dtype[Any]] = set()


def _is_known(dtype: np.dtype[Any]) -> bool:
    if dtype.name in ALL_DTYPES:
        if dtype.isnative:
            _known.add(dtype)
        return True
    return False
