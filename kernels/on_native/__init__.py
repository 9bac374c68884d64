"""CPU twins of the functions in kernels/ops/ that call compiled kernels. They never validate.

A module here imports no numba: its kernels are in the module of the same name with `_numba`.
See docs/internals/compiled-kernels.md.
"""
