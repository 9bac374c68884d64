"""`lod train`."""
