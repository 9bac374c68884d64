"""NumPy protocols of a LoDTensor: which functions keep its index, and which raise.

For a tensor with levels, a function returns a result with the index, or one without rows that an
index could describe, or it raises an error: an index is never dropped silently. A tensor without
levels has nothing to drop.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lodcli.kernels.errors import SelectionError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.rows import rows_of
from lodcli.kernels.tensor.exchange.units import OBJECTS
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls
from lodcli.kernels.tensor.operands import (
    hint_on_items,
    hint_on_pooled,
    misfit,
    refuse_texts_and_times,
    unlike,
)

# What NumPy takes as it is; a type may be an argument such as dtype=.
_OF_NUMPY = (np.ndarray, np.generic, type)
# Functions of NumPy that are not ufuncs, by kind. Elementwise:
_ELEMENTWISE = frozenset(
    (
        *(np.angle, np.around, np.clip, np.empty_like, np.fix, np.full_like),
        *(np.i0, np.imag, np.isclose, np.iscomplex, np.isneginf, np.isposinf, np.isreal),
        *(np.nan_to_num, np.ones_like, np.real, np.real_if_close, np.round, np.sinc, np.where),
        *(np.zeros_like, getattr(np, "astype", np.copy)),  # from NumPy 2.1 on
    )
)
# Elementwise in the first argument only:
_LOOKED_UP = frozenset((np.digitize, np.interp, np.isin))
# Reductions of an axis, or of all elements if no axis is given:
_REDUCTIONS = frozenset(
    (
        *(np.all, np.amax, np.amin, np.any, np.argmax, np.argmin, np.average, np.count_nonzero),
        *(np.linalg.norm, np.max, np.mean, np.median, np.min, np.nanargmax, np.nanargmin),
        *(np.nanmax, np.nanmean, np.nanmedian, np.nanmin, np.nanpercentile, np.nanprod),
        *(np.nanquantile, np.nanstd, np.nansum, np.nanvar, np.percentile, np.prod, np.ptp),
        *(np.quantile, np.std, np.sum, np.var),
    )
)
# Along an axis, or adding or removing one; all other axes keep their length:
_ALONG = frozenset(
    (
        *(np.argpartition, np.argsort, np.cumprod, np.cumsum, np.delete, np.diff, np.expand_dims),
        *(np.flip, np.nancumprod, np.nancumsum, np.partition, np.repeat, np.roll, np.sort),
        *(np.squeeze, np.take),
    )
)
# Joining arrays along an axis:
_JOINING = frozenset((np.concatenate, np.stack))
# Comparisons of all values:
_EQUAL = frozenset((np.allclose, np.array_equal, np.array_equiv))
# Properties of the arguments, whatever their sequences are:
_FACTS = frozenset(
    (
        *(np.can_cast, np.iscomplexobj, np.isrealobj, np.may_share_memory, np.ndim),
        *(np.result_type, np.shape, np.shares_memory, np.size),
    )
)
# Names of functions that compare numbers with each other, which then must have the same meaning:
_COMPARISONS = frozenset(
    (
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("array_equal", "array_equiv"),
    )
)
# Names of functions of numbers that count the same:
_SUMS = frozenset(
    (
        *("add", "subtract", "maximum", "minimum", "fmax", "fmin"),
        *("divide", "floor_divide", "remainder", "fmod", "divmod"),
    )
)
# Functions of NumPy that mix the rows of sequences, and the op that does the same in each sequence;
# but `shift` does not wrap around as `roll` does:
_OPS = {
    "add.accumulate": "cumsum",
    "argsort": "argsort",
    "cumprod": "cumprod",
    "cumsum": "cumsum",
    "diff": "diff",
    "flip": "reverse",
    "multiply.accumulate": "cumprod",
    "roll": "shift",
    "sort": "sort",
    "unique": "unique",
}
# What keeps the levels, by the functions of NumPy that would drop them:
_KEEPING = {
    **dict.fromkeys(("piecewise", "select"), "np.where"),
    **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), "lodcli.write(path, tensor)"),
    "take": "tensor[numbers]",
}
# Where what is advised differs from the function of NumPy:
_BUT = {
    "roll": " and fills rows instead of wrapping around",
    "take": " and takes whole items",
}
# The axis by which np.concatenate joins as other functions do, by whether rows have one axis only:
_JOINED = {("append", True): 0, ("hstack", True): 0, ("hstack", False): 1, ("vstack", False): 0}

# Methods of arrays or data frames, and the op that does the same.
_AS_METHODS = {
    **{name: f"{name}(tensor)" for name in ("argsort", "cumprod", "cumsum", "diff", "first")},
    **{name: f"{name}(tensor)" for name in ("last", "max", "mean", "min", "shift", "softmax")},
    **{name: f"{name}(tensor)" for name in ("sort", "sum", "unique")},
    "argmax": "max_index(tensor)",
    "argmin": "min_index(tensor)",
    "dot": "dot(tensor, other)",
    "reshape": "reshape(tensor, new_dim)",
    "searchsorted": "searchsorted(tensor, values)",
    "truncate": "truncate(tensor, length)",
}
# Methods of arrays that change them, and so rows that tensors may share.
_IN_PLACE = frozenset(
    ("byteswap", "fill", "partition", "put", "resize", "setfield", "setflags", "sort")
)
# Attributes of other classes of ragged arrays, and their names here.
_OTHERWISE = {
    "clip": "np.clip(tensor, low, high) keeps the levels",
    **{name: f"np.{name}(tensor) keeps the levels" for name in ("conj", "conjugate", "imag")},
    **{name: f"np.{name}(tensor) keeps the levels" for name in ("real", "round")},
    "lengths": "tensor.lod.lengths() returns those of the finest level",
    **dict.fromkeys(("cuda", "to"), "to_device('cuda') copies it to a GPU"),
    **dict.fromkeys(("flat_values", "flat"), "tensor.data has the rows"),
    "row_lengths": "tensor.lod.lengths() returns those of the finest level",
    "row_splits": "tensor.lod.levels has the offsets of each level",
    **dict.fromkeys(
        ("save", "to_csv", "to_parquet", "write"), "lodcli.write(path, tensor) writes a file"
    ),
    "to_pandas": "to_arrow().to_pandas() returns a Series",
    "numpy": "to_numpy() returns an array if all sequences are equally long",
    "offsets": "tensor.lod.levels has those of each level",
    "shape": "len(tensor) is the number of items, tensor.data.shape the shape of the rows",
    "tolist": "to_list() returns nested lists",
}


def _otherwise(name: str) -> str:
    """Return a hint on the replacement for an attribute of arrays, as "; .."; "" for others."""
    if name in _OTHERWISE:
        return f"; {_OTHERWISE[name]}"
    of_rows = hasattr(np.ndarray, name) and not name.startswith("_") and name not in _IN_PLACE
    rows = f"tensor.data.{name} of the rows" if of_rows else ""
    if name in _AS_METHODS:
        op = f"lodcli.ops.{_AS_METHODS[name]}, which computes in each sequence"
        return f"; use {op}" + (f", or {rows}" if rows else "")
    return f"; use {rows}" if rows else ""


class NumpyProtocol(NDArrayOperatorsMixin):
    """The protocol methods by which NumPy and other libraries accept an object as an array."""

    __slots__ = ()

    # Elementwise comparison makes == an array, so there is no hash: as for ndarray.
    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:  # with it, type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that a tensor does not have, with advice."""
            if hasattr(type(self), name):  # a property raised an AttributeError, which Python hid
                return super().__getattribute__(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}{_otherwise(name)}"
            raise AttributeError(text, name=name, obj=self)

    if TYPE_CHECKING:  # members of LoDTensor
        _data: Array
        _lod: LoD
        _marks: Marks
        _nulls: Nulls

        def refuse_nulls(self, what: str) -> None: ...
        def _of_rows(self, rows: Array) -> Self: ...
        @property
        def data(self) -> Array: ...
        @property
        def lod(self) -> LoD: ...

        # Methods of the mixin, which annotates them with Any.
        def __add__(self, other: object) -> Self: ...
        def __radd__(self, other: object) -> Self: ...
        def __sub__(self, other: object) -> Self: ...
        def __rsub__(self, other: object) -> Self: ...
        def __mul__(self, other: object) -> Self: ...
        def __rmul__(self, other: object) -> Self: ...
        def __truediv__(self, other: object) -> Self: ...
        def __rtruediv__(self, other: object) -> Self: ...
        def __floordiv__(self, other: object) -> Self: ...
        def __rfloordiv__(self, other: object) -> Self: ...
        def __mod__(self, other: object) -> Self: ...
        def __rmod__(self, other: object) -> Self: ...
        def __pow__(self, other: object) -> Self: ...
        def __rpow__(self, other: object) -> Self: ...
        def __and__(self, other: object) -> Self: ...
        def __rand__(self, other: object) -> Self: ...
        def __or__(self, other: object) -> Self: ...
        def __ror__(self, other: object) -> Self: ...
        def __xor__(self, other: object) -> Self: ...
        def __rxor__(self, other: object) -> Self: ...
        def __lshift__(self, other: object) -> Self: ...
        def __rlshift__(self, other: object) -> Self: ...
        def __rshift__(self, other: object) -> Self: ...
        def __rrshift__(self, other: object) -> Self: ...
        def __lt__(self, other: object) -> Self: ...
        def __le__(self, other: object) -> Self: ...
        def __gt__(self, other: object) -> Self: ...
        def __ge__(self, other: object) -> Self: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __invert__(self) -> Self: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the rows of a tensor without levels.

        Raises:
            UnsupportedError: it has levels.
        """
        self._refuse_levels("an array")
        if copy is None:
            return np.asarray(self.data, dtype=dtype)
        return np.array(self.data, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of the rows of a tensor without levels, without a copy.

        Raises:
            UnsupportedError: it has levels.
        """
        self._refuse_levels("DLPack")
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """Return the kind and number of the device of the rows."""
        return self.data.__dlpack_device__()

    def _refuse_levels(self, what: str) -> None:
        if self.lod.n_levels:
            raise UnsupportedError(
                f"{what} cannot hold the {_levels(self.lod)} of a LoDTensor; take tensor.data for "
                "the rows alone, or to_torch(), to_arrow(), to_awkward() or to_padded()"
            )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a ufunc: an elementwise one to the rows, passing the index on."""
        elementwise = method == "__call__" and ufunc.signature is None
        if not kwargs and elementwise and ufunc.nout == 1:
            # Fast path for most calls: arithmetic and comparisons.
            if len(inputs) == 1:
                if type(self._data) is np.ndarray and self._nulls is NO_NULLS:
                    return self._of_rows(ufunc(self._data))
            elif len(inputs) == 2 and (rows := _alike(*inputs)) is not None:
                try:
                    return self._of_rows(ufunc(*rows))
                except ValueError as error:
                    raise misfit(error, ufunc.__name__, self, rows) from error
        owner, values, out = self, inputs, None
        if kwargs:
            out, where = kwargs.get("out"), kwargs.get("where", True)
            values = (*inputs, *(out or ()), where)
            if out is not None:
                kwargs["out"] = tuple(data_of(value) for value in out)
            if where is not True:
                kwargs["where"] = data_of(where)
        if elementwise and len(values) > 1:
            owner = _common_index(values, ufunc.__name__)
        plain = [data_of(value) for value in inputs]
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        try:
            result = call(*plain, **kwargs)
        except np.exceptions.AxisError as error:
            raise _axis_of_rows(f"np.{ufunc.__name__}", error) from None
        except TypeError:
            refuse_texts_and_times(ufunc.__name__, owner, inputs)
            raise
        except ValueError as error:
            plain.append(kwargs.get("where"))
            raise misfit(
                error, ufunc.__name__, owner, plain, broadcasts=elementwise, given=inputs
            ) from error
        if not elementwise:
            return _after_mixing(ufunc, method, inputs, kwargs.get("axis", 0), result)
        if out is not None:
            return out if len(out) > 1 else out[0]
        if isinstance(result, tuple):
            return tuple(_rewrapped(part, owner, ufunc.__name__) for part in result)
        return _rewrapped(result, owner, ufunc.__name__)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Apply a function of NumPy that is not a ufunc.

        Raises:
            UnsupportedError: it would drop the index.
        """
        name = function.__name__
        if function is np.concatenate and _along_rows(args, kwargs):
            return type(self).concatenate(args[0])  # type: ignore[attr-defined]
        if function is np.copy:
            return self.copy()  # type: ignore[attr-defined]
        tensors = [value for value in _leaves((args, kwargs)) if _is_tensor(value)]
        levels = any(tensor.lod.n_levels for tensor in tensors)
        try:
            keeps = _keeps_index(function, args, kwargs)
        except UnsupportedError:
            if levels:
                raise
            keeps = False  # without levels there is no index to lose
        alike = keeps or (levels and function not in _FACTS)
        owner = _common_index(tensors, name) if alike else tensors[0]
        _refuse_objects(tensors, (args, tuple(kwargs.values())), name)
        try:
            result = function(*_plain(args), **_plain(kwargs))
        except np.exceptions.AxisError as error:
            raise _axis_of_rows(f"np.{name}", error) from None
        except ValueError as error:
            given = [*args, *kwargs.values()]
            plain = () if function in _JOINING else _plain(given)  # those joined are arrays
            broadcasts = function in _ELEMENTWISE | _EQUAL
            raise misfit(
                error, name, tensors[0], plain, broadcasts=broadcasts, given=given
            ) from error
        if not keeps:
            return result
        if function in _ELEMENTWISE:
            return _rewrapped(result, owner, name)
        if isinstance(result, tuple):  # np.average also returns the sums of the weights
            return tuple(owner.with_data(part) for part in result)
        return owner.with_data(result)


