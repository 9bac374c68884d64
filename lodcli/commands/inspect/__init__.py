"""`lod inspect`."""
