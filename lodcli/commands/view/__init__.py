"""`lod view`."""
