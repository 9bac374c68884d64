"""Sequence ops. One family a folder: `sequence_*` for tensors above, `segment_*` for arrays below.

`segment_*` in FILE.py is the NumPy reference, written for clarity. A fast twin has the same name
and parameters in FILE_native.py or FILE_cupy.py beside it. The compiled kernels of FILE_native.py
are in FILE_numba.py, those of FILE_cupy.py in FILE.cu.
"""
