"""Sequence ops. One family a folder: `sequence_*` for tensors above, `segment_*` for arrays below.

`segment_*` in FILE.py is the NumPy reference, written to be believed. A fast twin has the same
name and parameters in FILE_numba.py or FILE_cupy.py beside it; CUDA code is in FILE.cu.
"""
