"""`lod bench`."""