_SCALARS = frozenset((bool, int, float, complex))
_UNARY = ("neg", "pos", "abs", "invert")
_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
    *("lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne"),
)


def _alike(one: Any, two: Any) -> tuple[Array, Array] | None:
    """Return the rows of two tensors without nulls that share index, marks and shape, else None."""
    if type(one) is not type(two) or one._lod is not two._lod or one._marks is not two._marks:
        return None
    if one._nulls is not NO_NULLS or two._nulls is not NO_NULLS:
        return None
    rows, more = one._data, two._data
    if type(rows) is not np.ndarray or type(more) is not np.ndarray or rows.shape != more.shape:
        return None
    return rows, more


def _plain_operators() -> None:
    """Add a fast path for operators on plain arrays; others go through `__array_ufunc__`.

    An operator between a tensor and a number, or a tensor of the same index object, takes less
    time than NumPy's dispatch.
    """
    made: dict[str, Any] = {f"__{name}__": _unary(f"__{name}__") for name in _UNARY}
    made |= {f"__{name}__": _binary(f"__{name}__") for name in _BINARY}
    for name in ("__eq__", "__ne__"):
        made[name] = _with_words(name, made[name])
    for name in _BINARY:
        if hasattr(NDArrayOperatorsMixin, f"__r{name}__"):
            made[f"__r{name}__"] = _reflected(name)
    for name, method in made.items():
        method.__name__, method.__qualname__ = name, f"LoDTensor.{name}"
        setattr(NumpyProtocol, name, method)


