"""The lod container: HDF5 that any tool can read and lod can verify. See docs/format.md."""
