"""Kernels of CUDA C++ on the CPU, launched as strictly as on a device."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cupy import counts
from cupy.compiling import compiled, load, version
from cupy.device import PROPERTIES, CUDADriverError, streams

# Shared memory whose size is set by the launch, which g++ does not support.
_SHARED = re.compile(r"extern __shared__ [^;]*?(\w+)\[\];")


class _Function:
    """A kernel of a module, like a function of the driver."""

    ptr = 16


class _Kernel:
    kernel = _Function

    def __init__(self, library: ctypes.CDLL, name: str, together: bool) -> None:
        self._call = library.host_cuda_call
        sizes = (ctypes.c_int * 64)()
        count = library.host_cuda_parameters(sizes)
        self._sizes, self.name, self._together = list(sizes[:count]), name, together
        self._in_clusters = bool(library.host_cuda_in_clusters())
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
        # The guaranteed number of resident blocks, if a block may use all of it.
        if self._together and np.prod(grid) > PROPERTIES["multiProcessorCount"]:
            raise CUDADriverError(720)
        values = [_value(arg, size, self.name) for arg, size in zip(args, self._sizes, strict=True)]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        shape = (ctypes.c_uint * 8)(
            *(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], shared_mem),
            self._together or self._in_clusters,
        )
        counts.launches(self.name)
        if streams[-1].capturing is None:
            self._call(places, shape)
        else:
            # The values are kept alive as well, because the pointers refer to them.
            streams[-1].capturing.append((self._call, places, shape, values))


def _value(arg: Any, size: int, name: str) -> Any:
    """Return the bytes of one argument of a kernel, as cupy converts each type."""
    if hasattr(arg, "__cuda_array_interface__"):
        # Also a pointer for an empty array, which must not be dereferenced.
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
    """Machine code of one kernel, as nvrtc made it."""

    def __init__(self, *, path: str, enable_cooperative_groups: bool = False) -> None:
        self._library = load(path)
        self._together = enable_cooperative_groups

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self._library, name, self._together)


class _Program:
    def __init__(self, source: str, headers: dict[str, bytes]) -> None:
        self.source, self.headers = source, headers
        self.kernels: list[str] = []
        self.code, self.log = b"", ""


class nvrtc:
    """The compiler, with the functions and types of cupy.cuda.nvrtc; it makes code for the CPU."""

    getVersion = staticmethod(version)

    class NVRTCError(RuntimeError):
        pass

    @staticmethod
    def getSupportedArchs() -> tuple[int, ...]:
        return (80, 90)

    @staticmethod
    def createProgram(
        source: str, name: str, headers: Sequence[bytes], names: Sequence[bytes]
    ) -> _Program:
        return _Program(source, {n.decode(): h for n, h in zip(names, headers, strict=True)})

    @staticmethod
    def addNameExpression(program: _Program, kernel: str) -> None:
        program.kernels.append(kernel)

    @staticmethod
    def compileProgram(program: _Program, options: Sequence[str]) -> None:
        (name,) = program.kernels
        code = _SHARED.sub(r"static const host_cuda::Shared \1;", program.source)
        calls = (
            f'extern "C" void host_cuda_call(void** args, const unsigned* s) {{ '
            f"host_cuda::call(&{name}, args, s); }}\n"
            f'extern "C" int host_cuda_parameters(int* sizes) {{ '
            f"return host_cuda::parameters(&{name}, sizes); }}\n"
            'extern "C" int host_cuda_in_clusters() { return '
            f"{int('CLUSTER_OF(' in program.source)}; }}"
        )
        try:
            program.code = compiled(
                "\n".join(['#include "host_cuda.h"', code, calls]), program.headers
            )
        except RuntimeError as error:
            program.log = str(error)
            raise nvrtc.NVRTCError from None

    @staticmethod
    def getProgramLog(program: _Program) -> str:
        return program.log

    @staticmethod
    def getCUBIN(program: _Program) -> bytes:
        return program.code

    @staticmethod
    def getLoweredName(program: _Program, kernel: str) -> str:
        return kernel

    @staticmethod
    def destroyProgram(program: _Program) -> None:
        program.kernels.clear()
