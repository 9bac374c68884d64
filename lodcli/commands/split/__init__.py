"""`lod split`."""
