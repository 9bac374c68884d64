"""CUDA through cupy: launches, transfers, headers that kernels share.

Data stays on the device, and nothing here waits for it. An index is small and lives in
main memory: what kernels need of it is copied over once and kept.
"""
