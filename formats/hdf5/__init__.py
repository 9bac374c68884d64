"""HDF5 of other projects, read through libhdf5."""
