"""Conversions of tensors from and to other libraries: methods of LoDTensor.

docs/api.md lists which of them share memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.forms import (
    Order,
    lod_from_absolute_lengths,
    lod_from_absolute_offsets,
    outermost_first,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.tensor.exchange import lists
from lodcli.kernels.tensor.exchange.lists import Names
from lodcli.kernels.tensor.exchange.rows import rows_of
from lodcli.kernels.tensor.exchange.units import as_stored
from lodcli.kernels.tensor.marks import NO_MARKS, Marks, Unit
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls

if TYPE_CHECKING:
    from lodcli.kernels.tensor.exchange.torch import Jagged, Packed, Padded, Varlen

# One level, or several.
Levels = npt.ArrayLike | Sequence[npt.ArrayLike]
# Item counts of each level.
Lengths = Sequence[Sequence[int] | npt.NDArray[np.integer[Any]]]


class Conversions:
    """Conversions of a LoDTensor: class methods from other types, methods to other types."""

    __slots__ = ()

    if TYPE_CHECKING:  # members of LoDTensor

        def __init__(
            self,
            data: npt.ArrayLike,
            lod: LoD | Lengths | None = None,
            marks: Marks = NO_MARKS,
            nulls: Nulls = NO_NULLS,
        ) -> None: ...
        @property
        def data(self) -> Array: ...
        @property
        def lod(self) -> LoD: ...
        @property
        def marks(self) -> Marks: ...
        @property
        def values(self) -> Array: ...
        @property
        def nulls(self) -> Nulls: ...
        def refuse_nulls(self, what: str) -> None: ...
        def as_text(self) -> Self: ...

    # -- in ------------------------------------------------------------------------

    @classmethod
    def from_dlpack(cls, data: Any, lod: LoD | Lengths | None = None) -> Self:
        """Return a tensor over the rows of another library's array, in place; no copy.

        Args:
            data: anything with `__dlpack__`, such as a torch tensor, in main memory or on a GPU.
            lod: as for LoDTensor.

        Raises:
            UnsupportedError: the rows are on any other device.
        """
        return cls(rows_of(data), lod)

    @classmethod
    @types_explained
    def from_lists(
        cls,
        values: Sequence[Any],
        *,
        levels: int | None = None,
        dtype: npt.DTypeLike | None = None,
        names: Names = None,
    ) -> Self:
        """Return a tensor of nested lists; it has one level less than the depth of the lists.

        Args:
            values: a list for each level, then rows. The innermost lists may be arrays, or text,
                bytes, dates, times, datetimes, timedeltas or decimals, which are marked as such.
                None is a null.
            levels: how many levels; lists below them are the axes of a row.
            dtype: of the rows; None: inferred by NumPy, int64 for dates, times and decimals.
            names: of the levels, outermost first.

        Raises:
            InvalidDataError: lists mixed with other values, values of several kinds, rows that
                differ in shape.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_lists([[1, 2], [], [3]]).recursive_sequence_lengths()
        [[2, 0, 1]]
        >>> LoDTensor.from_lists([[[1, 2], [3, 4]], [[5, 6]]], levels=1).row_shape
        (2,)
        """
        return cls(*lists.rows_of_lists(values, levels, dtype, names))

    @classmethod
    def _of_nested(
        cls, value: Any, lod: LoD, axes: int, dtype: npt.DTypeLike, unit: Unit | None
    ) -> Any:
        """Return lists nested for the levels of an index, and the axes, as a tensor; others as is.

        Lists of one item each are leading axes of an array, unless the index has one sequence.
        Times, decimals and words become the numbers that stand for them.
        """
        levels = lod.n_levels
        if not levels or not lists.is_nested(value, levels + axes):
            return value
        if lists.is_one_each(value, levels) and any(lod.count(one) != 1 for one in range(levels)):
            return value
        if unit is not None:
            return cls.from_lists(as_stored(value, unit), levels=levels)
        return cls.from_lists(value, levels=levels, dtype=dtype)

    @classmethod
    @types_explained
    def from_arrays(
        cls, arrays: Sequence[Any], *, dtype: npt.DTypeLike | None = None, names: Names = None
    ) -> Self:
        """Return a tensor of one array (T, ...) for each sequence, joined: a copy.

        Args:
            arrays: a list of arrays, or nested lists of them, of any library with DLPack.
            dtype: of the rows; None: that of the arrays.
            names: of the levels, outermost first.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_arrays([np.zeros((2, 3)), np.ones((1, 3))]).recursive_sequence_lengths()
        [[2, 1]]
        """
        return cls.from_lists(arrays, dtype=dtype, names=names)

    @classmethod
    @types_explained
    def from_padded(
        cls,
        padded: Any,
        *,
        lengths: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        names: Names = None,
    ) -> Self:
        """Return the rows of a padded batch without the padding: a copy.

        Args:
            padded: (S, T, ...).
            lengths: (S,) number of rows of each sequence; its rows are at the start.
            mask: instead of `lengths`: (S, T), true for a row, at any position.
            names: of the level.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_padded([[1, 2], [3, 0]], lengths=[2, 1]).to_list()
        [[1, 2], [3]]
        >>> LoDTensor.from_padded([[1, 2], [0, 3]], mask=[[True, True], [False, True]]).to_list()
        [[1, 2], [3]]
        """
        lists.one_of("from_padded", lengths=lengths, mask=mask)
        box = rows_of(padded)
        if mask is None:
            found = OPS["unpad"].load()(box, lengths)
            return cls(found.data, found.lod.with_names(names))
        rows, counts = lists.under_mask(box, mask)
        return cls(rows, LoD.from_lengths([counts], names))

    @classmethod
    @types_explained
    def from_lengths(
        cls,
        data: Any,
        lengths: Levels,
        *,
        absolute: bool = False,
        order: Order = "coarse-to-fine",
        names: Names = None,
    ) -> Self:
        """Return a tensor over existing rows, segmented by item counts; no copy.

        Args:
            data: rows (N, ...), of any library with DLPack.
            lengths: of one level, or a list of those of each level.
            absolute: whether they count rows on every level, not items of the level below.
            order: whether the outermost level comes first, or the finest.
            names: of the levels, outermost first.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_lengths([1, 2, 3], [2, 1]).to_list()
        [[1, 2], [3]]
        """
        rows, levels = rows_of(data), _levels(lengths, "lengths")
        if absolute:
            return cls(rows, lod_from_absolute_lengths(levels, order=order, names=names))
        return cls(rows, LoD.from_lengths(outermost_first(levels, order), names))

    @classmethod
    @types_explained
    def from_offsets(
        cls,
        data: Any,
        offsets: Levels,
        *,
        absolute: bool = False,
        order: Order = "coarse-to-fine",
        names: Names = None,
    ) -> Self:
        """Return a tensor over existing rows, segmented by offsets (prefix sums); no copy.

        Args:
            data: as for `from_lengths`.
            offsets: of one level, or a list of those of each level. They start with 0, and
                end with the total, which absolute offsets may leave out.
            absolute: as for `from_lengths`.
            order: as for `from_lengths`.
            names: of the levels, outermost first.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_offsets([1, 2, 3], [0, 2, 3]).to_list()
        [[1, 2], [3]]
        """
        rows, levels = rows_of(data), _levels(offsets, "offsets")
        if absolute:
            count = rows.shape[0] if rows.ndim else None
            lod = lod_from_absolute_offsets(levels, rows=count, order=order, names=names)
        else:
            lod = LoD(outermost_first(levels, order), names)
        return cls(rows, lod)

    @classmethod
    @types_explained
    def from_cu_seqlens(
        cls, data: Any, cu_seqlens: npt.ArrayLike, *, name: str | None = None
    ) -> Self:
        """Return a tensor over rows and `cu_seqlens`, as varlen attention kernels take them.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_cu_seqlens([1, 2, 3], np.array([0, 2, 3], np.int32)).to_list()
        [[1, 2], [3]]
        """
        return cls(rows_of(data), LoD([_index(cu_seqlens)], [name]))

    @classmethod
    @types_explained
    def from_row_splits(cls, data: Any, row_splits: Levels, *, names: Names = None) -> Self:
        """Return a tensor over rows and offsets, called row_splits in TensorFlow.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_row_splits([1, 2, 3], [0, 2, 3]).to_list()
        [[1, 2], [3]]
        """
        return cls.from_offsets(data, row_splits, names=names)

    @classmethod
    @types_explained
    def from_row_ids(
        cls, data: Any, row_ids: npt.ArrayLike, *, count: int | None = None, name: str | None = None
    ) -> Self:
        """Return a tensor over rows and the number of the sequence of each row.

        Args:
            data: as for `from_lengths`.
            row_ids: (N,) whole numbers, 0 or more, never decreasing.
            count: of sequences; None: up to the last that has a row.
            name: of the level.

        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_row_ids([1, 2, 3], [0, 0, 2], count=4).to_list()
        [[1, 2], [], [3], []]
        """
        rows = rows_of(data)
        lengths = lists.lengths_of_ids(_index(row_ids), len(rows) if rows.ndim else 0, count)
        return cls(rows, LoD.from_lengths([lengths], [name]))

    @classmethod
    @types_explained
    def from_arrow(cls, values: Any, *, names: Names = None) -> Self:
        """Return a tensor over an Arrow array, or a table of one column.

        Args:
            values: of pyarrow, or anything with `__arrow_c_array__` or `__arrow_c_stream__`:
                a Series of Polars, a relation of DuckDB. Several chunks are joined.
            names: of the levels; None: those stored with the column.

        Raises:
            InvalidDataError: several columns, a null among the values of a row.
            UnsupportedError: values other than numbers, booleans, times, decimals, text and bytes.

        >>> import pyarrow as pa
        >>> from lodcli import LoDTensor
        >>> LoDTensor.from_arrow(pa.array([[1, 2], [], [3]])).to_list()
        [[1, 2], [], [3]]
        """
        from lodcli.kernels.tensor.exchange.arrow import from_arrow

        return cls._renamed(names, *from_arrow(values))

    @classmethod
    @types_explained
    def from_awkward(cls, values: Any, *, names: Names = None) -> Self:
        """Return a tensor over an array of Awkward; it needs the package awkward."""
        from lodcli.kernels.tensor.exchange.awkward import from_awkward

        return cls._renamed(names, *from_awkward(values))

    @classmethod
    @types_explained
    def from_torch(cls, values: Any, *, names: Names = None) -> Self:
        """Return a tensor over a nested tensor of torch, a Varlen, or of a PackedSequence."""
        import lodcli.kernels.torch  # noqa: F401 - an error with a remedy without torch
        from lodcli.kernels.tensor.exchange.torch import from_torch

        return cls._renamed(names, *from_torch(values))

    @classmethod
    def _renamed(
        cls, names: Names, data: Array, lod: LoD, marks: Marks = NO_MARKS, nulls: Nulls = NO_NULLS
    ) -> Self:
        return cls(data, lod if names is None else lod.with_names(names), marks, nulls)

    # -- out -----------------------------------------------------------------------

    def to_list(self) -> list[Any]:
        """Return nested lists of Python numbers, or of the types of the marks.

        These are str, bytes, date, time, datetime, timedelta or Decimal; times in nanoseconds are
        NumPy's. A null is None.

        >>> from lodcli import LoDTensor
        >>> LoDTensor([1, 2, 3], [[2, 1]]).to_list()
        [[1, 2], [3]]
        >>> LoDTensor.from_lists(["a", "bc"]).to_list()
        ['a', 'bc']
        """
        found: list[Any]
        data = self._on_host("to_list()", nulls=True)
        if self.nulls:
            found = lists.with_nulls(data, self.lod, self.marks, self.nulls)
        elif self.marks.values:
            found = lists.texts(data, self.lod, self.marks)
        else:
            found = lists.nested(lists.rows_list(data, self.marks), self.lod)
        return found

    def to_arrays(self) -> Any:
        """Return a view of the rows of each finest sequence, in nested lists for the levels.

        >>> from lodcli import LoDTensor
        >>> LoDTensor([1, 2, 3], [[2, 1]]).to_arrays()
        [array([1, 2]), array([3])]
        """
        return lists.nested(self.data, self.lod)

    def to_numpy(self) -> Array:
        """Return an array (S, T, ...) over the rows, if sequences of a level have equal length.

        Raises:
            UnsupportedError: the lengths differ; names the level. Or NumPy has fewer axes.

        >>> from lodcli import LoDTensor
        >>> LoDTensor([1, 2, 3, 4], [[2, 2]]).to_numpy().tolist()
        [[1, 2], [3, 4]]
        """
        return lists.box(self._on_host("NumPy"), self.lod)

    @types_explained
    def to_padded(
        self, *, value: npt.ArrayLike = 0, length: int = -1, level: int | str | None = None
    ) -> tuple[Array, Offsets]:
        """Return the sequences of a level as a padded array, and their lengths.

        Args:
            value: the padding: one value, or a row.
            length: T, the number of steps; -1: that of the longest sequence.
            level: the level of the sequences; None: the only one.

        Returns:
            The padded array (S, T, ...), of the dtype of the rows, and the lengths, int64 (S,).

        Raises:
            OptionError: `length` is less than -1.
            ShapeMismatchError: a sequence is longer than `length`.
            SelectionError: no such level; several levels, and none is named.

        >>> from lodcli import LoDTensor
        >>> LoDTensor([1, 2, 3], [[2, 1]]).to_padded()[0].tolist()
        [[1, 2], [3, 0]]
        """
        found: tuple[Array, Offsets] = OPS["pad"].load()(
            self, pad_value=value, maxlen=length, level=level
        )
        return found

    def to_arrow(self) -> Any:
        """Return an array of pyarrow: a large list for each level, large strings for text.

        >>> from lodcli import LoDTensor
        >>> LoDTensor([1, 2, 3], [[2, 1]]).to_arrow().to_pylist()
        [[1, 2], [3]]
        """
        from lodcli.kernels.tensor.exchange.arrow import to_arrow

        rows = self._on_host("Arrow", nulls=True)
        with _nesting("Arrow", self.lod):
            return to_arrow(rows, self.lod, self.marks, self.nulls)

    def to_awkward(self) -> Any:
        """Return an array of Awkward; needs the package awkward. Categories become their words.

        Timestamps and dates become datetime64, in UTC if they have a zone, and durations
        timedelta64. Decimals become their digits, and times of a day the numbers in their unit.
        """
        from lodcli.kernels.tensor.exchange.awkward import to_awkward

        if self.marks.categories is not None:
            return self.as_text().to_awkward()
        rows = self._on_host("Awkward", nulls=True)
        with _nesting("Awkward", self.lod):
            return to_awkward(rows, self.lod, self.marks, self.nulls)

    @overload
    def to_torch(self, layout: Literal["jagged"] = "jagged") -> Jagged: ...
    @overload
    def to_torch(self, layout: Literal["packed"]) -> Packed: ...
    @overload
    def to_torch(self, layout: Literal["padded"]) -> Padded: ...
    @overload
    def to_torch(self, layout: Literal["varlen"]) -> Varlen: ...

    @types_explained
    def to_torch(self, layout: Literal["jagged", "packed", "padded", "varlen"] = "jagged") -> Any:
        """Return the sequences of a tensor with one level in a form of torch.

        Args:
            layout: "jagged", a nested tensor; "packed", a PackedSequence; "padded", the padded
                tensor and the lengths; "varlen", values, cu_seqlens and max_seqlen.

        Raises:
            OptionError: no such layout.
            UnsupportedError: not one level; an empty sequence, for "packed".
        """
        import lodcli.kernels.torch  # noqa: F401 - an error with a remedy without torch
        from lodcli.kernels.tensor.exchange.torch import to_torch

        return to_torch(self.data, self.lod, layout, self.to_padded)

    # -- Arrow's protocol ----------------------------------------------------------

    # A tensor is a column or a table, depending on what the consumer requests: a Series and
    # pyarrow.array take __arrow_c_array__, SQL and pyarrow.table the stream and its schema.

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """Return the Arrow array of `to_arrow`, as capsules."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a table of one column called "data", as a capsule."""
        return self._arrow_table().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Return the schema of that table, as a capsule."""
        return self._arrow_table().schema.__arrow_c_schema__()

    def _arrow_table(self) -> Any:
        from lodcli.kernels.tensor.exchange.arrow import to_table

        return to_table(self._on_host("Arrow", nulls=True), self.lod, self.marks, self.nulls)

    def __arrow_array__(self, type: Any = None) -> Any:
        """Return the array that `pyarrow.array(tensor)` returns."""
        return self.to_arrow() if type is None else self.to_arrow().cast(type)

    def _on_host(self, what: str, *, nulls: bool = False) -> Array:
        if is_on_device(self.values):
            raise UnsupportedError(
                f"{what} takes rows in main memory, these are on a GPU; use to_device('cpu') first"
            )
        if not nulls:
            self.refuse_nulls(what)
        return self.values


@contextmanager
def _nesting(what: str, lod: LoD) -> Iterator[None]:
    try:
        yield
    except RecursionError:  # of Python; these libraries have no limit themselves
        raise UnsupportedError(
            f"{lod.n_levels} levels are too many for lists of {what}; use to_arrays() or to_list()"
        ) from None


def _index(values: Any) -> Any:
    """Return numbers of an index in main memory, of any library."""
    return rows_of(values) if hasattr(values, "__dlpack__") else values


def _levels(given: Any, what: str) -> list[Any]:
    """Return a list of levels, given that or a single level."""
    if hasattr(given, "__dlpack__") or isinstance(given, np.ndarray):
        found = rows_of(given)
        return list(found) if found.ndim > 1 else [found]
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise InvalidDataError(f"{what}: expected a list of numbers, found {type(given).__name__}")
    parts = list(given)
    single = not any(isinstance(part, Iterable) or hasattr(part, "__dlpack__") for part in parts)
    # An empty list is a level of no sequences.
    return [parts] if single else [_index(part) for part in parts]
