"""CUDA through cupy: launches, transfers, shared headers.

Rows stay on the device, and launches are asynchronous. The index is small and stays in
main memory; the offsets that kernels need are copied to the device once and cached.
"""
