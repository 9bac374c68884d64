"""`lod apply`."""
