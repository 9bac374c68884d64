"""Runtime of the kernels: dispatch, devices, threads, buffers, precision, numba's cache."""
