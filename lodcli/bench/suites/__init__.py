"""The tasks of each part of `lod bench`."""
