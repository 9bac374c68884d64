"""What is measured: the work of each part of `lod bench`."""
