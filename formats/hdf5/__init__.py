"""HDF5 of other projects, read with libhdf5."""
