"""Copies rows to a GPU and back; see kernels/runtime/devices.py."""

from __future__ import annotations

from typing import Any

import cupy

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.arrays import is_on_device


def gpu_count() -> int:
    """Return the number of GPUs.

    Raises:
        UnsupportedError: there is none, or no driver; the message says why.
    """
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:
        # Without a driver, the class of the error depends on the release of cupy.
        raise UnsupportedError(f"no NVIDIA GPU was found: {error}") from error
    if not count:
        raise UnsupportedError("no NVIDIA GPU was found")
    return count


def to_gpu(data: Array, number: int) -> Array:
    """Return data on a GPU, -1 for the current one; the copy is queued on its stream."""
    if number < 0:
        number = cupy.cuda.runtime.getDevice()
    if is_on_device(data) and int(data.device.id) == number:  # type: ignore[attr-defined]
        return data
    with cupy.cuda.Device(number):
        there: Array = cupy.asarray(data)
    return there


def to_host(data: Array) -> Array:
    """Return a copy in main memory."""
    host: Array = cupy.asnumpy(data)
    return host


def borrowed(data: Any) -> Array:
    """Return a device array over the memory of another library's array."""
    there: Array = cupy.from_dlpack(data)
    return there
