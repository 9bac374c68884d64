"""Sequence ops, one folder for each family: `sequence_*` for tensors, `segment_*` for arrays.

`segment_*` in FILE.py is the NumPy reference, written for clarity. A fast twin has the same name
and parameters in FILE_native.py or FILE_cupy.py beside it. The compiled kernels of FILE_native.py
are in FILE_numba.py, those of FILE_cupy.py in FILE.cu.
"""
