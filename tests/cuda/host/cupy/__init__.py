"""A cupy without a GPU: arrays in main memory, kernels compiled by g++ and run on the CPU.

It has the functions that lodcli.kernels and the tests use, and is as strict as the real one: an
array is never converted to NumPy implicitly, and a kernel's arguments must have its sizes. To use
it, put the folder that holds this package first on the path.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from cupy import counts, cublas
from cupy.device import cuda, get_default_memory_pool, refuse_while_capturing
from cupy.kernels import RawModule, nvrtc

__all__ = ["RawModule", "cuda", "get_default_memory_pool"]
__version__ = "0.host"
cuda.cublas = cublas
cuda.nvrtc = nvrtc


# NumPy's functions that accept arrays on the device: cupy has them, with the same arguments.
_FUNCTIONS = frozenset(
    (
        *("asarray", "atleast_1d", "concatenate", "stack", "split", "take", "take_along_axis"),
        *("empty_like", "full_like", "ones_like", "zeros_like", "put_along_axis", "flatnonzero"),
        *("copy", "where", "broadcast_to"),
    )
)


class _Memory:
    def __init__(self, host: Any) -> None:
        self.ptr = host.ctypes.data

    def copy_from_device_async(self, source: Any, size: int) -> None:
        refuse_while_capturing("copy_from_device_async")
        counts.launches("copy_from_device_async", size)
        ctypes.memmove(self.ptr, source.ptr, size)


class _Flags(NamedTuple):
    """The flags of cupy's arrays, which have no `writeable`."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool


class ndarray(NDArrayOperatorsMixin):
    """An array on the device: NumPy's functions dispatch to it; conversion to NumPy fails."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        if name in {*("shape", "dtype", "ndim", "size", "nbytes", "strides", "itemsize")}:
            return getattr(self._host, name)
        raise AttributeError(name)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._host.__array_interface__, "version": 3}

    @property
    def data(self) -> _Memory:
        return _Memory(self._host)

    @property
    def device(self) -> Any:
        return cuda.Device(0)

    @property
    def flags(self) -> Any:
        mine = self._host.flags
        return _Flags(mine.c_contiguous, mine.f_contiguous, mine.owndata)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, key: Any) -> Any:
        plain = _plain(key)
        found = self._host[plain]
        if isinstance(found, np.ndarray) and counts.is_made(found, self._host):
            counts.launches("take", found.size)
            for part in plain if isinstance(plain, tuple) else (plain,):
                # Their number is only known on the device.
                if isinstance(part, np.ndarray) and part.dtype == np.bool_:
                    counts.waits("mask")
        return _wrapped(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_while_capturing("setitem")
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("a NumPy array cannot be written into a device array; use asarray")
        counts.launches("setitem", self.size)
        self._host[_plain(key)] = _plain(value)

    @property
    def real(self) -> Any:
        return ndarray(self._host.real)

    @property
    def imag(self) -> Any:
        return ndarray(self._host.imag)

    def tobytes(self) -> bytes:
        counts.waits("tobytes")
        return self._host.tobytes()

    def get(self, *args: Any, **more: Any) -> Any:
        counts.waits("get")
        return self._host.copy()

    def set(self, rows: Any, stream: Any = None) -> None:
        if rows.shape != self.shape or rows.dtype != self.dtype or not rows.flags.c_contiguous:
            raise ValueError("what is copied there must have the shape and dtype, in one piece")
        counts.copies("set")
        self._host[...] = rows

    def item(self) -> Any:
        counts.waits("item")
        return self._host.item()

    def __int__(self) -> int:
        counts.waits("int")
        return int(self._host)

    def __float__(self) -> float:
        counts.waits("float")
        return float(self._host)

    def __bool__(self) -> bool:
        counts.waits("bool")
        return bool(self._host)

    def __array__(self, *args: Any, **more: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` instead."
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        refuse_while_capturing(ufunc.__name__)
        if method != "__call__":  # the real one supports no others
            return NotImplemented
        plain = {name: _plain(value) for name, value in more.items()}
        counts.launches(ufunc.__name__)
        return _wrapped(getattr(ufunc, method)(*(_device(value) for value in inputs), **plain))

    def __array_function__(self, function: Any, types: Any, args: Any, more: Any) -> Any:
        refuse_while_capturing(function.__name__)
        if function.__name__ not in _FUNCTIONS:
            return NotImplemented
        if function is np.asarray:  # np.asarray(.., like=..)
            return asarray(*args, **more)
        return _like(function)(*args, **more)


# The keywords that methods of the real one take.
_REDUCED = frozenset(("axis", "out", "keepdims"))
_KEYWORDS = {
    **dict.fromkeys(("max", "min", "any", "all"), _REDUCED),
    **dict.fromkeys(("sum", "mean"), _REDUCED | {"dtype"}),
    **dict.fromkeys(("copy", "reshape", "ravel"), frozenset(("order",))),
    **dict.fromkeys(("squeeze", "argsort"), frozenset(("axis",))),
    **dict.fromkeys(("view", "transpose", "fill", "nonzero", "swapaxes"), frozenset()),
    "astype": frozenset(("order", "casting", "subok", "copy")),
    "cumsum": frozenset(("axis", "dtype", "out")),
    "take": frozenset(("axis", "out")),
}


def _method(name: str, keywords: frozenset[str]) -> Any:
    def call(self: ndarray, *args: Any, **more: Any) -> Any:
        if not more.keys() <= keywords:
            raise TypeError(f"{name}() got an unexpected keyword argument in {sorted(more)}")
        if name == "nonzero":
            counts.waits(name)
        made = getattr(self._host, name)(*_plain(args), **_plain(more))
        if not isinstance(made, np.ndarray) or (made.size and counts.is_made(made, self._host)):
            counts.launches(name)
        return _wrapped(made)

    return call


for _name, _keywords in _KEYWORDS.items():
    setattr(ndarray, _name, _method(_name, _keywords))
ndarray.T = property(lambda self: ndarray(self._host.T))


def _device(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(f"Unsupported type {type(value)}")
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return value


def _wrapped(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_wrapped(part) for part in value)
    return ndarray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def asarray(value: Any, dtype: Any = None, order: Any = None, **more: Any) -> ndarray:
    """Return a device array: the same one, or a copy of an array in main memory."""
    refuse_while_capturing("asarray")
    if isinstance(value, ndarray):
        made = np.asarray(value._host, dtype=dtype, order=order)
        if counts.is_made(made, value._host):
            counts.launches("asarray", made.size)
        return ndarray(made)
    counts.copies("asarray")
    return ndarray(np.array(value, dtype=dtype, order=order))


array = asarray


def ascontiguousarray(value: Any, dtype: Any = None) -> ndarray:
    """Return C-contiguous rows."""
    given = asarray(value, dtype)._host
    made = np.ascontiguousarray(given)
    if counts.is_made(made, given):
        counts.launches("ascontiguousarray", made.size)
    return ndarray(made)


def asnumpy(value: Any, **more: Any) -> Any:
    """Return a copy in main memory."""
    return value.get() if isinstance(value, ndarray) else np.asarray(value)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Return an array of garbage, as on a device."""
    refuse_while_capturing("empty")
    made = np.empty(shape, dtype)
    made.view(np.uint8).fill(0xA5) if made.ndim and made.size and made.flags.c_contiguous else None
    return ndarray(made)


