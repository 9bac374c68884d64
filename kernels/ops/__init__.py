"""Sequence ops. One family a file: `sequence_*` for tensors above, `segment_*` for arrays below.

`segment_*` here is the NumPy reference, written to be believed. A fast twin has the same file,
name and parameters in kernels/on_numba/ or kernels/on_cupy/.
"""
