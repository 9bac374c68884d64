"""Kernels of CUDA C++ on the CPU, launched as strictly as on a device."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cupy.compiling import compiled
from cupy.device import PROPERTIES, streams

# A block's own array of a launch's size; g++ knows no such thing.
_SHARED = re.compile(r"extern __shared__ [^;]*?(\w+)\[\];")


class _Kernel:
    def __init__(self, library: ctypes.CDLL, number: int, name: str, together: bool) -> None:
        self._call = getattr(library, f"host_cuda_call_{number}")
        sizes = (ctypes.c_int * 64)()
        count = getattr(library, f"host_cuda_parameters_{number}")(sizes)
        self._sizes, self.name, self._together = list(sizes[:count]), name, together
        self.max_dynamic_shared_size_bytes = PROPERTIES["sharedMemPerBlock"]

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0
    ) -> None:
        if len(args) != len(self._sizes):
            raise TypeError(f"{self.name} takes {len(self._sizes)} arguments, found {len(args)}")
        for name, shape, most in (
            ("grid", grid, (2**31 - 1, 65535, 65535)),
            ("block", block, (1024, 1024, 64)),
        ):
            for size, limit in zip(shape, most, strict=False):
                if not 1 <= size <= limit:
                    raise ValueError(f"{self.name}: {name} of {tuple(shape)}")
        most_shared = min(self.max_dynamic_shared_size_bytes, PROPERTIES["sharedMemPerBlockOptin"])
        if shared_mem > most_shared:
            raise ValueError(f"{self.name}: {shared_mem} bytes of shared memory of {most_shared}")
        # As many as are sure to be on the device at once where a block may take all of it.
        if self._together and np.prod(grid) > PROPERTIES["multiProcessorCount"]:
            raise RuntimeError(f"{self.name}: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: {grid}")
        values = [_value(arg, size, self.name) for arg, size in zip(args, self._sizes, strict=True)]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        shape = (ctypes.c_uint * 8)(
            *(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], shared_mem, self._together
        )
        if streams[-1].capturing is None:
            self._call(places, shape)
        else:
            # The values, too: the places point at them.
            streams[-1].capturing.append((self._call, places, shape, values))


def _value(arg: Any, size: int, name: str) -> Any:
    """Return one argument as the bytes a kernel gets: what cupy makes of each type."""
    if hasattr(arg, "__cuda_array_interface__"):
        # A pointer even for no bytes at all; it must then not be followed.
        value: Any = ctypes.c_void_p(arg.data.ptr if arg.size else 16)
    elif isinstance(arg, np.generic):
        value = ctypes.create_string_buffer(arg.tobytes(), arg.itemsize)
    elif isinstance(arg, bool):
        value = ctypes.c_bool(arg)
    elif isinstance(arg, int):
        value = ctypes.c_longlong(arg)
    elif isinstance(arg, float):
        value = ctypes.c_double(arg)
    else:
        raise TypeError(f"{name}: Unsupported type {type(arg)}")
    if ctypes.sizeof(value) != size:
        raise TypeError(
            f"{name}: an argument of {ctypes.sizeof(value)} bytes where {size} are taken"
        )
    return value


class RawModule:
    """Kernels of CUDA C++, compiled for the CPU."""

    def __init__(
        self,
        *,
        code: str,
        options: tuple[str, ...] = (),
        name_expressions: Sequence[str] = (),
        enable_cooperative_groups: bool = False,
    ) -> None:
        code = _SHARED.sub(r"static const host_cuda::Shared \1;", code)
        parts = ['#include "host_cuda.h"', code]
        for number, name in enumerate(name_expressions):
            parts.append(
                f'extern "C" void host_cuda_call_{number}(void** args, const unsigned* s) {{ '
                f"host_cuda::call(&{name}, args, s); }}\n"
                f'extern "C" int host_cuda_parameters_{number}(int* sizes) {{ '
                f"return host_cuda::parameters(&{name}, sizes); }}"
            )
        self._names = {name: number for number, name in enumerate(name_expressions)}
        self._library = compiled("\n".join(parts), options)
        self._together = enable_cooperative_groups

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self._library, self._names[name], name, self._together)
