"""The GPU that kernels are launched on."""

from __future__ import annotations

from contextlib import AbstractContextManager

import cupy


def using(number: int) -> AbstractContextManager[object]:
    """Return a context in which a GPU is the current device; with -1 the device is unchanged."""
    chosen = cupy.cuda.runtime.getDevice() if number < 0 else number
    device: AbstractContextManager[object] = cupy.cuda.Device(chosen)
    return device
