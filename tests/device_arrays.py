"""An array that acts like cupy's: NumPy functions dispatch to it, conversion to NumPy fails."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class DeviceArray(NDArrayOperatorsMixin):
    """A NumPy array that pretends to be on a GPU."""

    __cuda_array_interface__ = {"version": 3}  # noqa: RUF012 - an attribute, as cupy has it

    def __init__(self, host: Any) -> None:
        self.host = np.asarray(host)

    def __getattr__(self, name: str) -> Any:
        if name in {"shape", "dtype", "ndim", "size", "nbytes", "flags", "tobytes"}:
            return getattr(self.host, name)
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> Any:
        return DeviceArray(self.host[key])

    def view(self) -> DeviceArray:
        return DeviceArray(self.host.view())

    def copy(self, order: Any = "C") -> DeviceArray:
        return DeviceArray(self.host.copy(order))

    def __array__(self, *args: Any, **more: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        return _wrapped(getattr(ufunc, method)(*(_plain(value) for value in inputs), **more))

    def __array_function__(self, function: Any, types: Any, args: Any, more: Any) -> Any:
        return _wrapped(function(*_plain(args), **_plain(more)))


def _plain(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value.host
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value


def _wrapped(value: Any) -> Any:
    return DeviceArray(value) if isinstance(value, np.ndarray) else value