def _unary(name: str) -> Callable[[Any], Any]:
    function, other_way = getattr(operator, name), getattr(NDArrayOperatorsMixin, name)

    def method(self: NumpyProtocol) -> Any:
        rows = self._data
        if type(rows) is np.ndarray and self._nulls is NO_NULLS:
            return self._of_rows(function(rows))
        return other_way(self)

    return method


def _binary(name: str) -> Callable[[Any, Any], Any]:
    function, other_way = getattr(operator, name), getattr(NDArrayOperatorsMixin, name)

    def method(self: NumpyProtocol, other: Any) -> Any:
        rows, kind = self._data, type(other)
        if type(rows) is np.ndarray and self._nulls is NO_NULLS:
            try:
                if kind in _SCALARS:
                    return self._of_rows(function(rows, other))
                if kind is type(self) and (both := _alike(self, other)) is not None:
                    return self._of_rows(function(*both))
            except ValueError:
                pass  # the error of other_way names the function
        return other_way(self, other)

    return method


def _with_words(name: str, compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return == or != that also takes words, dates and others: a number differs from all of them.

    So it is for arrays of NumPy, but not for its ufuncs.
    """
    function = getattr(operator, name)
    ufunc = {"__eq__": "equal", "__ne__": "not_equal"}[name]

    def method(self: NumpyProtocol, other: Any) -> Any:
        try:
            return compare(self, other)
        except TypeError:
            if _is_tensor(other):
                raise
            if kind := self._marks.kind:
                raise unlike(kind, other) from None
            other = data_of(other)
            try:
                result = function(self._data, other)
            except ValueError as error:
                raise ShapeMismatchError(
                    f"{ufunc}: expected a value, or one for each row, of shape "
                    f"{self._data.shape}, found shape {np.shape(other)}"
                ) from error
            return _rewrapped(result, self, function.__name__)

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, f"__{name}__")
    other_way = getattr(NDArrayOperatorsMixin, f"__r{name}__")

    def method(self: NumpyProtocol, other: Any) -> Any:
        rows = self._data
        if type(other) in _SCALARS and type(rows) is np.ndarray and self._nulls is NO_NULLS:
            try:
                return self._of_rows(function(other, rows))
            except ValueError:
                pass  # the error of other_way names the function
        return other_way(self, other)

    return method


_plain_operators()


def _keeps_index(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Return whether the result has the rows of the tensors; False if it has no rows.

    Raises:
        UnsupportedError: the result may have other rows.
    """
    if function in _ELEMENTWISE:
        if function is np.where and len(args) == 1:  # returns the positions of true values
            raise _refusal("where")
        return True
    if function in _EQUAL | _FACTS:
        return False
    names = _names_of(function)
    given = dict(zip(names, args, strict=False)) | kwargs
    first: Any = given.get(next(iter(names), ""))
    refusal = _refusal(function.__name__, _as_concatenate(function.__name__, given))
    if function in _LOOKED_UP or function is np.dot:
        # np.dot keeps the rows if they are the left factor of a matrix product.
        if not _is_tensor(first) or (function is np.dot and first.data.ndim != 2):
            raise refusal
        return True
    if function not in _REDUCTIONS | _ALONG | _JOINING:
        raise refusal
    axis: Any = given.get("axis", names.get("axis"))
    parts = list(first) if function in _JOINING else [first]
    if not all(map(_is_tensor, parts)) and function not in _JOINING:
        raise refusal
    added = 1 if function is np.stack else np.size(axis) if function is np.expand_dims else 0
    arrays = [data_of(part) if _is_tensor(part) else rows_of(part) for part in parts]
    ndim = max(array.ndim for array in arrays) + added
    keeps = _keeps_rows(axis, ndim)
    if keeps and np.ndim(given.get("q", 0)):  # several quantiles add an axis before the rows
        raise refusal
    if not keeps and function not in _REDUCTIONS:
        raise refusal
    return keeps


@cache
def _names_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function of NumPy and their defaults, in order."""
    found = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in found}


def _along_rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether these are arguments of np.concatenate that join tensors by their rows."""
    by_rows = args[1:] in ((), (0,)) and kwargs in ({}, {"axis": 0})
    return bool(args) and by_rows and all(map(_is_tensor, list(args[0])))


def _after_mixing(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], axis: Any, result: Any
) -> Any:
    """Return the result of a ufunc that combines elements, with the index where rows are kept."""
    tensors = [value for value in inputs if _is_tensor(value) and value.lod.n_levels]
    if not tensors or method == "at":
        return result
    owner = tensors[0]
    if method == "reduce":
        return owner.with_data(result) if _keeps_rows(axis, owner.data.ndim) else result
    if method == "accumulate" and _keeps_rows(axis, owner.data.ndim):
        return owner.with_data(result)
    if ufunc is np.matmul and method == "__call__":
        # matmul works on the last two axes, or on the only axis of a vector.
        if owner.data.ndim > 2 or (owner.data.ndim == 2 and owner is inputs[0]):
            if owner.data.ndim > 2:  # the rows of each factor are matrices
                _common_index([each for each in tensors if each.data.ndim > 2], "matmul")
            # Further axes of the other factor would come before the rows.
            if any(np.ndim(data_of(value)) > owner.data.ndim for value in inputs):
                raise _refusal("matmul")
            return owner.with_data(result)
        return result
    raise _refusal(ufunc.__name__ + ("" if method == "__call__" else f".{method}"))


