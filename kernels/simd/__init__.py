"""SIMD for numba kernels: vectors, raw memory, copies, exponentials."""
