"""Kernels compiled when the package is built, and called without numba.

For modules of kernels: declare (the decorator), language_numba and system_numba (extensions of
numba's language), target (the processor level to compile for).
For wrappers: load (looks up a kernel by name and types), pool and pool_numba (threads that share
the pieces of a kernel), calls and python_numba (calls from Python).

compile_numba compiles kernels to object files; linking/ links these to a shared library, and
checks its file before opening it. sources finds the modules that declare kernels, and computes
digests of their sources. build compiles everything, for a package; cache compiles kernels on
demand, on this machine. processor defines the processor levels; settings chooses one.

How to write a kernel: docs/internals/compiled-kernels.md.
Rationale: docs/decisions/0042-compiled-ahead.md.
"""
