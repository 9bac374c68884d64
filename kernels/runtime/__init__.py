"""Runtime of the kernels: dispatch, devices, threads, buffers, precision, memory budget."""
