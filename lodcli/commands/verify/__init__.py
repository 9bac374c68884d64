"""`lod verify`."""
