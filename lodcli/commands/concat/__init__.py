"""`lod concat`."""
