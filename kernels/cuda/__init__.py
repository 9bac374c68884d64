"""CUDA through cupy: launches, transfers, shared headers.

Data stays on the device, and nothing here waits for it. An index is small and is in
main memory: what kernels need of it is copied over once and kept.
"""
