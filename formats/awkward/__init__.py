"""Awkward arrays as buffers in npz and HDF5 files."""