def _refuse(value: Any) -> None:
    """Raise as the real one does when NumPy arrays are mixed with device arrays."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    for part in value if isinstance(value, list | tuple) else ():
        _refuse(part)


# Functions without launches, and those whose result size is only known on the device.
_FREE = frozenset(
    ("may_share_memory", "split", "broadcast_to", "empty_like", "sliding_window_view")
)
_WAITING = frozenset(("flatnonzero",))


def _like(function: Any) -> Any:
    def call(*args: Any, **more: Any) -> Any:
        refuse_while_capturing(function.__name__)
        if function.__name__ not in _FREE:
            counts.launches(function.__name__)
        if function.__name__ in _WAITING:
            counts.waits(function.__name__)
        if function is not np.take:  # which accepts an index in main memory
            _refuse((*args, *more.values()))
        with np.errstate(all="ignore"):  # a device does not report it
            return _wrapped(function(*_plain(args), **_plain(more)))

    return call


for _name in (
    *("isin", "argsort", "take_along_axis", "append", "flatnonzero", "pad"),
    *("zeros", "ones", "full", "arange", "zeros_like", "empty_like", "concatenate", "matmul"),
    *("dot", "where", "repeat", "diff", "searchsorted", "cumsum", "take", "log", "divide"),
    *("stack", "split", "tanh", "exp", "sqrt", "sum", "max", "may_share_memory"),
    *("broadcast_to", "conj", "roll"),
):
    globals()[_name] = _like(getattr(np, _name))


class _Ufunc:
    """A ufunc with more than a call; of reduceat the real one supports only the sum."""

    def __init__(self, ufunc: Any) -> None:
        self._call, self.at = _like(ufunc), _like(ufunc.at)
        if ufunc is np.add:
            self.reduceat = _like(ufunc.reduceat)

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self._call(*args, **more)


add, maximum, minimum = _Ufunc(np.add), _Ufunc(np.maximum), _Ufunc(np.minimum)


def argsort(a: Any, axis: int = -1, kind: Any = None) -> Any:
    """Return the stable order; of floats in one axis by their bits, as the real one does."""
    host = _plain(a)
    counts.launches("argsort")
    if host.ndim == 1 and host.dtype.kind == "f":
        word = np.dtype(f"u{host.itemsize}")
        bits, sign = (host + 0).view(word), word.type(1 << (8 * host.itemsize - 1))
        host = np.where(bits >= sign, ~bits, bits | sign)
    return _wrapped(np.argsort(host, axis=axis, kind="stable"))


class lib:
    class stride_tricks:
        sliding_window_view = staticmethod(_like(np.lib.stride_tricks.sliding_window_view))
