"""The lod container: HDF5 that any tool can read and ours can trust. See docs/format.md."""