def _keeps_rows(axis: Any, ndim: int) -> bool:
    if axis is None:
        return False
    axes = axis if isinstance(axis, tuple) else (axis,)
    return all(number % ndim for number in axes)


def _as_concatenate(name: str, given: dict[str, Any]) -> str:
    """Return the call of np.concatenate that does what a function does; "" if there is none."""
    if name not in ("append", "hstack", "vstack"):
        return ""
    parts = [given["arr"], given["values"]] if name == "append" else list(given["tup"])
    ndim = max((part.data.ndim for part in parts if _is_tensor(part)), default=0)
    axis = given.get("axis")
    if axis is None:
        axis = _JOINED.get((name, ndim == 1))
    if axis is None or not ndim:
        return ""
    if axis % ndim:
        return f"np.concatenate with axis={axis}"
    return "np.concatenate" if all(map(_is_tensor, parts)) else ""


def _refusal(name: str, keeping: str = "") -> UnsupportedError:
    """Return the error for a function of NumPy, by its name in NumPy, and what keeps the levels."""
    remedy = "use an op for sequences"
    if name in _OPS:
        remedy = f"use lodcli.ops.{_OPS[name]}(tensor), which computes in each sequence"
    elif keeping := _KEEPING.get(name, keeping):
        remedy = f"use {keeping}, which keeps them"
    remedy += _BUT.get(name, "")
    return UnsupportedError(
        f"np.{name} does not know the levels of a LoDTensor and would drop them; call it on "
        f"tensor.data, or {remedy}"
    )


