"""`lod diff`."""
