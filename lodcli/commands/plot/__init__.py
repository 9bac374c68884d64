"""`lod plot`."""
