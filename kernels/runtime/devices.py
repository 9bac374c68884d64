"""Devices by name, and explicit copies of rows between them."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np

from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.arrays import is_on_device

# DLPack device types: main memory, plain and pinned by CUDA, and GPU memory, plain and managed.
_HOST, _PINNED, _GPU, _MANAGED = 1, 3, 2, 13


def gpu_number(device: str) -> int | None:
    """Return the number of the GPU of a device name, -1 for the current one; None for "cpu".

    Raises:
        OptionError: the name is not "cpu", "cuda" or "cuda:N".

    >>> gpu_number("cpu"), gpu_number("cuda"), gpu_number("cuda:1")
    (None, -1, 1)
    """
    found = isinstance(device, str) and re.fullmatch(r"cpu|cuda(?::([0-9]{1,3}))?", device)
    if not found:
        raise OptionError(f"expected cpu, cuda or cuda:N, found {device!r}")
    if device == "cpu":
        return None
    return int(found[1]) if found[1] else -1


def require_gpu(device: str) -> None:
    """Raise UnsupportedError unless there is such a GPU, and cupy to compute on it."""
    if importlib.util.find_spec("cupy") is None:
        raise UnsupportedError(
            f"{device}: cupy is not installed; pip install 'lodcli[cuda12]' or 'lodcli[cuda13]' "
            "on a machine with an NVIDIA GPU"
        )
    from lodcli.kernels.cuda.transfer import gpu_count

    number, count = gpu_number(device), gpu_count()
    if number is not None and number >= count:
        there = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise UnsupportedError(f"no GPU {device}; there is {there}")


def moved(data: Array, device: str) -> Array:
    """Return data on a device: the same array if it is there already, else a copy.

    Raises:
        OptionError, UnsupportedError: as `gpu_number` and `require_gpu`.
    """
    number = gpu_number(device)
    if number is None and not is_on_device(data):
        return data
    if number is not None:
        require_gpu(device)
    from lodcli.kernels.cuda.transfer import to_gpu, to_host

    return to_host(data) if number is None else to_gpu(data, number)


def from_dlpack(data: Any) -> Array:
    """Return an array over the memory of another library's array. Nothing is copied.

    Raises:
        UnsupportedError: it is on a device that is neither main memory nor a GPU.
    """
    kind = int(data.__dlpack_device__()[0])
    if kind in (_HOST, _PINNED):
        host: Array = np.from_dlpack(data)
        return host
    if kind not in (_GPU, _MANAGED):
        raise UnsupportedError(f"DLPack device {kind} is neither main memory nor an NVIDIA GPU")
    require_gpu("cuda")
    from lodcli.kernels.cuda.transfer import borrowed

    return borrowed(data)
