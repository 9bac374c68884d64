"""Rows of any library as an array over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.arrays import as_array, is_on_device


def rows_of(values: Any) -> Array:
    """Return an array of NumPy, cupy, torch or anything with DLPack as an array on its device.

    Raises:
        InvalidDataError: no array can be made of the values, or they are masked or null.
        UnsupportedError: they are on a device that is neither main memory nor a GPU.
    """
    if isinstance(values, np.ndarray):
        return as_array(values)
    if is_on_device(values):
        return values
    if type(values).__module__.partition(".")[0] == "torch":
        from lodcli.kernels.tensor.exchange.torch import rows_from_torch

        return rows_from_torch(values)
    if hasattr(values, "__dlpack__") and hasattr(values, "__dlpack_device__"):
        from lodcli.kernels.runtime.devices import from_dlpack

        try:
            return from_dlpack(values)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InvalidDataError(
                f"data: {type(values).__name__} cannot be used as an array: {error}"
            ) from None
    return as_array(values)
