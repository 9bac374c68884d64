"""LoDTensor: rows and the index that segments them, never out of step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from lodcli.kernels.checks import Array, check_rows
from lodcli.kernels.errors import (
    InvalidDataError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.lod import LoD
from lodcli.kernels.selection import Key, Selection, select

# What files can hold and every op is tested with; complex numbers count each part.
DTYPE_NAMES = frozenset(
    (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
)


class LoDTensor(NDArrayOperatorsMixin):
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

    Elementwise NumPy functions apply directly and pass the index object on; reductions
    and everything else that does not keep rows give plain arrays.

    >>> words = LoDTensor(np.arange(6.0), LoD.from_lengths([[3, 1, 2]]))
    >>> (words * 2)[2].data
    array([ 8., 10.])
    >>> (words * 2).lod is words.lod
    True
    """

    __slots__ = ("_data", "_lod")

    # Elementwise comparison makes == an array, so there is no hash: as for ndarray.
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, data: npt.ArrayLike, lod: LoD | Sequence[Sequence[int]] | None = None
    ) -> None:
        array = as_array(data)
        if array.ndim == 0:
            raise InvalidDataError("data needs a row axis; found a single value (reshape to (1,))")
        if array.dtype not in _known and not _is_known(array.dtype):
            raise InvalidDataError(
                f"data must be numbers or booleans of at most 64 bits, found {array.dtype}; "
                "text is stored as its bytes, uint8"
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

    def __getitem__(self, key: Key | tuple[Key, ...]) -> LoDTensor:
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if isinstance(part, bool | np.bool_) or not isinstance(part, int | np.integer | slice):
                raise SelectionError(f"index by whole numbers and ranges, not {part!r}")
        return self.select(*(part if isinstance(part, slice) else int(part) for part in parts))

    def __len__(self) -> int:
        """Number of outermost items; of rows where there are no levels."""
        return self._lod.count(0) if self._lod.n_levels else self.rows

    def __bool__(self) -> bool:
        # Not by length, which Python would take: `if a == b` would hold for any two.
        raise InvalidDataError(
            "a tensor is neither true nor false; use identical(), len(), or .data.all()"
        )

    def __iter__(self) -> Iterator[LoDTensor]:
        """Yield the outermost items, or rows kept as batches of one, in order."""
        for item in range(len(self)):
            yield self[item] if self._lod.n_levels else self[item : item + 1]

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
        from lodcli.kernels.devices import moved

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
        from lodcli.kernels.devices import from_dlpack

        return LoDTensor(from_dlpack(data), lod)

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the rows to another library, where they lie; see the array API standard."""
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """Return the kind and number of the device that the rows lie on."""
        return self._data.__dlpack_device__()

    # -- NumPy ---------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is None:
            return np.asarray(self.data, dtype=dtype)
        return np.array(self._data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply an elementwise function to the rows and pass the index on."""
        plain = [_data_of(value) for value in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(_data_of(value) for value in out)
        where = kwargs.get("where", True)
        if where is not True:
            kwargs["where"] = _data_of(where)
        # A generalised ufunc (matmul) mixes rows, so no index survives it for certain.
        if method != "__call__" or ufunc.signature is not None:
            return getattr(ufunc, method)(*plain, **kwargs)
        owner = _common_index([*inputs, *(out or ()), where], ufunc.__name__)
        result = ufunc(*plain, **kwargs)
        if out is not None:
            return out if len(out) > 1 else out[0]
        if isinstance(result, tuple):
            return tuple(_rewrapped(part, owner, ufunc) for part in result)
        return _rewrapped(result, owner, ufunc)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self._data.shape)
        return f"LoDTensor({shape} {self.dtype}, {self._lod!r})"


# Those met so far that are held: their names take NumPy longer than all the rest.
_known: set[np.dtype[Any]] = set()


def _is_known(dtype: np.dtype[Any]) -> bool:
    if dtype.name in DTYPE_NAMES:
        _known.add(dtype)
        return True
    return False


def is_on_device(data: object) -> TypeGuard[Array]:
    """Return whether `data` is an array that acts like NumPy's but lies on a GPU, as cupy's."""
    return hasattr(data, "__cuda_array_interface__") and hasattr(data, "__array_ufunc__")


def as_array(values: npt.ArrayLike) -> Array:
    """Return values as an array where they are: on a GPU they stay there."""
    return values if is_on_device(values) else np.asarray(values)


def on_host(values: npt.ArrayLike, what: str) -> Array:
    """Return what describes an index, or is a number, in main memory wherever the rows are.

    Raises:
        UnsupportedError: it lies on a GPU.
    """
    if is_on_device(values):
        raise UnsupportedError(
            f"{what} is read in main memory and lies on a GPU; move it with cupy.asnumpy"
        )
    return np.asarray(values)


def beside(values: Array, rows: Array) -> Array:
    """Return an array that was worked out of an index, copied to where `rows` lie."""
    return np.asarray(values, like=rows) if is_on_device(rows) else values


def _data_of(value: Any) -> Any:
    return value.data if isinstance(value, LoDTensor) else value


def _common_index(values: Sequence[Any], name: str) -> LoDTensor:
    tensors = [value for value in values if isinstance(value, LoDTensor)]
    for other in tensors[1:]:
        found = tensors[0].lod.difference(other.lod)
        if found is not None:
            raise ShapeMismatchError(f"{name}: the tensors are segmented differently: {found}")
        if other.rows != tensors[0].rows:
            raise ShapeMismatchError(f"{name}: {tensors[0].rows} rows against {other.rows}")
    return tensors[0]


def _rewrapped(result: Any, owner: LoDTensor, ufunc: np.ufunc) -> LoDTensor:
    if result.ndim != owner.data.ndim or result.shape[0] != owner.rows:
        raise ShapeMismatchError(
            f"{ufunc.__name__}: the result of shape {result.shape} no longer has the "
            f"{owner.rows} rows its index describes; use the plain .data for that"
        )
    return owner.with_data(result)