def _axis_of_rows(name: str, error: Exception) -> SelectionError:
    return SelectionError(
        f"{name}: {error}; an axis is one of tensor.data, and axis 0 its rows; ops such as "
        "lodcli.ops.mean compute in each sequence"
    )


def _levels(lod: LoD) -> str:
    return "level" if lod.n_levels == 1 else f"{lod.n_levels} levels"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, NumpyProtocol)


def data_of(value: Any) -> Any:
    """Return the rows of a tensor, and arrays of other libraries as those of NumPy.

    NumPy calls `__array_wrap__` of torch, which returns uint8 for booleans.
    """
    if not isinstance(value, NumpyProtocol):
        if isinstance(value, _OF_NUMPY) or not hasattr(value, "__array__"):
            return value
        return rows_of(value)
    if value._nulls:
        value.refuse_nulls("NumPy")
    return value._data


def _plain(value: Any) -> Any:
    """Return arguments with each tensor replaced by its rows."""
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return data_of(value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        nested = (dict, list, tuple)
        return [
            leaf
            for part in value
            for leaf in (_leaves(part) if isinstance(part, nested) else [part])
        ]
    return [value]


def _refuse_objects(tensors: Sequence[Any], values: Sequence[Any], name: str) -> None:
    """Raise UnsupportedError for dates, decimals and others beside tensors of times or decimals.

    NumPy finds them different from the numbers that stand for times and decimals.
    """
    units = [one._marks.unit for one in tensors if isinstance(one._marks.unit, Times | Decimals)]
    if not units:
        return
    for value in _leaves(values):
        if type(value) in _SCALARS:
            continue
        boxed = isinstance(value, np.ndarray) and value.dtype.kind in "OMm"
        if boxed or isinstance(value, OBJECTS):
            raise UnsupportedError(
                f"{name}: expected numbers that count the unit of {units[0]}, found "
                f"{type(value).__name__}; take as_numbers()"
            )


def _common_index(values: Sequence[Any], name: str) -> Any:
    tensors = [value for value in values if isinstance(value, NumpyProtocol)]
    _refuse_objects(tensors, values, name)
    for other in tensors[1:]:
        found = tensors[0].lod.difference(other.lod)
        if found is not None:
            raise ShapeMismatchError(
                f"{name}: the tensors are segmented differently: {found}"
                f"{hint_on_pooled(tensors[0], other, name)}"
            )
        if name in _COMPARISONS or name in _SUMS:
            tensors[0]._marks.require_alike(other._marks, name, kinds=name in _COMPARISONS)
        if other.data.shape[0] != tensors[0].data.shape[0]:
            raise ShapeMismatchError(
                f"{name}: {tensors[0].data.shape[0]} rows against {other.data.shape[0]}"
                f"{hint_on_items((tensors[0], other), name)}"
            )
    return tensors[0]


def _rewrapped(result: Any, owner: Any, name: str) -> Any:
    data = owner._data
    if result.ndim != data.ndim or result.shape[0] != data.shape[0]:
        raise ShapeMismatchError(
            f"{name}: the result of shape {result.shape} no longer has the {data.shape[0]} rows "
            "its index describes; use the plain .data for that"
        )
    # If another input is a masked array or a matrix, so is the result.
    return owner._with_rows(result) if type(result) is np.ndarray else owner.with_data(result)
