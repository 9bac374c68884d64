"""LoDTensor: rows and the index that segments them, never out of step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import (
    InvalidDataError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array, check_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, Selection, select
from lodcli.kernels.runtime.arrays import RAGGED, as_array, is_on_device
from lodcli.kernels.tensor.conversions import Conversions
from lodcli.kernels.tensor.exchange.rows import rows_of
from lodcli.kernels.tensor.numpy_protocol import NumpyProtocol


class LoDTensor(NumpyProtocol, Conversions):
    """Dense rows plus a LoD.

    The data cannot be replaced, and the index only by one that fits: an index that no
    longer describes its rows cannot arise.

    Args:
        data: rows along the first axis, (N, D1, D2, ..): bool, (u)int8 to 64, float16,
            bfloat16, float32, float64, complex64 or complex128. Not copied, unless its bytes
            are in another order than the machine's; rows in a GPU's memory (cupy) stay there.
        lod: an index over N rows, or item counts per level. None: a plain tensor.

    Raises:
        InvalidDataError: data without a row axis, or of another dtype.
        InvalidLoDError: the index does not fit N rows.

    Elementwise NumPy functions apply directly and pass the index object on, as do those that
    only reduce features. What reduces the rows gives plain arrays. Every other function of
    NumPy is refused for a tensor with levels, which it would drop: use `.data`.

    >>> words = LoDTensor(np.arange(6.0), LoD.from_lengths([[3, 1, 2]]))
    >>> (words * 2)[2].data
    array([ 8., 10.])
    >>> (words * 2).lod is words.lod
    True
    """

    __slots__ = ("_data", "_lod")

    def __init__(
        self, data: npt.ArrayLike, lod: LoD | Sequence[Sequence[int]] | None = None
    ) -> None:
        array = as_array(data)
        if array.ndim == 0:
            found = type(data).__name__ if array.dtype.kind in "OSU" else "a single value"
            raise InvalidDataError(
                f"data needs a row axis; found {found} (give a list or an array of rows)"
            )
        if array.dtype not in _known and not _is_known(array.dtype):
            hint = RAGGED if array.dtype.hasobject else "text is stored as its bytes, uint8"
            raise InvalidDataError(
                f"data must be numbers or booleans of at most 64 bits, found {array.dtype}; {hint}"
            )
        if not array.dtype.isnative:
            # Compiled kernels know only the machine's own order of bytes.
            array = array.astype(array.dtype.newbyteorder("="))
        index = LoD() if lod is None else lod if isinstance(lod, LoD) else LoD.from_lengths(lod)
        check_rows(index.levels, array.shape[0])
        # A view, so that ndarray.resize on the caller's array cannot pull rows away.
        self._data: Array = array.view()
        self._lod = index

    @property
    def data(self) -> Array:
        """The rows, (N, D1, D2, ..). Their values may be changed in place, not their number."""
        # A view each time: assigning to its shape or dtype must not reach this tensor's.
        return self._data.view()

    @property
    def lod(self) -> LoD:
        """The index; the same object for every tensor that has this structure."""
        return self._lod

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
        """The data's dtype."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of data, without the index."""
        return int(self._data.nbytes)

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the item counts of every level, outermost first."""
        return self._lod.recursive_sequence_lengths()

    def set_recursive_sequence_lengths(self, lengths: Iterable[object]) -> None:
        """Replace the index of this tensor by one made of these item counts.

        Raises:
            InvalidLoDError: the new index does not fit the rows; the old one stays.

        >>> tensor = LoDTensor(np.zeros(6), LoD.from_lengths([[6]]))
        >>> tensor.set_recursive_sequence_lengths([[3, 1, 2]])
        >>> tensor.recursive_sequence_lengths()
        [[3, 1, 2]]
        """
        index = LoD.from_lengths(lengths)
        check_rows(index.levels, self.rows)
        self._lod = index

    # -- slices --------------------------------------------------------------------

    def select(self, *branch: Key, level: int | str = 0) -> LoDTensor:
        """Return the slice at `branch`, whose first part counts items of `level`.

        A view: it shares memory with this tensor. `tensor[2, 0:1]` is the same for
        level 0. Raises SelectionError as `selection.select`.
        """
        return self.cut(select(self._lod, self.rows, branch, level))

    def cut(self, selection: Selection) -> LoDTensor:
        """Return the view that a resolved slice of this tensor describes."""
        data = self._data[selection.rows]
        if selection.drops_row_axis:
            if data.ndim == 1:
                raise SelectionError(
                    "a single value is no tensor; keep its row with a range such as 0:1"
                )
            data = data[0]
        return LoDTensor(data, selection.lod)

    @overload
    def __getitem__(self, key: slice) -> LoDTensor: ...
    @overload
    def __getitem__(self, key: int | tuple[Key, ...]) -> Any: ...

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Any:
        """Return the slice at `key`, as `select`; a single value as a number, as NumPy does."""
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if isinstance(part, bool | np.bool_) or not isinstance(part, int | np.integer | slice):
                raise SelectionError(f"index by whole numbers and ranges, not {part!r}")
        branch = tuple(part if isinstance(part, slice) else int(part) for part in parts)
        selection = select(self._lod, self.rows, branch)
        if selection.drops_row_axis and self._data.ndim == 1:
            return self._data[selection.rows.start]
        return self.cut(selection)

    def __len__(self) -> int:
        """Number of outermost items; of rows where there are no levels."""
        return self._lod.count(0) if self._lod.n_levels else self.rows

    def __bool__(self) -> bool:
        # Not by length, which Python would take: `if a == b` would hold for any two.
        raise InvalidDataError(
            "a tensor is neither true nor false; use identical(), len(), or .data.all()"
        )

    def __iter__(self) -> Iterator[Any]:
        """Yield the outermost items in order; without levels the rows, numbers if they are."""
        if self._lod.n_levels or self._data.ndim > 1:
            return (self[item] for item in range(len(self)))
        return iter(self._data)

    def __reversed__(self) -> Iterator[Any]:
        return (self[item] for item in reversed(range(len(self))))

    def __contains__(self, value: object) -> bool:
        if self._lod.n_levels:
            raise UnsupportedError(
                "`in` could mean an item or a value of any; use (tensor.data == value).any()"
            )
        return bool((self._data == value).any())

    def copy(self) -> LoDTensor:
        """Return a tensor with its own C-ordered data and the same index object."""
        return LoDTensor(self._data.copy(order="C"), self._lod)

    def with_data(self, data: npt.ArrayLike) -> LoDTensor:
        """Return other rows under the same index object.

        Raises:
            InvalidLoDError: a different number of rows.
        """
        return LoDTensor(data, self._lod)

    def identical(self, other: LoDTensor) -> bool:
        """Return whether dtype, shape, every bit of the data, index and names agree."""
        return (
            self.dtype == other.dtype
            and self._data.shape == other._data.shape
            and self._lod == other._lod
            and self._data.tobytes() == other._data.tobytes()
        )

    @staticmethod
    def concatenate(parts: Sequence[LoDTensor]) -> LoDTensor:
        """Return several batches as one, their indexes joined level by level.

        Raises:
            ShapeMismatchError: different row shapes, dtypes or numbers of levels.
        """
        if not parts:
            raise ShapeMismatchError("nothing to concatenate: no tensor given")
        first = parts[0]
        for position, part in enumerate(parts):
            for what in ("row_shape", "dtype"):
                if getattr(part, what) != getattr(first, what):
                    raise ShapeMismatchError(
                        f"cannot concatenate: {what} of part 0 is {getattr(first, what)}, "
                        f"of part {position} {getattr(part, what)}"
                    )
        if len(parts) == 1:
            return first
        lod = LoD.concatenate([part.lod for part in parts])
        return LoDTensor(np.concatenate([part.data for part in parts]), lod)

    # -- devices -------------------------------------------------------------------

    @property
    def device(self) -> str:
        """Where the rows lie: "cpu", or "cuda:N". The index lives in main memory always."""
        if not is_on_device(self._data):
            return "cpu"
        return f"cuda:{self._data.device.id}"  # type: ignore[attr-defined]

    def to_device(self, device: str) -> LoDTensor:
        """Return this tensor with its rows on a device, under the same index object.

        Args:
            device: "cpu", "cuda" (the current GPU) or "cuda:N".

        Returns:
            This tensor, if they lie there already; else a copy. A copy to a GPU is queued on
            the current stream; one to main memory is there when this returns.

        Raises:
            OptionError: no such name.
            UnsupportedError: cupy is not installed, or there is no such GPU.
        """
        from lodcli.kernels.runtime.devices import moved

        data = moved(self._data, device)
        return self if data is self._data else LoDTensor(data, self._lod)

    @staticmethod
    def from_dlpack(data: Any, lod: LoD | Sequence[Sequence[int]] | None = None) -> LoDTensor:
        """Return a tensor over the rows of another library's array, where they lie; no copy.

        Args:
            data: anything with `__dlpack__`, such as a torch tensor, in main memory or on a GPU.
            lod: as for LoDTensor.

        Raises:
            UnsupportedError: the rows lie on a device that is neither.
        """
        return LoDTensor(rows_of(data), lod)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self._data.shape)
        return f"LoDTensor({shape} {self.dtype}, {self._lod!r})"


# Those met so far that are held: their names take NumPy longer than all the rest.
_known: set[np.dtype[Any]] = set()


def _is_known(dtype: np.dtype[Any]) -> bool:
    if dtype.name in ALL_DTYPES:
        _known.add(dtype)
        return True
    return False
