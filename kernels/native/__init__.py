"""Kernels compiled when the package is built, and called without numba.

For modules of kernels: declare (a decorator), language_numba and system_numba (what kernels are
written in besides numba's own language), target (which processors are compiled for).
For wrappers: load (a kernel by its name and types), pool and pool_numba (threads that share the
pieces of a kernel), calls and python_numba (kernels as Python calls them).

compile_numba makes object files of kernels; linking/ a shared object of those, and the file that it
goes into, which is checked before it is opened. sources tells which modules
declare kernels, and what compiled code is known by. build makes everything, for a package; cache
what is asked for, on this machine. processor and settings tell for which level.

How to write a kernel: docs/internals/compiled-kernels.md.
Why so: docs/decisions/0042-compiled-ahead.md.
"""
