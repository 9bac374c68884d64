"""Where and how kernels run: dispatch, devices, threads, buffers, precision, numba's cache."""
